"""Pair requests with responses: by connection and correlation id, in whatever order the capture shows them."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.bodies import API_VERSIONS, Decoder, Request, Response
from kwire.capture.looking import is_request
from kwire.capture.sasl import principal_of
from kwire.capture.sessions import Session, Sessions
from kwire.capture.values import Closed, Flow, Foreign, Frame, FrameEvent, Lost, Trouble
from kwire.capture.watching import Ended, Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.options import Options

_PRODUCE, _SASL_HANDSHAKE, _SASL_AUTHENTICATE = 0, 17, 36
# Responses that wait for a request that the capture shows later; more of them are given up as `no_request`.
ORPHANS_MAX = 256
# Requests of one connection that wait; more of them are given up as `no_response`. Nobody has so many in flight, but a
# capture of one direction has no answers.
WAITING_MAX = 10_000
# What all that waits may take together; beyond it each connection gives up its oldest.
HELD_SIZE_MAX = 512 * 1024 * 1024
# What a frame takes beside its bytes.
_FRAME_COST = 2_000
# By how much a response may seem to come before its request, where the capture is out of order.
DISORDER_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Client:
    """What is known of the client of a connection, from what it sent before."""

    software_name: str | None = None
    software_version: str | None = None
    principal: str | None = None


@dataclass(slots=True)
class Exchange:
    """A request with its response; one of them may be missing. `session` is the one that a fetch belongs to."""

    flow: Flow
    client: Client
    request: Request | None
    response: Response | None
    session: Session | None = None


Outcome = Exchange | Lost | Foreign | Trouble | Ended | Seen


def exchanges(events: Iterable[FrameEvent | Trouble], options: Options) -> Iterator[Outcome]:
    """Every request with its response as soon as both are there; the rest when the connection closes."""
    pairing = Exchanges(options)
    for event in events:
        if isinstance(event, Frame | Closed):
            yield from pairing.take(event)
        else:
            yield event


class Exchanges:
    """The open requests of all connections."""

    def __init__(self, options: Options) -> None:
        """`options.sessions` says whether exchanges tell of their sessions."""
        self._decoder = Decoder(options.edition, options.decoded)
        self._pairings: dict[Flow, _Pairing] = {}
        self._held = _Held()
        self._sessions = Sessions() if options.sessions else None

    def take(self, event: Frame | Closed) -> Iterator[Exchange]:
        """What a frame, or the end of a connection, completes."""
        if isinstance(event, Frame):
            pairing = self._pairings.get(event.flow)
            if pairing is None:
                pairing = self._pairings[event.flow] = _Pairing(event.flow, self._decoder, self._held)
            return _followed(pairing.take(event), self._sessions)
        done = self._pairings.pop(event.flow, None)
        return iter(()) if done is None else _followed(done.close(event.why), self._sessions)

    def standing(self, flow: Flow) -> Standing | None:
        """What is open of a connection; None where nothing has come of it, or SASL tokens without headers may come."""
        pairing = self._pairings.get(flow)
        return None if pairing is None else pairing.standing()

    def expire(self, before_ts: int) -> Iterator[Exchange]:
        """The requests that were sent before this time are not waited for any longer."""
        for pairing in self._pairings.values():
            yield from _followed(pairing.expire(before_ts), self._sessions)


def _followed(found: Iterator[Exchange], sessions: Sessions | None) -> Iterator[Exchange]:
    for exchange in found:
        if sessions is not None:
            exchange.session = sessions.follow(exchange)
        yield exchange


class Standing(NamedTuple):
    """How a connection stands: the requests and responses that wait.

    asked: how many requests there were. answered: the number of the latest one that was answered, -1 before.
    """

    requests: list[Request]
    responses: list[Frame]
    asked: int
    in_flight: int
    answered: int


class _Held:
    """What all frames take that wait for their other half."""

    def __init__(self) -> None:
        self._size = 0

    @property
    def is_much(self) -> bool:
        """Whether it is more than it may be."""
        return self._size > HELD_SIZE_MAX

    def take(self, frame: Frame) -> None:
        """One more waits."""
        self._size += len(frame.data) + _FRAME_COST

    def give(self, frame: Frame) -> None:
        """One waits no longer."""
        self._size -= len(frame.data) + _FRAME_COST


class _Pairing:
    """The open requests of one connection."""

    def __init__(self, flow: Flow, decoder: Decoder, held: _Held) -> None:
        self._flow = flow
        self._decoder = decoder
        self._held = held
        self._client = Client()
        self._mechanism: str | None = None
        self._expects_tokens = False
        self._waiting: dict[int, deque[Request]] = {}
        self._tokens: deque[Request] = deque()
        self._orphans: dict[int, Frame] = {}
        self._count = 0
        self._in_flight = 0
        self._answered = -1

    def standing(self) -> Standing | None:
        """What is open; None where tokens without headers wait or may come."""
        if self._expects_tokens or self._tokens:
            return None
        requests = [request for queue in self._waiting.values() for request in queue]
        return Standing(requests, list(self._orphans.values()), self._count, self._in_flight, self._answered)

    def take(self, frame: Frame) -> Iterator[Exchange]:
        """One frame of either side."""
        if frame.is_request:
            yield from self._request(frame)
        else:
            yield from self._response(frame)

    def close(self, why: str) -> Iterator[Exchange]:
        """What is open stays without its other half."""
        rest = [*self._tokens, *(request for queue in self._waiting.values() for request in queue)]
        for request in sorted(rest, key=lambda each: each.number):
            self._held.give(request.frame)
            request.note("no_response", ENDED[why])
            yield self._exchange(request, None)
        for orphan in self._orphans.values():
            self._held.give(orphan)
            yield self._exchange(None, self._decoder.response(orphan, None))

    def expire(self, before_ts: int) -> Iterator[Exchange]:
        """Give up what was sent before this time; an answer that comes yet stands alone."""
        late = [each for queue in self._waiting.values() for each in queue if each.frame.ts < before_ts]
        for request in sorted(late, key=lambda each: each.number):
            assert request.correlation_id is not None
            self._leave(request.correlation_id, request)
            request.note("no_response", ENDED["expired"])
            yield self._exchange(request, None)
        for correlation_id in [each for each, frame in self._orphans.items() if frame.ts < before_ts]:
            yield self._exchange(None, self._decoder.response(self._no_orphan(correlation_id), None))

    def _no_orphan(self, correlation_id: int) -> Frame:
        """The response waits no longer."""
        frame = self._orphans.pop(correlation_id)
        self._held.give(frame)
        return frame

    def _give_up_oldest(self) -> Iterator[Exchange]:
        """Make room, where more requests wait than may."""
        while self._in_flight > WAITING_MAX or (self._held.is_much and self._in_flight > 1):
            request = next(iter(self._waiting.values()))[0] if self._waiting else self._tokens[0]
            if self._tokens and self._tokens[0].number <= request.number:
                request = self._no_token()
            else:
                assert request.correlation_id is not None
                self._leave(request.correlation_id, request)
            request.note("no_response", ENDED["many"])
            yield self._exchange(request, None)

    def _no_token(self) -> Request:
        """The token that was sent first waits no longer."""
        self._in_flight -= 1
        request = self._tokens.popleft()
        self._held.give(request.frame)
        return request

    def _leave(self, correlation_id: int, request: Request) -> None:
        """The request waits no longer."""
        queue = self._waiting[correlation_id]
        queue.remove(request)
        self._in_flight -= 1
        self._held.give(request.frame)
        if queue:
            self._flow.awaited[correlation_id] = len(queue)
        else:
            del self._waiting[correlation_id], self._flow.awaited[correlation_id]

    def _request(self, frame: Frame) -> Iterator[Exchange]:
        request = self._token(frame) if self._is_token(frame) else self._decoder.request(frame)
        request.number, request.in_flight = self._count, self._in_flight
        self._count += 1
        self._learn(request)
        if request.is_token:
            self._tokens.append(request)
            self._in_flight += 1
            self._held.take(frame)
            yield from self._give_up_oldest()
            return
        correlation_id = request.correlation_id
        if correlation_id is None or not request.wants_answer:
            yield self._exchange(request, None)
            return
        orphan = self._orphans.get(correlation_id)
        if orphan is not None and orphan.end_ts >= frame.ts - DISORDER_NS:
            # The response was captured first, or the request had to wait behind a hole.
            self._no_orphan(correlation_id)
            yield self._answered_by(request, orphan)
            return
        queue = self._waiting.setdefault(correlation_id, deque())
        if queue:
            request.note("duplicate_correlation", f"correlation id {correlation_id} is still waiting for an answer")
        queue.append(request)
        self._flow.awaited[correlation_id] = len(queue)
        self._in_flight += 1
        self._held.take(frame)
        yield from self._give_up_oldest()

    def _response(self, frame: Frame) -> Iterator[Exchange]:
        correlation_id = struct.unpack_from(">i", frame.data)[0] if len(frame.data) >= 4 else None
        queue = self._waiting.get(correlation_id) if correlation_id is not None else None
        if self._tokens and not (queue and queue[0].number < self._tokens[0].number):
            # Raw tokens have no correlation id: they are answered in their turn.
            request = self._no_token()
            yield self._exchange(request, self._token_answer(request, frame))
            return
        if queue and correlation_id is not None:
            request = queue[0]
            self._leave(correlation_id, request)
            yield self._answered_by(request, frame)
        elif correlation_id is None:
            yield self._exchange(None, self._decoder.response(frame, None))
        else:
            if correlation_id in self._orphans:
                yield self._exchange(None, self._decoder.response(self._no_orphan(correlation_id), None))
            self._orphans[correlation_id] = frame
            self._held.take(frame)
            while len(self._orphans) > ORPHANS_MAX or (self._held.is_much and len(self._orphans) > 1):
                older = self._no_orphan(next(iter(self._orphans)))
                yield self._exchange(None, self._decoder.response(older, None))

    def _answered_by(self, request: Request, frame: Frame) -> Exchange:
        response = self._decoder.response(frame, request)
        response.order_ok = request.number > self._answered
        self._answered = max(self._answered, request.number)
        self._learn_answer(request, response)
        return self._exchange(request, response)

    def _exchange(self, request: Request | None, response: Response | None) -> Exchange:
        return Exchange(self._flow, self._client, request, response)

    def _learn(self, request: Request) -> None:
        """Keep what a request tells of its client or of what follows."""
        body = request.body
        if body is None:
            return
        if request.api_key == _PRODUCE:
            request.wants_answer = getattr(body, "acks", 1) != 0
        elif request.api_key == API_VERSIONS and request.version >= 3:
            name, version = getattr(body, "client_software_name", ""), getattr(body, "client_software_version", "")
            self._client = replace(self._client, software_name=name or None, software_version=version or None)
        elif request.api_key == _SASL_HANDSHAKE:
            self._mechanism = getattr(body, "mechanism", None)
            # Version 0 is followed by the mechanism's tokens in frames without any header (KIP-152).
            self._expects_tokens = request.version == 0

    def _learn_answer(self, request: Request, response: Response) -> None:
        if request.api_key != _SASL_AUTHENTICATE or getattr(response.body, "error_code", 1) != 0:
            return
        principal = principal_of(self._mechanism, bytes(getattr(request.body, "auth_bytes", b"")))
        if principal is not None:
            self._client = replace(self._client, principal=principal)

    def _is_token(self, frame: Frame) -> bool:
        if not self._expects_tokens:
            return False
        head = struct.pack(">i", frame.size) + frame.data[:1100]
        self._expects_tokens = not is_request(head, 0, max(frame.size, 0))
        return self._expects_tokens

    def _token(self, frame: Frame) -> Request:
        request = Request(frame, api_name="SaslToken", is_token=True)
        request.note("sasl_token", f"a {self._mechanism or 'SASL'} token without a header, after SaslHandshake v0")
        principal = principal_of(self._mechanism, frame.data)
        if principal is not None:
            self._client = replace(self._client, principal=principal)
        return request

    def _token_answer(self, request: Request, frame: Frame) -> Response:
        response = Response(frame, order_ok=True)
        response.note("sasl_token", "the broker's token, without a Kafka header")
        self._answered = max(self._answered, request.number)
        return response


# Why there is no answer, by how the connection ended.
ENDED = {
    "fin": "the connection was closed before an answer",
    "rst": "the connection was reset before an answer",
    "reuse": "another connection took the same ports before an answer",
    "end": "the capture ends before an answer",
    "many": "so many requests wait for answers that this one was given up",
    "expired": "no answer came within the time that open requests are kept",
    "quiet": "so many connections were open that this one, quiet for long, was given up before an answer",
}
