"""A request in progress, its connection, and what faults may do to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from mockbroker.engine.context import ConnectionInfo
from mockbroker.engine.purgatory import DelayedRequest
from mockbroker.journal import Exchange

if TYPE_CHECKING:
    from mockbroker.engine.dispatch import IncomingRequest
    from mockbroker.engine.output import Close, HalfClose
    from mockbroker.engine.request_throttle import RequestThrottle
    from mockbroker.engine.routes import Route
    from mockbroker.engine.sasl_authenticator import SaslAuthenticator
    from mockbroker.kafka_error import KafkaError


class Connection(msgspec.Struct):
    """A client connection: the frames that wait behind the request in progress, and that request if it is parked.

    waiting: frames, each with the time of its arrival (ns of the wall clock) and its exchange in the journal, which has
    it as unread; None for one that is read at once. routes: the APIs that it is served, None for all of the cluster.
    active_ms: when a request came or was done, if idle connections are closed. is_ending: it is closed once its output
    has left, and what comes is ignored.
    """

    info: ConnectionInfo
    authenticator: SaslAuthenticator | None = None
    waiting: deque[tuple[bytes | memoryview, int, Exchange | None]] = msgspec.field(default_factory=deque)
    is_busy: bool = False
    parked: DelayedRequest[ActiveRequest] | None = None
    routes: Mapping[int, Route] | None = None
    active_ms: int | None = None
    is_ending: bool = False


class ActiveRequest(msgspec.Struct):
    """A decoded request until its response is sent.

    faults: those that matched it, or None. throttle: what it uses of quotas, None where there are none.
    """

    connection: Connection
    incoming: IncomingRequest
    exchange: Exchange
    faults: MatchedFaults | None = None
    throttle: RequestThrottle | None = None


class MatchedFaults(Protocol):
    """The faults that matched one request. Implemented by `mockbroker.faults`.

    partition_errors: as in `Context`.
    """

    partition_errors: Mapping[tuple[bytes, int], KafkaError] | None

    def start(self) -> bool:
        """Apply what comes before the work. Returns: whether the handler runs now."""

    def answer(self, response: msgspec.Struct) -> None:
        """Send the answer of the handler, changed, later or never."""


class RequestFaults(Protocol):
    """The faults of a cluster. Implemented by `mockbroker.faults`."""

    def match_request(self, request: ActiveRequest) -> MatchedFaults | None:
        """The faults that act on this request, or None."""

    def match_connection(self, info: ConnectionInfo) -> Close | HalfClose | None:
        """What happens to a new connection, or None."""
