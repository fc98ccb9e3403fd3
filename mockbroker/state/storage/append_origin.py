"""`AppendOrigin`: who appends to a log."""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    """The origin of an append: a client, whose batches are validated, or the broker itself."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
