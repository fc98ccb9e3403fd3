"""What a handler can say: an answer, a wait, nothing at all, the end of the connection."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mockbroker.context import Context

#: What a parked request waits for, as a tuple of plain values: ("log", topic_id, 0), ("share", "g", topic_id, 0).
Key = tuple[Hashable, ...]


class Reply(msgspec.Struct, frozen=True):
    """Answer now with this response, encoded in the version of the request."""

    response: msgspec.Struct


class Park(msgspec.Struct, frozen=True):
    """Wait: `resume` runs when one of the keys is woken, and at the deadline.

    `resume` runs any number of times and must be safe to repeat; it answers a `Reply`, or parks again.
    At the deadline (`ctx.now_ms >= deadline_ms`) it must not park with the same deadline again.
    """

    deadline_ms: int
    wakes_on: tuple[Key, ...]
    resume: Callable[[Context], Outcome]


class Silence(msgspec.Struct, frozen=True):
    """Send nothing, and go on with the next request: a Produce with acks=0."""


class Hangup(msgspec.Struct, frozen=True):
    """Close the connection, as Kafka does when it cannot answer at all; the reason goes to the log."""

    reason: str


class Farewell(msgspec.Struct, frozen=True):
    """Answer with this response, and close the connection; the reason goes to the log."""

    response: msgspec.Struct
    reason: str


class Token(msgspec.Struct, frozen=True):
    """Send these bytes as they are, without a header: what a SASL mechanism says where its tokens have none."""

    data: bytes

    def __repr__(self) -> str:
        return "Token(***)"


Outcome = Reply | Park | Silence | Hangup | Farewell | Token
