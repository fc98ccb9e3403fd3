"""Pairs requests with responses by connection and correlation id, in any order of capture."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from kwire.capture.kafka.exchange import Client, Exchange
from kwire.capture.kafka.exchange_pairing import (
    DISORDER_NS,
    FRAME_COST,
    NO_RESPONSE_REASONS,
    ORPHANS_MAX,
    PENDING_REQUESTS_MAX,
    PENDING_SIZE_MAX,
    add_duplicate_issue,
    make_token_request,
    make_token_response,
)
from kwire.capture.kafka.heuristics import begins_request
from kwire.capture.kafka.message_decoder import API_VERSIONS, MessageDecoder, Request, Response
from kwire.capture.kafka.sasl import find_principal
from kwire.capture.kafka.session_tracker import SessionTracker
from kwire.capture.model import CaptureIssue, Flow, FlowClosed, Frame, FrameEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.options import Options

_PRODUCE, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 0, 17, 36


def pair_with_ends(events: Iterable[FrameEvent | CaptureIssue], options: Options) -> Iterator[Outcome | FlowClosed]:
    """As `pair_exchanges`, with the end of each connection behind its exchanges."""
    pairer = ExchangePairer(options)
    for event in events:
        if isinstance(event, Frame | FlowClosed):
            yield from pairer.take_event(event)
        if not isinstance(event, Frame):
            yield event


def pair_exchanges(events: Iterable[FrameEvent | CaptureIssue], options: Options) -> Iterator[Outcome]:
    """Each request with its response as soon as both were captured; requests without one when the connection closes."""
    return (each for each in pair_with_ends(events, options) if not isinstance(each, FlowClosed))


class ExchangePairer:
    """Pairs the requests and responses of all connections."""

    def __init__(self, options: Options) -> None:
        """`options.sessions`: whether exchanges have their `session`."""
        self._decoder = MessageDecoder(options.edition, options.decoded_messages)
        self._connections: dict[Flow, _ConnectionPairer] = {}
        self._budget = _PendingBudget()
        self._sessions = SessionTracker() if options.sessions else None

    def take_event(self, event: Frame | FlowClosed) -> Iterator[Exchange]:
        """The exchanges that a frame, or the end of a connection, completes."""
        if isinstance(event, Frame):
            connection = self._connections.get(event.flow)
            if connection is None:
                connection = _ConnectionPairer(event.flow, self._decoder, self._budget)
                self._connections[event.flow] = connection
            return _with_sessions(connection.take_frame(event), self._sessions)
        closed = self._connections.pop(event.flow, None)
        return iter(()) if closed is None else _with_sessions(closed.close(event.reason), self._sessions)

    def expire(self, before_ts: int) -> Iterator[Exchange]:
        """Return the requests that were sent before this time without waiting for their responses."""
        for connection in self._connections.values():
            yield from _with_sessions(connection.expire(before_ts), self._sessions)


def _with_sessions(exchanges: Iterator[Exchange], sessions: SessionTracker | None) -> Iterator[Exchange]:
    for exchange in exchanges:
        if sessions is not None:
            exchange.session = sessions.follow(exchange)
        yield exchange


class _PendingBudget:
    """Memory of all frames that wait for their other half."""

    def __init__(self) -> None:
        self._size = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether the memory exceeds its limit."""
        return self._size > PENDING_SIZE_MAX

    def add(self, frame: Frame) -> None:
        """Count a frame that starts to wait."""
        self._size += len(frame.data) + FRAME_COST

    def remove(self, frame: Frame) -> None:
        """Remove a frame that no longer waits."""
        self._size -= len(frame.data) + FRAME_COST


