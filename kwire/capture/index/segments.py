"""Phase 2 for whom the fast lane is not: the segments of chosen flows, read by offset, for the generators."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.index.walking.files import File
from kwire.capture.index.walking.heads import LINK_NAMES
from kwire.capture.values import End, Segment, Trouble

if TYPE_CHECKING:
    from kwire.capture.index.model import FlowKey, Index

# Neighbouring payloads are read together, up to so many bytes at once, over gaps of at most so many.
_READ_SIZE = 4 * 1024 * 1024
_GAP_SIZE = 64 * 1024


def segments_of(
    indexes: Sequence[Index], flows: Collection[FlowKey] | None = None, *, troubles: bool = True
) -> Iterator[Segment | Trouble]:
    """The segments of these flows in packet order, file after file in the order given; of all flows without a choice.

    Args: troubles: whether what belongs to no flow comes too; where flows are shared out, one reader should have it.
    """
    for several in indexes:
        for _, index in several.members:
            found = _segments(index, flows)
            yield from _with_troubles(index, found) if troubles else found


def _segments(index: Index, flows: Collection[FlowKey] | None) -> Iterator[Segment]:
    ends = [flow.key for flow in index.flows]
    is_chosen = np.ones(len(ends), dtype=np.bool_)
    if flows is not None:
        is_chosen[:] = False
        is_chosen[[index.numbers[key] for key in flows if key in index.numbers]] = True
    if not is_chosen.any():
        return
    with File(index.source) as file:
        for part in range(len(index.spans)):
            packets = index.packets(part)
            chosen = np.nonzero(is_chosen[packets.flow])[0]
            if len(chosen):
                rows = zip(*(column[chosen].tolist() for column in packets), strict=True)
                yield from _read(index, file, list(rows), ends)


def _read(index: Index, file: File, rows: list[tuple[int, ...]], ends: list[FlowKey]) -> Iterator[Segment]:
    """The segments of one span."""
    base, held = 0, b""
    for position, (number, ts, link, side, seq, ack, flags, window, at, kept, missing, flow) in enumerate(rows):
        if not kept:
            payload = b""
        elif at < 0:
            payload = index.loose(-1 - at)
        else:
            if not base <= at <= at + kept <= base + len(held):
                base, held = at, file.read(at, _reach(rows, position))
            payload = held[at - base : at - base + kept]
        source: End = ends[flow][side]
        target: End = ends[flow][1 - side]
        yield Segment(ts, LINK_NAMES[link], source, target, seq, ack, flags, payload, missing, number, window)


def _reach(rows: list[tuple[int, ...]], position: int) -> int:
    """How much to read from this payload on, so that its neighbours come with it."""
    begin = rows[position][8]
    end = begin + rows[position][9]
    for row in rows[position + 1 :]:
        at, kept = row[8], row[9]
        if at < 0 or not kept:
            continue
        if not 0 <= at - end <= _GAP_SIZE or at + kept - begin > _READ_SIZE:
            break
        end = at + kept
    return end - begin


def _with_troubles(index: Index, found: Iterator[Segment]) -> Iterator[Segment | Trouble]:
    """Each trouble behind the packet at which it was known."""
    waiting = iter(index.troubles)
    number, trouble = next(waiting, (2**62, None))
    for segment in found:
        while trouble is not None and number < segment.packet:
            yield trouble
            number, trouble = next(waiting, (2**62, None))
        yield segment
    while trouble is not None:
        yield trouble
        number, trouble = next(waiting, (2**62, None))
