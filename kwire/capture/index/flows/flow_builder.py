"""Build flows from packet headers, span by span: exchanges, and the state of each flow.

The headers may come from one file while it is scanned, or from stored columns; they may be those of all flows or of
some, and of one file or of a series of files whose offsets do not overlap. A span passes through these stages:
connections and the pieces of their streams (`connections`); frames (`frame_scan`); headers; exchanges (`pairing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints
from kwire.capture.index.flows.frame_columns import (
    NO_WINDOW,
    BodyFragments,
    FileWindow,
    FragmentBuffer,
    FrameColumns,
    MessageTimes,
    ReadAt,
    StreamGapRow,
    sort_gaps,
)
from kwire.capture.index.flows.frame_headers import ClientIdTable, HeaderReader
from kwire.capture.index.flows.frame_scan import FrameScanner
from kwire.capture.index.flows.message_columns import ExchangeColumns, RequestColumns, concatenate_exchanges
from kwire.capture.index.flows.other_connections import OtherConnection, sort_connections
from kwire.capture.index.flows.pairing import RequestPairing
from kwire.capture.index.flows.pending_requests import PendingRequests
from kwire.capture.index.flows.tls_streams import TlsStreams
from kwire.capture.index.flows.undecided_flows import FindEnds, UndecidedFlows
from kwire.capture.index.flows.waiting_limits import WAITING_MAX
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams import stream_pieces
from kwire.capture.index.streams.connections import DividedSpan
from kwire.capture.index.streams.expiring_connections import ExpiringConnections
from kwire.capture.index.streams.flow_closing import FlowEnd, PacketTimes
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.reassembly import BUFFERED_TOTAL_MAX
from kwire.capture.index.streams.stream_pieces import NO_PIECES, StreamPieces, merge_pieces
from kwire.capture.kafka.client_detection import DEFAULT_SETTINGS, UNDECIDED_TOTAL_MAX, DetectionSettings
from kwire.capture.tls.key_log import KeyLog


class LimitedTotals(NamedTuple):
    """Totals over all flows of a file, after a span, that have limits.

    waiting_count: of requests and responses that wait for their other half. undecided_size: the most payload that was
    held for flows whose client is not known. buffered_count: of segments that wait behind gaps.
    """

    waiting_count: int
    undecided_size: int
    buffered_count: int


LIMITS = LimitedTotals(WAITING_MAX, UNDECIDED_TOTAL_MAX, BUFFERED_TOTAL_MAX)


class SpanResult(NamedTuple):
    """The result of one span: the exchanges that it completes, and body fragments.

    divided: the connections of its packets, and those that are closed. plaintext: what was decrypted behind the window.
    """

    exchanges: ExchangeColumns
    fragments: BodyFragments
    totals: LimitedTotals
    divided: DividedSpan
    plaintext: bytes


class FlowBuilder:
    """Builds flows; its state continues from span to span. `flows` and `client_ids` are the state so far."""

    def __init__(
        self,
        read: ReadAt,
        find_ends: FindEnds,
        settings: DetectionSettings = DEFAULT_SETTINGS,
        *,
        secrets: KeyLog | None = None,
        reads_clear: bool = True,
        waiting_size_max: int | None = None,
    ) -> None:
        """`read` reads the capture, and what earlier spans decrypted, by position.

        Args: secrets: of TLS; None to decrypt nothing. reads_clear: whether connections without TLS are read.
        waiting_size_max: of messages that wait for their other half, if their bytes are held.
        """
        self.flows = flows = FlowTable()
        self.tls = None if secrets is None else TlsStreams(flows, read, find_ends, settings, secrets)
        self._reads_clear = reads_clear
        self._plaintext = NO_WINDOW
        self._read_before = read
        if self.tls is not None:
            read = self._read
        self._fragments = FragmentBuffer()
        self._connections = ExpiringConnections(flows)
        self._request_frames = FrameScanner(flows, read, self._fragments, settings.size_max, is_request=True)
        self._response_frames = FrameScanner(flows, read, self._fragments, settings.size_max, is_request=False)
        self._headers = HeaderReader(flows, read, self._fragments, ClientIdTable())
        self._pairing = RequestPairing(flows, waiting_size_max)
        self._undecided = UndecidedFlows(flows, read, find_ends, settings)

    @property
    def client_ids(self) -> list[str]:
        """The client ids, by the numbers in requests."""
        return self._headers.client_ids.texts

    def add_span(
        self,
        headers: PacketHeaders,
        pair: Ints,
        window: FileWindow,
        times: PacketTimes | None = None,
        *,
        plain_at: int = 0,
    ) -> SpanResult:
        """Add the packets of a span.

        Args: headers: in packet order; `ends` is not used. pair: by packet, the number of its endpoints, from 0 without
        gaps, in the order of first appearance. window: the part of the file in memory; other parts are read with
        `read`. times: of all packets of the span; None if these are all. plain_at: the position of the first byte that
        is decrypted, which is behind the window if connections without TLS are read, too.
        """
        times = times or PacketTimes(headers.number, headers.ts)
        return self._read_streams(self._connections.divide_packets(headers, pair, times), window, plain_at)

    def expire(self, before_ts: int, number: int, *, plain_at: int = 0) -> SpanResult:
        """Close the connections without a packet since a time, then complete older messages that wait.

        Args: number: of the next packet. plain_at: as in `add_span`.
        """
        divided = DividedSpan(self._connections.expire(before_ts, number), NO_NUMBERS, [])
        result = self._read_streams(divided, FileWindow(plain_at, b""), plain_at)
        expired = self._pairing.expire(before_ts, number)
        return result._replace(exchanges=concatenate_exchanges([result.exchanges, expired]))

    def finish_flows(self, *, plain_at: int = 0) -> SpanResult:
        """The end of the capture: what is left of all flows that are open."""
        divided = DividedSpan(self._connections.end_all(), NO_NUMBERS, [])
        return self._read_streams(divided, FileWindow(plain_at, b""), plain_at)

    def take_gaps(self) -> list[StreamGapRow]:
        """Return the bytes that were lost or skipped since the last call, in the order in which they were found."""
        flows, found = self.flows, [*self._request_frames.take_gaps(), *self._response_frames.take_gaps()]
        moments = np.array([max(gap.completed_by, flows.decided_at[gap.flow]) for gap in found], dtype=np.int64)
        numbers = stream_pieces.packet_numbers(moments).tolist()
        return sort_gaps(gap._replace(completed_by=number) for gap, number in zip(found, numbers, strict=True))

    def take_others(self) -> list[OtherConnection]:
        """Return the flows that are not read as Kafka and closed since the last call, in the order of their ends."""
        others = self._undecided.others.take_closed() if self._reads_clear else []
        return sort_connections([*others, *(self.tls.take_closed() if self.tls is not None else ())])

    def held_ranges(self) -> Iterator[tuple[Ints, Ints]]:
        """Positions and sizes of the bytes that later spans may read, other than those of `waiting_frames`."""
        yield from self._connections.held_ranges()
        for held in (*self._undecided.held_pieces(), self._request_frames.partial, self._response_frames.partial):
            yield held.at, held.size
        if self.tls is not None:
            held = self.tls.held_pieces()
            yield held.at, held.size

    def waiting_frames(self) -> tuple[FrameColumns, FrameColumns]:
        """The requests that wait for responses, and the responses that wait for requests."""
        return self._pairing.waiting_frames()

    def waiting_requests(self) -> RequestColumns:
        """The requests that wait for responses."""
        return self._pairing.pending

    def _read(self, at: int, size: int) -> bytes:
        """Bytes of the capture, of what earlier spans decrypted, or of what this span did."""
        return self._plaintext.read(at, size, self._read_before)

    def _read_streams(self, divided: DividedSpan, window: FileWindow, plain_at: int) -> SpanResult:
        """What the pieces of a span complete."""
        pieces, closing = divided.streams
        plain, plaintext = NO_PIECES, b""
        if self.tls is not None:
            plain, plaintext = self.tls.decrypt(pieces, window, closing, plain_at)
            is_tls = np.isin(pieces.side >> 1, np.fromiter(self.tls.tls_flows, dtype=np.int64))
            pieces = pieces.select(~is_tls)
            self._undecided.drop_flows(self.tls.tls_flows)
            self._plaintext = FileWindow(plain_at, plaintext)
        if self._reads_clear:
            pieces = merge_pieces(self._undecided.decide(pieces, window, closing), plain)
            window = FileWindow(window.base, window.data + plaintext) if plaintext else window
        else:
            pieces, window = plain, self._plaintext
        exchanges = self._read_pieces(pieces, window, closing)
        self._plaintext = NO_WINDOW
        for stage in (self._undecided, self._request_frames, self._response_frames):
            stage.drop_window()
        return SpanResult(exchanges, self._fragments.drain_fragments(), self._limited_totals(), divided, plaintext)

    def _read_pieces(self, pieces: StreamPieces, window: FileWindow, closing: dict[int, FlowEnd]) -> ExchangeColumns:
        """The exchanges that these pieces complete, and those of flows that are closed."""
        asked = self._request_frames.scan(self._select_side(pieces, is_request=True), window, closing)
        requests = self._headers.read_requests(asked, *window)

        def pending(flow: int, found: MessageTimes) -> PendingRequests:
            return self._pairing.track(flow, requests, found)

        answered = self._response_frames.scan(self._select_side(pieces, is_request=False), window, closing, pending)
        responses = self._headers.read_responses(answered, *window)
        return self._pairing.pair(requests, responses, closing)

    def _select_side(self, pieces: StreamPieces, *, is_request: bool) -> StreamPieces:
        """The pieces of the sides that send requests, or of the others."""
        is_client = (pieces.side & 1) == self.flows.opener[pieces.side >> 1]
        return pieces.select(is_client if is_request else ~is_client)

    def _limited_totals(self) -> LimitedTotals:
        return LimitedTotals(self._pairing.waiting_count, self._undecided.held_size, self._connections.buffered_count)