class _ConnectionPairer:
    """Pairs the requests and responses of one connection."""

    def __init__(self, flow: Flow, decoder: MessageDecoder, budget: _PendingBudget) -> None:
        self._flow = flow
        self._decoder = decoder
        self._budget = budget
        self._client = Client()
        self._mechanism: str | None = None
        self._expects_tokens = False
        # By number.
        self._open: dict[int, Request] = {}
        self._pending: dict[int, deque[Request]] = {}
        self._tokens: deque[Request] = deque()
        self._orphans: dict[int, Frame] = {}
        self._request_count = 0
        self._last_answered = -1

    def take_frame(self, frame: Frame) -> Iterator[Exchange]:
        """The exchanges that a frame of either side completes."""
        return self._take_request(frame) if frame.is_request else self._take_response(frame)

    def close(self, reason: str) -> Iterator[Exchange]:
        """Return open requests and responses without their other half."""
        for request in self._open.values():
            self._budget.remove(request.frame)
            request.add_issue("no_response", NO_RESPONSE_REASONS[reason])
            yield self._make_exchange(request, None)
        for correlation_id in list(self._orphans):
            yield self._make_orphan_exchange(self._remove_orphan(correlation_id))

    def expire(self, before_ts: int) -> Iterator[Exchange]:
        """Return requests that were sent before this time; a later response is returned without its request."""
        expired = [each for each in self._open.values() if each.frame.ts < before_ts and not each.is_token]
        for request in expired:
            self._remove_open(request)
            request.add_issue("no_response", NO_RESPONSE_REASONS["expired"])
            yield self._make_exchange(request, None)
        for correlation_id in [key for key, frame in self._orphans.items() if frame.ts < before_ts]:
            yield self._make_orphan_exchange(self._remove_orphan(correlation_id))

    def _remove_orphan(self, correlation_id: int) -> Frame:
        frame = self._orphans.pop(correlation_id)
        self._budget.remove(frame)
        return frame

    def _drop_oldest(self) -> Iterator[Exchange]:
        """Return the oldest requests without a response while a limit is exceeded."""
        while len(self._open) > PENDING_REQUESTS_MAX or (self._budget.is_exceeded and len(self._open) > 1):
            request = next(iter(self._open.values()))
            self._remove_open(request)
            request.add_issue("no_response", NO_RESPONSE_REASONS["many"])
            yield self._make_exchange(request, None)

    def _add_open(self, request: Request) -> None:
        self._open[request.number] = request
        self._budget.add(request.frame)

    def _remove_open(self, request: Request) -> None:
        del self._open[request.number]
        self._budget.remove(request.frame)
        if request.is_token:
            self._tokens.remove(request)
            return
        correlation_id = request.correlation_id
        assert correlation_id is not None
        queue = self._pending[correlation_id]
        queue.remove(request)
        if queue:
            self._flow.pending_requests[correlation_id] = len(queue)
        else:
            del self._pending[correlation_id], self._flow.pending_requests[correlation_id]

    def _take_request(self, frame: Frame) -> Iterator[Exchange]:
        request = self._make_token_request(frame) if self._is_token(frame) else self._decoder.decode_request(frame)
        request.number, request.in_flight = self._request_count, len(self._open)
        self._request_count += 1
        self._learn_from_request(request)
        if request.is_token:
            self._tokens.append(request)
            self._add_open(request)
            yield from self._drop_oldest()
            return
        correlation_id = request.correlation_id
        if correlation_id is None or not request.expects_response:
            yield self._make_exchange(request, None)
            return
        orphan = self._orphans.get(correlation_id)
        if orphan is not None and orphan.end_ts >= frame.ts - DISORDER_NS:
            # The response was captured first, or the request waited until a gap was filled.
            self._remove_orphan(correlation_id)
            yield self._pair(request, orphan)
            return
        queue = self._pending.setdefault(correlation_id, deque())
        if queue:
            add_duplicate_issue(request)
        queue.append(request)
        self._flow.pending_requests[correlation_id] = len(queue)
        self._add_open(request)
        yield from self._drop_oldest()

    def _take_response(self, frame: Frame) -> Iterator[Exchange]:
        correlation_id = struct.unpack_from(">i", frame.data)[0] if len(frame.data) >= 4 else None
        queue = self._pending.get(correlation_id) if correlation_id is not None else None
        if self._tokens and not (queue and queue[0].number < self._tokens[0].number):
            # Raw tokens have no correlation id: responses come in the order of the requests.
            request = self._tokens[0]
            self._remove_open(request)
            yield self._make_exchange(request, self._make_token_response(request, frame))
            return
        if queue and correlation_id is not None:
            request = queue[0]
            self._remove_open(request)
            yield self._pair(request, frame)
        elif correlation_id is None:
            yield self._make_orphan_exchange(frame)
        else:
            if correlation_id in self._orphans:
                yield self._make_orphan_exchange(self._remove_orphan(correlation_id))
            self._orphans[correlation_id] = frame
            self._budget.add(frame)
            while len(self._orphans) > ORPHANS_MAX or (self._budget.is_exceeded and len(self._orphans) > 1):
                yield self._make_orphan_exchange(self._remove_orphan(next(iter(self._orphans))))

    def _pair(self, request: Request, frame: Frame) -> Exchange:
        response = self._decoder.decode_response(frame, request)
        response.order_ok = request.number > self._last_answered
        self._last_answered = max(self._last_answered, request.number)
        self._learn_from_response(request, response)
        return self._make_exchange(request, response)

    def _make_exchange(self, request: Request | None, response: Response | None) -> Exchange:
        return Exchange(self._flow, self._client, request, response)

    def _make_orphan_exchange(self, frame: Frame) -> Exchange:
        """An exchange of a response without its request."""
        return self._make_exchange(None, self._decoder.decode_response(frame, None))

    def _learn_from_request(self, request: Request) -> None:
        """Store what a request contains about its client or about the following requests."""
        body = request.body
        if body is None:
            return
        if request.api_key == _PRODUCE:
            request.expects_response = getattr(body, "acks", 1) != 0
        elif request.api_key == API_VERSIONS and request.version >= 3:
            name, version = getattr(body, "client_software_name", ""), getattr(body, "client_software_version", "")
            self._client = replace(self._client, software_name=name or None, software_version=version or None)
        elif request.api_key == _SASL_HANDSHAKE:
            self._mechanism = getattr(body, "mechanism", None)
            # Version 0 is followed by the mechanism's tokens in frames without any header (KIP-152).
            self._expects_tokens = request.version == 0

    def _learn_from_response(self, request: Request, response: Response) -> None:
        if request.api_key != _SASL_AUTHENTICATE or getattr(response.body, "error_code", 1) != 0:
            return
        principal = find_principal(self._mechanism, bytes(getattr(request.body, "auth_bytes", b"")))
        if principal is not None:
            self._client = replace(self._client, principal=principal)

    def _is_token(self, frame: Frame) -> bool:
        if not self._expects_tokens:
            return False
        self._expects_tokens = not begins_request(frame.size, frame.data)
        return self._expects_tokens

    def _make_token_request(self, frame: Frame) -> Request:
        principal = find_principal(self._mechanism, frame.data)
        if principal is not None:
            self._client = replace(self._client, principal=principal)
        return make_token_request(frame, self._mechanism)

    def _make_token_response(self, request: Request, frame: Frame) -> Response:
        self._last_answered = max(self._last_answered, request.number)
        return make_token_response(frame)
