"""One broker of the cluster: its address, and the rooms that hold its state."""

from __future__ import annotations


class Node:
    """A broker; what another node wants of it travels by `Calls`."""
