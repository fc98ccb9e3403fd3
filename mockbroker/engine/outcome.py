"""The outcomes that a handler can return: an answer, a wait, no answer, the end of the connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import WakeKey
    from mockbroker.engine.context import Context


class Reply(msgspec.Struct, frozen=True, gc=False):
    """Answer now with this response, encoded in the version of the request."""

    response: msgspec.Struct


class Park(msgspec.Struct, frozen=True):
    """Wait: `resume` runs when one of the keys is woken, and at the deadline.

    `resume` runs any number of times and must be safe to repeat; it returns a `Reply`, or parks again.
    At the deadline (`ctx.now_ms >= deadline_ms`) it must not park with the same deadline again.
    is_recheck: the deadline is no time at which the client gets an answer.
    """

    deadline_ms: int
    wakes_on: tuple[WakeKey, ...]
    resume: Callable[[Context], Outcome]
    is_recheck: bool = False


class NoReply(msgspec.Struct, frozen=True):
    """Send nothing, and continue with the next request: a Produce with acks=0."""


class CloseConnection(msgspec.Struct, frozen=True):
    """Close the connection, as Kafka does when it cannot answer at all; the reason is logged."""

    reason: str


class ReplyAndClose(msgspec.Struct, frozen=True):
    """Answer with this response, and close the connection; the reason is logged."""

    response: msgspec.Struct
    reason: str


class RawSaslToken(msgspec.Struct, frozen=True):
    """Send these bytes without a response header: the token of a SASL exchange without SaslAuthenticate requests."""

    data: bytes

    def __repr__(self) -> str:
        return "RawSaslToken(***)"


Outcome = Reply | Park | NoReply | CloseConnection | ReplyAndClose | RawSaslToken
