"""TCP segments with data, as columns."""

from __future__ import annotations

from typing import NamedTuple

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints


class SegmentColumns(NamedTuple):
    """TCP segments with data. side: twice the flow number plus the side. offset: unwrapped sequence number.

    at: file offset of the payload. number: of the packet. arrival: number of the packet in its flow. completed_by: the
    packet with which all bytes up to the end of the segment were there.
    """

    side: Ints
    offset: Ints
    size: Ints
    at: Ints
    ts: Ints
    number: Ints
    arrival: Ints
    completed_by: Ints

    def select(self, chosen: Ints | Bools) -> SegmentColumns:
        """The rows with these indexes."""
        return SegmentColumns(*(column[chosen] for column in self))


NO_SEGMENTS = SegmentColumns(*[NO_NUMBERS] * 8)
