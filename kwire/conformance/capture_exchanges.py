"""The exchanges of a capture, as the conformance rules read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kwire.capture.kafka.exchange import Exchange
from kwire.capture.model import CaptureIssue, Flow, FlowClosed, NonKafkaConnection, StreamGap, format_address
from kwire.capture.options import Options
from kwire.capture.reader import read_connections
from kwire.conformance.checker import find_notes
from kwire.conformance.model import ConnectionEnd, ConnectionGap, ConnectionGapEnd, Note, ObservedExchange
from kwire.conformance.newest_form import newest_form
from kwire.conformance.produced_batches import produced_batches, remove_records

if TYPE_CHECKING:
    from kwire.capture.files.source import Source
    from kwire.capture.kafka.message_decoder import Request
    from kwire.capture.model import Frame
    from kwire.conformance.checker import Observation


def find_capture_notes(source: Source, options: Options | None = None) -> list[Note]:
    """The notes about a capture, in the order of time. options: its edition, ports and TLS secrets.

    Raises: CaptureError if it is no capture.
    """
    return find_notes(CaptureObserver().observe(source, options or Options()))


#: Produce, Fetch, ShareFetch: without their records they are small.
_WITH_RECORDS = frozenset({0, 1, 78})
_PRODUCE = 0
_STRUCT_SIZE = 2000


class _ConnectionGaps:
    """Finds where the gaps in both directions of one connection begin and end.

    A gap begins with the last frame before it, since what is missing may have been sent then, and ends with the first
    frame behind it.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        # Of responses and requests: the end of the last frame, and the offset of the open gap.
        self._last_ts = [0, 0]
        self._open_at: list[int | None] = [None, None]
        self._has_responses = False

    def take_gap(self, gap: StreamGap) -> Iterator[Observation]:
        """Bytes of a side are missing."""
        yield from self._open(gap.is_request, gap.offset, self._last_ts[gap.is_request])

    def take_exchange(self, exchange: Exchange) -> Iterator[Observation]:
        """An exchange is complete. Without any response the side that sends them may not have been captured."""
        request, response = exchange.request, exchange.response
        self._has_responses |= response is not None
        if request is not None and response is None and request.expects_response and not self._has_responses:
            yield from self._open(False, -1, request.frame.ts)
        for side in (request, response):
            if side is not None:
                yield from self._take_frame(side.frame)

    def _open(self, is_request: bool, offset: int, at_ns: int) -> Iterator[Observation]:
        if self._open_at[is_request] is None:
            self._open_at[is_request] = offset
            yield ConnectionGap(self._key, at_ns, is_open=True)

    def _take_frame(self, frame: Frame) -> Iterator[Observation]:
        open_at = self._open_at[frame.is_request]
        self._last_ts[frame.is_request] = max(self._last_ts[frame.is_request], frame.end_ts)
        if open_at is not None and frame.offset > open_at:
            self._open_at[frame.is_request] = None
            yield ConnectionGapEnd(self._key, frame.end_ts)


