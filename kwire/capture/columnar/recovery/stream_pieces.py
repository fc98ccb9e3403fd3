"""One direction of a connection that is reassembled from packet headers, and the pieces of which it consists."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.tcp.sequence_numbers import SEQ_MASK, unwrap_seq
from kwire.capture.tcp.tcp_stream import RESENT_DISTANCE_MAX

if TYPE_CHECKING:
    from kwire.capture.columnar.recovery.packet_block import PacketTable
    from kwire.capture.index.arrays import Ints

LOST, SNAPLEN = -1, -2
"""The place of bytes that the capture lacks, by cause."""
CAUSES = {LOST: "lost", SNAPLEN: "snaplen"}
NO_HEAD = -5
"""The length field of bytes that do not begin where a packet begins: no size is 4 more."""
SEQ_HALF = 1 << 31
"""Half of all sequence numbers."""


class StreamPiece(NamedTuple):
    """Bytes of a stream in order, or bytes that are missing: then `at` is one of `CAUSES`.

    order: counts the pieces of both sides. offset: from the first byte of the stream. at: where they are in the file.
    number: of the packet that has them. found_by: of the packet at which they came in order.
    """

    order: int
    offset: int
    size: int
    at: int
    ts: int
    number: int
    found_by: int
    head: int
    word: int


PieceRow = tuple[int, int, int, int, int, int, int, int, int]
"""The fields of a `StreamPiece`; nearly all pieces are plain tuples, which are built faster."""


class BufferedSegment(NamedTuple):
    """A segment after a gap; as plain tuples in lists. arrival: number of the packet in the connection."""

    seq: int
    size: int
    missing: int
    at: int
    ts: int
    number: int
    arrival: int
    head: int
    word: int


class Stream:
    """One direction of the connection; sequence numbers are unwrapped.

    start: of the first byte, None until it is known; then also `base`. next: of the next byte in order. reached: after
    the last captured byte, which may be buffered. buffered: in the order of the stream, each a `BufferedSegment`; they
    do not overlap.
    """

    __slots__ = (
        *("start", "base", "saw_syn", "next", "reached", "acked", "fin", "last_ts"),
        *("buffered", "buffered_size", "pieces"),
    )

    def __init__(self) -> None:
        self.start: int | None = None
        self.base = 0
        self.saw_syn = False
        self.next = self.reached = 0
        self.acked = 0
        self.fin: int | None = None
        self.last_ts = 0
        self.buffered: list[PieceRow] = []
        self.buffered_size = 0
        self.pieces: list[PieceRow] = []

    def set_start(self, seq: int) -> None:
        """The first byte is known."""
        self.start = self.base = self.next = self.reached = self.acked = seq

    def record_ack(self, ack: int) -> None:
        """The other side has acknowledged the bytes before a number."""
        if self.start is not None:
            self.acked = max(self.acked, unwrap_seq(ack, self.acked))

    def is_near(self, seq: int) -> bool:
        """Whether a packet may belong to the stream."""
        return self.start is not None and (seq - self.next + RESENT_DISTANCE_MAX) & SEQ_MASK <= 2 * RESENT_DISTANCE_MAX

    def add_segments(self, packets: PacketTable, rows: Ints, order: Ints) -> None:
        """Add the payloads of packets in order, when nothing is buffered. Args: order: of the piece of each."""
        size, missing, ts, number = (
            packets.captured[rows],
            packets.missing[rows],
            packets.ts[rows],
            packets.number[rows],
        )
        ends = np.cumsum(size + missing)
        offset = self.reached - self.base + ends - size - missing
        has_rest = missing > 0
        place = np.arange(len(rows)) + np.cumsum(has_rest) - has_rest
        pieces = np.empty((9, len(rows) + int(has_rest.sum())), dtype=np.int64)
        head, word = packets.head[rows], packets.word[rows]
        pieces[:, place] = order, offset, size, packets.at[rows], ts, number, number, head, word
        rest, none = np.nonzero(has_rest)[0], np.zeros(int(has_rest.sum()), dtype=np.int64)
        parts = order + 1, offset + size, missing, ts, number
        order, offset, missing, rest_ts, number = (each[rest] for each in parts)
        cause, head = none + SNAPLEN, none + NO_HEAD
        pieces[:, place[rest] + 1] = order, offset, missing, cause, rest_ts, none, number, head, none
        self.pieces += zip(*pieces.tolist(), strict=True)
        self.next = self.reached = self.reached + int(ends[-1])
        self.last_ts = int(ts[-1])

    def is_far_behind(self, seq: int) -> bool:
        """Whether bytes may belong to a connection before this one."""
        return (seq - self.next + SEQ_HALF) & SEQ_MASK < SEQ_HALF - RESENT_DISTANCE_MAX
