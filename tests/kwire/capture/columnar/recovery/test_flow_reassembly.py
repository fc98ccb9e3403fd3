"""Packets that are added in runs give the pieces of packets that are added one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kwire.capture.columnar.recovery import flow_reassembly
from kwire.capture.columnar.recovery.flow_reassembly import FlowReassembly
from kwire.capture.columnar.recovery.packet_block import PacketBlock, PacketTable
from kwire.capture.columnar.recovery.stream_pieces import NO_HEAD, PieceRow
from kwire.capture.tcp.flags import ACK, FIN, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK

START = SEQ_MASK - 500


def packets(seed: int, count: int) -> list[tuple[int, ...]]:
    """A connection whose sequence numbers wrap, with cut, lost, doubled and empty packets, and odd acknowledgements."""
    chance = random.Random(seed)
    share = chance.choice((0.0, 0.01, 0.1))
    next_seq = [START, START]
    rows = [(0, START - 1, 0, SYN, 0, 0), (1, START - 1, START, SYN | ACK, 0, 0), (0, START, START, ACK, 0, 0)]
    for _ in range(count):
        side = chance.randrange(2)
        size = chance.choice((0, 0, 8, 60, 400))
        missing = chance.choice((1, 70_000)) if size and chance.random() < 0.2 else 0
        ack = next_seq[1 - side]
        odd = chance.random() < share
        if odd:
            ack += chance.choice((-1000, 1 << 29, 1 << 31, -(1 << 31)))
        row = (side, next_seq[side] & SEQ_MASK, ack & SEQ_MASK, ACK, size, missing)
        next_seq[side] += size + missing
        rows += [row] * (0 if chance.random() < share else 2 if chance.random() < share else 1)
    rows.append((0, next_seq[0] & SEQ_MASK, next_seq[1] & SEQ_MASK, ACK | FIN, 0, 0))
    out = list[tuple[int, ...]]()
    for number, (side, seq, ack, flags, size, missing) in enumerate(rows):
        head = chance.choice((size + missing - 4, 50, NO_HEAD))
        out.append((number, 1000 * number, side, seq, ack, flags, 10_000 * number, size, missing, head, number))
    return out


def reassemble(rows: list[tuple[int, ...]], spans: int) -> tuple[list[list[PieceRow]], list[object]]:
    """The pieces of both sides, and the state at the end."""
    reassembly = FlowReassembly()
    pieces: list[list[PieceRow]] = [[], []]
    for part in np.array_split(np.array(rows, dtype=np.int64), spans):
        block = PacketBlock(np.zeros(len(part), dtype=np.int64), PacketTable(*part.T.copy()))
        reassembly.add_packets(block, 0, len(part))
        for side in range(2):
            pieces[side] += reassembly.take_pieces(side)
    state = [
        *(reassembly.has_failed, reassembly.end_reason, reassembly.end_number, reassembly._order, reassembly._arrival),
        *(getattr(stream, name) for stream in reassembly._streams for name in stream.__slots__),
    ]
    return pieces, state


@pytest.mark.parametrize("seed", range(60))
def test_pieces_of_runs_are_those_of_single_packets(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = packets(seed, 400)
    monkeypatch.setattr(flow_reassembly, "_RUN_MIN", 1 << 30)
    expected = reassemble(rows, 1)
    monkeypatch.setattr(flow_reassembly, "_RUN_MIN", 2)
    monkeypatch.setattr(flow_reassembly, "_ROWS_COUNT", 3)

    assert reassemble(rows, 1) == expected
    assert reassemble(rows, 4) == expected


def test_a_run_ends_at_the_first_packet_that_does_not_follow() -> None:
    rows = [
        (number, 0, side, 1000 + 10 * (number // 2), 0, ACK, 0, 10, 0, 0, 0) for number, side in enumerate([0, 1] * 10)
    ]
    rows[11] = (*rows[11][:3], 7, *rows[11][4:])
    block = PacketBlock(np.zeros(len(rows), dtype=np.int64), PacketTable(*np.array(rows, dtype=np.int64).T.copy()))

    assert [block.run_end(begin) for begin in (0, 10, 11, 12, 13, 14)] == [11, 11, 11, 13, 13, 20]
    assert [row[0] for row in block.rows(3, 6)] == [3, 4, 5]
