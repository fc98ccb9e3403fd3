"""Bodies of requests and responses on the wire, the filters on them, and events."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec

from mockbroker.control.models.common import Count, RequestModel, ResponseModel

#: The maximum number of exchanges in one response.
EXCHANGES_MAX = 1000

EventKind = Literal[
    "request", "exchange", "group", "share-partition", "topic", "node", "fault", "chaos", "clock", "reset"
]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)


class ExchangeFilters(RequestModel, frozen=True, omit_defaults=True):
    """Which requests, as `Cluster.requests`; every filter that is given must match.

    api: the name of an API. group, member, transactionalId: that the request names. topic, partition: that the request
    or its response names. filter: a condition in the language of `kwire decode -Y` on exchanges, with an api also on
    the fields of its request. after: only requests with a higher number.
    """

    api: str | None = None
    client_id: str | None = None
    node: int | None = None
    connection: int | None = None
    principal: str | None = None
    version: int | None = None
    group: str | None = None
    member: str | None = None
    transactional_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    filter: str | None = None
    after: Count | None = None


class ExchangesParameters(ExchangeFilters, frozen=True):
    """Which requests, and how they are shown.

    answered: only those with a response. error: only those whose response has this error code, by name or number, in
    any part; "NONE": without an error. order: "asc" by number, or "desc", the newest first. bodies: with the decoded
    request and response. payload: with the records in them as base64, instead of their number and size.
    """

    answered: bool = False
    error: str | None = None
    order: Literal["asc", "desc"] = "asc"
    limit: Annotated[int, msgspec.Meta(ge=1, le=EXCHANGES_MAX)] = 100
    bodies: bool = True
    payload: bool = False


class Exchange(ResponseModel, frozen=True):
    """A request, and its response or the reason that there is none (`closed`).

    request, response: in Kafka's JSON form, with secrets as "***" and summaries of records; null if they are left out.
    unread: the broker has not read it: its connection is throttled, or an earlier request of it is not answered.
    errors: the names of the errors in the response. topics: the partitions by topic that either names. arrivedMs,
    answeredMs: by the cluster's clock. requestBytes, responseBytes: of the frames, without their length.
    """

    number: int
    api: str
    version: int
    node: int
    connection: int
    client: str
    client_id: str | None
    principal: str
    correlation_id: int
    arrived_ms: int
    answered_ms: int | None
    request_bytes: int
    response_bytes: int
    errors: list[str]
    topics: dict[str, list[int]]
    faults: list[str]
    decode_warnings: list[str]
    closed: str | None
    unread: bool
    request: dict[str, Any] | None = None
    response: dict[str, Any] | None = None


class Exchanges(ResponseModel, frozen=True):
    """Requests that match. count: of all that match; exchanges: of these the first ones in the order, up to the limit.

    lastNumber: of the newest request of any kind, for `after`. dropped: how many old ones are not kept any more.
    """

    exchanges: list[Exchange]
    count: int
    last_number: int
    dropped: int


class ExchangePath(RequestModel, frozen=True):
    """number: of a request. payload: with the records as base64."""

    number: int
    payload: bool = False


class ExchangeBytesPath(RequestModel, frozen=True):
    """number: of a request. view: one line for each field, with its range of bytes ("tree"), or all bytes ("hex").

    payload: with keys and values of records.
    """

    number: int
    view: Literal["tree", "hex"] = "tree"
    payload: bool = False


class FrameBytes(ResponseModel, frozen=True):
    """A frame without the four bytes of its length. size: bytes. lines: as text. isCut: there are more lines.

    problem: why the bytes are not shown; null if they are.
    """

    size: int
    lines: list[str]
    is_cut: bool = False
    problem: str | None = None


class ExchangeBytes(ResponseModel, frozen=True):
    """The bytes of a request and of its response, null without one, by the fields that they belong to."""

    number: int
    request: FrameBytes
    response: FrameBytes | None


class ConformanceParameters(RequestModel, frozen=True):
    """Which notes. ignore: rules that are left out, comma-separated. clientId: only about this client."""

    ignore: str = ""
    client_id: str | None = None


class ConformanceNote(ResponseModel, frozen=True):
    """What a client did wrong though the cluster accepted it.

    rule, level: as on the page of the rules. source: what the rule is based on. exchanges: the numbers of the requests
    on which the note rests, the breach last.
    """

    rule: str
    level: Literal["error", "warning", "info"]
    text: str
    source: str
    exchanges: list[int]
    client: str
    client_id: str | None
    connection: int
    node: str


class ConformanceNotes(ResponseModel, frozen=True):
    """Conformance notes, in the order of their requests."""

    notes: list[ConformanceNote]


class EventsParameters(ExchangeFilters, frozen=True):
    """Which events. kinds: comma-separated; all without it. The filters are for events of requests.

    lastEventId: as the header Last-Event-ID: the stream goes on after this event.
    """

    kinds: str | None = None
    last_event_id: str | None = None
    bodies: bool = False


class EventStart(ResponseModel, frozen=True):
    """The first event of a stream (`start`): all that happens later is in it."""

    kinds: list[EventKind]


class EventsLost(ResponseModel, frozen=True):
    """The event `lost`. count: how many events the reader did not get because it was slow; null if that is unknown."""

    count: int | None


class Removed(ResponseModel, frozen=True):
    """In place of something that does not exist any more, as a group, topic or fault. key: its names or numbers."""

    removed: bool
    key: list[str | int]
