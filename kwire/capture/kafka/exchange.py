"""An exchange, which is a request with its response, and the other outcomes of reading a capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.model import CaptureIssue, NonKafkaConnection, Row, StreamGap

if TYPE_CHECKING:
    from kwire.capture.kafka.fetch_sessions import FetchSession
    from kwire.capture.kafka.message_decoder import Request, Response
    from kwire.capture.model import Flow


@dataclass(frozen=True, slots=True)
class Client:
    """Properties of the client of a connection, from its earlier requests."""

    software_name: str | None = None
    software_version: str | None = None
    principal: str | None = None


@dataclass(slots=True)
class Exchange:
    """A request with its response; one of them may be missing. `session` is the session of a fetch."""

    flow: Flow
    client: Client
    request: Request | None
    response: Response | None
    session: FetchSession | None = None


class TrafficRow(NamedTuple):
    """A connection, or a packet, as a row of the level `flows` or `packets`."""

    level: str
    row: Row


Outcome = Exchange | StreamGap | NonKafkaConnection | CaptureIssue | TrafficRow
