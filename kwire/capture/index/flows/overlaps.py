"""Remove overlaps of TCP segments: the reassembler itself finds the new bytes, on file ranges in place of payloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

from kwire.capture.model import Endpoint, Flow, Segment, StreamData
from kwire.capture.tcp.tcp_stream import BufferBudget, TcpStreamReassembler

_NOWHERE: Endpoint = b"", 0


class SegmentRow(NamedTuple):
    """A segment, or its new part. number: of its packet. arrival: the packet's number in its flow."""

    offset: int
    size: int
    at: int
    ts: int
    number: int
    arrival: int


class _FileRange:
    """A range of the file in place of a payload: the reassembler only uses its length and slices of it."""

    __slots__ = ("at", "size")

    def __init__(self, at: int, size: int) -> None:
        self.at, self.size = at, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> _FileRange:
        start, stop, _ = part.indices(self.size)
        return _FileRange(self.at + start, max(stop - start, 0))


def remove_overlaps(rows: list[SegmentRow], begin: int) -> Iterator[SegmentRow]:
    """The new parts of the segments of one side, and those that are buffered after a gap; they do not overlap.

    Args: rows: in packet order. begin: where the stream continues.
    """
    reassembler = TcpStreamReassembler(Flow((_NOWHERE, _NOWHERE), 0, ""), 0, BufferBudget())
    reassembler.start_seq = reassembler.next_seq = reassembler.acked_seq = begin
    arrivals = {row.number: row.arrival for row in rows}
    for row in rows:
        payload = cast("bytes", _FileRange(row.at, row.size))
        segment = Segment(row.ts, "", _NOWHERE, _NOWHERE, 0, 0, 0, payload, 0, row.number)
        for event in reassembler.add_segment(row.offset, segment, row.arrival):
            if isinstance(event, StreamData):
                file_range = cast("_FileRange", event.payload)
                offset, number = begin + event.offset, event.packet
                yield SegmentRow(offset, file_range.size, file_range.at, event.ts, number, arrivals[number])
    for buffered in reassembler.buffered:
        file_range = cast("_FileRange", buffered.payload)
        yield SegmentRow(buffered.seq, file_range.size, file_range.at, buffered.ts, buffered.packet, buffered.arrival)
