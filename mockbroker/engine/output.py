"""What the core returns to its driver: frames to send and connections to close."""

from __future__ import annotations

import msgspec

from mockbroker.journal import Exchange


class Send(msgspec.Struct, frozen=True):
    """A frame body to send on this connection."""

    connection_id: int
    body: bytes
    exchange: Exchange


class Close(msgspec.Struct, frozen=True):
    """A connection to close, and the reason; is_abrupt: without sending pending output, as the broker was killed."""

    connection_id: int
    reason: str
    is_abrupt: bool = False


Output = Send | Close
