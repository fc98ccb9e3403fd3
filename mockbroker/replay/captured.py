"""The conversation in a capture: requests with their responses, ends of connections, and the brokers by address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from kwire.capture.kafka.exchange import Exchange
from kwire.capture.model import CaptureIssue, Flow, FlowClosed, NonKafkaConnection, StreamGap, format_address
from kwire.capture.reader import read_connections
from kwire.registry import REMOVED_EDITION, codec_of_class

if TYPE_CHECKING:
    from kwire.capture.kafka.message_decoder import Request, Response
    from kwire.capture.options import Options

#: The maximum number of requests of one replay: all are in memory.
REQUESTS_MAX = 200_000
#: The maximum of the bytes of their messages.
BYTES_MAX = 1 << 30
_SASL_HANDSHAKE = 17

#: A broker as HOST and port.
Endpoint = tuple[str, int]


class ReplayError(Exception):
    """A capture that cannot be replayed, or a broker that it cannot be replayed to."""


class CapturedExchange(NamedTuple):
    """A request, and its response if it was captured. Times are nanoseconds. packet: of the request."""

    connection: str
    broker: Endpoint
    client_id: str | None
    api_key: int
    api_name: str
    version: int
    request: msgspec.Struct
    response: msgspec.Struct | None
    response_version: int
    sent_ns: int
    answered_ns: int | None
    packet: int


class Conversation(NamedTuple):
    """What is replayed. ends: connections with the time of their end. unreadable: what is not, with its counts."""

    exchanges: list[CapturedExchange]
    ends: list[tuple[str, int]]
    unreadable: dict[str, int]


def read_conversation(path: str, options: Options) -> Conversation:
    """Read a capture. Raises: CaptureError if it is none; ReplayError if it has too many requests."""
    conversation = Conversation([], [], {})
    size = 0
    for outcome in read_connections(path, options):
        if isinstance(outcome, Exchange):
            _add_exchange(conversation, outcome)
            size += sum(side.frame.size for side in (outcome.request, outcome.response) if side is not None)
            if len(conversation.exchanges) > REQUESTS_MAX or size > BYTES_MAX:
                limits = f"{REQUESTS_MAX} requests or {BYTES_MAX >> 30} GiB"
                raise ReplayError(f"more than {limits}; replay a part of the capture (kwire decode --write cuts it)")
        elif isinstance(outcome, FlowClosed):
            if outcome.reason in ("fin", "rst"):
                conversation.ends.append((_connection_key(outcome.flow), outcome.end_ts or outcome.ts))
        elif isinstance(outcome, StreamGap):
            _count(conversation, f"bytes are missing in a connection: {outcome.detail}")
        elif isinstance(outcome, NonKafkaConnection):
            if outcome.kind == "tls":
                _count(conversation, f"{outcome.detail} (--tls-keylog has the secrets)")
        elif isinstance(outcome, CaptureIssue):
            _count(conversation, outcome.detail)
    return conversation


def _add_exchange(conversation: Conversation, exchange: Exchange) -> None:
    request, response = exchange.request, exchange.response
    if request is None:
        _count(conversation, "a response without its request")
    elif request.is_token:
        _count(conversation, "a SASL token without a Kafka header, which cannot be sent again")
    elif request.body is None or request.is_newer or request.api_key is None or request.api_name is None:
        reason = request.issues[0].detail if request.issues else "its body is missing"
        _count(conversation, f"a request that cannot be decoded: {reason}")
    elif codec_of_class(type(request.body)).edition == REMOVED_EDITION:
        what = f"a request of a version that Kafka 4.0 removed: {request.api_name} version {request.version}"
        _count(conversation, what)
    elif request.api_key == _SASL_HANDSHAKE and cast("Any", request.body).mechanism != "PLAIN":
        mechanism = cast("Any", request.body).mechanism
        _count(conversation, f"a login with SASL {mechanism}, whose messages are different each time")
    else:
        conversation.exchanges.append(_make_exchange(exchange.flow, request, response))


def _make_exchange(flow: Flow, request: Request, response: Response | None) -> CapturedExchange:
    address, port = flow.ends[1 - flow.client_side]
    assert request.api_key is not None
    assert request.api_name is not None
    assert request.body is not None
    return CapturedExchange(
        connection=_connection_key(flow),
        broker=(format_address(address), port),
        client_id=request.client_id,
        api_key=request.api_key,
        api_name=request.api_name,
        version=request.version,
        request=request.body,
        response=None if response is None else response.body,
        response_version=request.version if response is None else response.version,
        sent_ns=request.frame.ts,
        answered_ns=None if response is None else response.frame.end_ts,
        packet=request.frame.packet,
    )


def _count(conversation: Conversation, what: str) -> None:
    conversation.unreadable[what] = conversation.unreadable.get(what, 0) + 1


def _connection_key(flow: Flow) -> str:
    (client, client_port), (broker, port) = flow.ends[flow.client_side], flow.ends[1 - flow.client_side]
    return f"{format_address(client)}:{client_port}>{format_address(broker)}:{port}/{flow.epoch}"
