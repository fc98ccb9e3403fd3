"""`AppendOrigin`: who appends to a log."""

from __future__ import annotations

from enum import Enum


class AppendOrigin(Enum):
    """The origin of an append: a client, whose batches are validated, or the broker itself.

    OLD_LOG: a log that is older than magic 2, whose messages are stored as they are; Kafka 4 only reads them (KIP-724).
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"
    OLD_LOG = "old-log"
