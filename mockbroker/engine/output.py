"""What the core returns to its driver: frames to send and connections to close."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mockbroker.journal import Exchange

if TYPE_CHECKING:
    from kwire.primitives import Part


class Send(msgspec.Struct, frozen=True, gc=False):
    """A frame body to send on this connection, in parts; record batches are views of the log."""

    connection_id: int
    parts: tuple[Part, ...]
    exchange: Exchange

    @property
    def body(self) -> bytes:
        """The frame body as one object."""
        return b"".join(self.parts)


class SendBytes(msgspec.Struct, frozen=True):
    """Bytes to send on this connection as they are: a part of a frame, with its length, that a fault has made."""

    connection_id: int
    data: bytes
    exchange: Exchange


class Close(msgspec.Struct, frozen=True):
    """A connection to close, and the reason.

    is_abrupt: without sending pending output, as the broker was killed. is_reset: with a TCP reset.
    """

    connection_id: int
    reason: str
    is_abrupt: bool = False
    is_reset: bool = False


class HalfClose(msgspec.Struct, frozen=True):
    """A connection on which nothing is sent any more, while the client may still send."""

    connection_id: int


class Unmute(msgspec.Struct, frozen=True):
    """A connection whose requests are handled again after a throttle time: it may be read again."""

    connection_id: int


class Note(msgspec.Struct, frozen=True):
    """A comment for the capture of this connection, where a fault left no response that could carry it."""

    connection_id: int
    text: str


Output = Send | SendBytes | Close | HalfClose | Unmute | Note
