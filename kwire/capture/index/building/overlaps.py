"""Segments that overlap others: which of their bytes are new is found by the reassembly itself, on places for bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from kwire.capture.halves import Half, Held
from kwire.capture.values import Data, End, Flow, Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_NOWHERE: End = b"", 0


class Row(NamedTuple):
    """A segment, or what is new of it. number: of its packet. arrival: which packet of its flow that was."""

    offset: int
    size: int
    at: int
    ts: int
    number: int
    arrival: int


class _Place:
    """Bytes that lie somewhere. Reassembly only asks how many they are, and takes parts of them."""

    __slots__ = ("at", "size")

    def __init__(self, at: int, size: int) -> None:
        self.at, self.size = at, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> _Place:
        start, stop, _ = part.indices(self.size)
        return _Place(self.at + start, max(stop - start, 0))


def settled(rows: list[Row], begin: int) -> Iterator[Row]:
    """What is new of the segments of one side, and what waits behind a hole; no byte comes twice.

    Args: rows: in the order of their packets. begin: where the stream goes on.
    """
    half = Half(Flow((_NOWHERE, _NOWHERE), 0, ""), 0, Held())
    half.start = half.next = half.acked = begin
    arrivals = {row.number: row.arrival for row in rows}
    for row in rows:
        payload = cast("bytes", _Place(row.at, row.size))
        segment = Segment(row.ts, "", _NOWHERE, _NOWHERE, 0, 0, 0, payload, 0, row.number)
        for event in half.add(row.offset, segment, row.arrival):
            if isinstance(event, Data):
                place = cast("_Place", event.payload)
                yield Row(begin + event.offset, place.size, place.at, event.ts, event.packet, arrivals[event.packet])
    for left in half.waiting:
        place = cast("_Place", left.payload)
        yield Row(left.seq, place.size, place.at, left.ts, left.packet, left.arrival)