class CaptureObserver:
    """Reads a capture. exchanges: how many were read. unread: connections and packets that cannot be, by reason."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.unread: dict[str, int] = {}
        self._gaps: dict[Flow, _ConnectionGaps] = {}

    def observe(self, source: Source, options: Options) -> Iterator[Observation]:
        """The exchanges as they complete, ends of connections and gaps. Raises: CaptureError if it is no capture."""
        for outcome in read_connections(source, options):
            if isinstance(outcome, Exchange):
                yield from self._gaps_of(outcome.flow).take_exchange(outcome)
                yield from self._observe_exchange(outcome)
            elif isinstance(outcome, FlowClosed):
                self._gaps.pop(outcome.flow, None)
                yield from _observe_end(outcome)
            elif isinstance(outcome, StreamGap):
                yield from self._gaps_of(outcome.flow).take_gap(outcome)
            elif isinstance(outcome, NonKafkaConnection) and outcome.kind == "tls":
                self.unread[outcome.detail] = self.unread.get(outcome.detail, 0) + 1
            elif isinstance(outcome, CaptureIssue):
                self.unread[outcome.detail] = self.unread.get(outcome.detail, 0) + outcome.packets

    def _gaps_of(self, flow: Flow) -> _ConnectionGaps:
        gaps = self._gaps.get(flow)
        if gaps is None:
            gaps = self._gaps[flow] = _ConnectionGaps(_connection_key(flow))
        return gaps

    def _observe_exchange(self, exchange: Exchange) -> Iterator[Observation]:
        request, response = exchange.request, exchange.response
        key = _connection_key(exchange.flow)
        frame = request.frame if request is not None else None
        if request is None or frame is None or (request.body is None and not request.is_token):
            assert response is not None or frame is not None
            at = frame or (response.frame if response is not None else None)
            yield ConnectionGap(key, at.ts if at is not None else 0)
        if request is None or request.is_token or request.api_key is None or request.api_version is None:
            return
        self.exchanges += 1
        observed = _make_observed(exchange, request, self.exchanges)
        # A response that cannot be decoded may have changed anything.
        if response is not None and response.body is None:
            yield ConnectionGap(key, response.frame.ts)
        yield observed


def _make_observed(exchange: Exchange, request: Request, number: int) -> ObservedExchange:
    flow, response = exchange.flow, exchange.response
    batches, size = None, request.frame.size + (response.frame.size if response is not None else 0)
    if request.api_key in _WITH_RECORDS:
        if request.api_key == _PRODUCE and request.body is not None:
            batches = tuple(produced_batches(request.body))
        for body in (request.body, response.body if response is not None else None):
            remove_records(body)
        size = _STRUCT_SIZE
    answered_ns = response.frame.end_ts if response is not None else None
    assert request.api_key is not None
    assert request.api_version is not None
    assert request.correlation_id is not None
    return ObservedExchange(
        number=number,
        connection=_connection_key(flow),
        node=_endpoint_text(flow, 1 - flow.client_side),
        client=_endpoint_text(flow, flow.client_side),
        client_id=request.client_id,
        api_key=request.api_key,
        api_name=request.api_name or f"API {request.api_key}",
        api_version=request.api_version,
        correlation_id=request.correlation_id,
        sent_ns=request.frame.ts,
        sent_ms=request.frame.ts / 1e6,
        request=newest_form(request.body),
        response=newest_form(response.body) if response is not None else None,
        answered_ns=answered_ns,
        answered_ms=answered_ns / 1e6 if answered_ns is not None else None,
        packet=request.frame.packet or None,
        expects_response=request.expects_response,
        decode_warnings=tuple(
            f"{issue.path}: {issue.detail}" if issue.path else issue.detail
            for issue in request.issues
            if issue.kind == "protocol_violation"
        ),
        batches=batches,
        size=size,
    )


def _observe_end(closed: FlowClosed) -> Iterator[Observation]:
    """The end, if it was captured; a connection that is open when the capture ends has none."""
    key = _connection_key(closed.flow)
    if closed.reason in ("fin", "rst"):
        is_clean = closed.reason == "fin" and closed.fin_side == closed.flow.client_side
        yield ConnectionEnd(key, closed.end_ts or closed.ts, is_clean)
    elif closed.reason != "end":
        yield ConnectionGap(key, closed.ts)


def _connection_key(flow: Flow) -> str:
    client, broker = (_endpoint_text(flow, side) for side in (flow.client_side, 1 - flow.client_side))
    return f"{client}>{broker}" if not flow.epoch else f"{client}>{broker} ({flow.epoch})"


def _endpoint_text(flow: Flow, side: int) -> str:
    address, port = flow.ends[side]
    return f"[{format_address(address)}]:{port}" if len(address) == 16 else f"{format_address(address)}:{port}"
