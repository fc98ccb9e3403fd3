"""The log directory of each node in a data directory."""

from __future__ import annotations


def node_folder(node_id: int) -> str:
    """The name of a node's log directory."""
    return f"node-{node_id}"
