"""The analysis of packets by columns is that of single segments, also where numbers are invalid or spans are short."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence

import numpy as np
import pytest

from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.connections import DividedSpan, SpanStreams
from kwire.capture.index.streams.flow_closing import FlowEnd
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE, LOST, NO_PIECES, piece_columns
from kwire.capture.model import Flow, FlowClosed, Segment
from kwire.capture.tcp.flags import ACK, FIN, RST, SYN
from kwire.capture.traffic.sequence_gaps import ANOMALIES
from kwire.capture.traffic.tcp_columns import ClosedConnections, TcpColumns
from tests.support.capture_model.tcp_analysis import TcpAnalyzer

MS = 1_000_000
Packets = Sequence[tuple[int, int, Segment]]
"""The flow and side of each segment."""
ENDS = (b"\x7f\0\0\1", 1), (b"\x7f\0\0\1", 2)


def random_packets(chance: random.Random, count: int) -> Packets:
    """Packets of three connections whose numbers jump ahead, back, and out of every window."""
    reached = {
        (flow, side): chance.choice((0, 2**32 - 200, chance.getrandbits(32))) for flow in range(3) for side in (0, 1)
    }
    out, ts = [], 1_000 * MS
    for number in range(1, count + 1):
        flow, side = chance.randrange(3), chance.randrange(2)
        ts += chance.choice((0, 1_000, 100_000, MS, 5 * MS))
        size = chance.choice((0, 0, 1, 1, 10, 10, 100, 1_460))
        jump = chance.choice(
            (0,) * 12 + (-1, -10, -50, 7, 10, 500, 1 << 20, -(1 << 20), 1 << 30, 1 << 31, -(1 << 30) - 5)
        )
        seq = reached[flow, side] + jump & 0xFFFFFFFF
        flags = chance.choice((ACK,) * 12 + (SYN, SYN | ACK, FIN | ACK, RST, RST | ACK))
        ack = reached[flow, 1 - side] + chance.choice((0, 0, 0, 1)) & 0xFFFFFFFF
        if abs(jump) < 1 << 29 or chance.random() < 0.2:
            reached[flow, side] = seq + size + (flags & SYN > 0) + (flags & FIN > 0) & 0xFFFFFFFF
        window, missing = chance.choice((0, 100)), chance.choice((0, 0, 0, 5)) if size else 0
        segment = Segment(ts, "raw", *ENDS, seq, ack, flags, bytes(size), missing, number, window)
        out.append((flow, side, segment))
    return out


def headers_of(packets: Packets) -> PacketHeaders:
    rows = [
        (
            each.packet,
            each.ts,
            0,
            0,
            side,
            each.seq,
            each.ack,
            each.flags,
            each.window,
            0,
            len(each.payload),
            each.missing,
        )
        for _, side, each in packets
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 12).T
    return PacketHeaders._make([*columns[:3], np.zeros((len(rows), 0), dtype=np.uint64), *columns[4:]])


def divide(packets: Packets, closing: dict[int, FlowEnd] | None = None) -> DividedSpan:
    flow = np.array([flow for flow, _, _ in packets], dtype=np.int64)
    return DividedSpan(SpanStreams(NO_PIECES, closing or {}), flow, [])


def describe(closed: ClosedConnections) -> list[tuple[object, ...]]:
    states = closed.states
    columns = (states.flow, states.first_ts, states.last_ts, states.first_packet, states.last_packet)
    by_side = (states.packets, states.size, states.retransmits, states.lost, states.zero_windows)
    rows = zip(*(column.tolist() for column in (*columns, states.rtt, states.closing_side, *by_side)), strict=True)
    return list(rows)


@pytest.mark.parametrize("seed", range(60))
def test_columns_and_single_segments_have_the_same_analysis(seed: int) -> None:
    chance = random.Random(f"analysis {seed}")
    packets = random_packets(chance, chance.choice((20, 200, 600)))
    flows = [Flow(ENDS, 0, "raw") for _ in range(3)]
    analyzer, analysis = TcpAnalyzer(), TcpColumns()
    expected = [analyzer.analyze_segment(flows[flow], side, segment) for flow, side, segment in packets]
    found: list[str | None] = []
    while len(found) < len(packets):
        part = packets[len(found) : len(found) + chance.choice((1, 7, 50, 1_000))]
        found += [ANOMALIES[code] for code in analysis.add_span(headers_of(part), divide(part)).anomaly.tolist()]
        # The state is stored between spans.
        analysis = pickle.loads(pickle.dumps(analysis))
    seen = sorted({flow for flow, _, _ in packets})
    closed = analysis.add_span(headers_of([]), divide([], {flow: FlowEnd(AFTER_CAPTURE, 0) for flow in seen})).closed

    assert found == expected
    summaries = [analyzer.summarize_flow(FlowClosed(flows[flow], 0, "end")).statistics for flow in seen]
    rows = []
    for flow, each in zip(seen, summaries, strict=True):
        rtt, closing_side = (-1 if value is None else value for value in (each.rtt_ns, each.closing_side))
        totals = [[getattr(side, name) for side in each.sides] for name in ("packets", "size", "retransmits")]
        totals += [[getattr(side, name) for side in each.sides] for name in ("lost_size", "zero_windows")]
        places = each.first_ts, each.last_ts, each.first_packet, each.last_packet
        rows.append((flow, *places, rtt, closing_side, *totals))
    assert describe(closed) == rows


def test_lost_bytes_are_counted_by_side() -> None:
    analysis = TcpColumns()
    packets = random_packets(random.Random(1), 30)
    # side, offset, size, at, ts, number, moment
    pieces = piece_columns(
        [(2, 0, 7, LOST, 0, 0, 0), (3, 0, 5, LOST, 0, 0, 0), (3, 9, 4, LOST, 0, 0, 0), (4, 0, 9, 1, 0, 0, 0)]
    )
    span = divide(packets, {1: FlowEnd(30, 0), 2: FlowEnd(30, 0)})
    closed = analysis.add_span(headers_of(packets), span._replace(streams=span.streams._replace(pieces=pieces))).closed

    assert closed.states.lost.tolist() == [[7, 9], [0, 0]]
    assert closed.states.has_data.tolist() == [0, 1]


def test_connections_that_are_closed_leave_no_state() -> None:
    analysis = TcpColumns()
    empty = len(pickle.dumps(analysis))
    for seed in range(5):
        packets = random_packets(random.Random(seed), 300)
        closing = {flow: FlowEnd(300, 0) for flow in range(3)}
        analysis.add_span(headers_of(packets), divide(packets, closing))

    assert len(pickle.dumps(analysis)) == empty


def test_packets_in_order_are_not_visited_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a regular packet was classified by itself")

    monkeypatch.setattr("kwire.capture.traffic.sequence_gaps.SequenceGaps.classify", fail)
    seqs = [2**32 - 500 + 100 * number & 0xFFFFFFFF for number in range(20)]
    packets = [
        (0, 0, Segment(number, "raw", *ENDS, seq, 0, ACK, bytes(size), 0, 2 * number + part, 1))
        for number, seq in enumerate(seqs, 1)
        for part, size in enumerate((0, 100))
    ]

    assert not TcpColumns().add_span(headers_of(packets), divide(packets)).anomaly.any()
