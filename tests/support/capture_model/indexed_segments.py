"""Read the segments of chosen flows by offset, for the streaming decoder."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing

import numpy as np

from kwire.capture.index.model import FlowKey, Index
from kwire.capture.index.scan.packet_headers import LINK_NAMES
from kwire.capture.index.stored_payload import ReadableFile
from kwire.capture.model import CaptureIssue, Segment

# Payloads close to each other are read together: up to this size, over gaps of at most this size.
_READ_SIZE = 4 * 1024 * 1024
_GAP_SIZE = 64 * 1024


def read_segments(
    indexes: Sequence[Index], flows: Collection[FlowKey] | None = None, *, issues: bool = True
) -> Iterator[Segment | CaptureIssue]:
    """The segments of these flows, or of all flows, in packet order, file after file in the order given.

    Args: issues: whether capture issues, which belong to no flow, are included; where flows are divided among tasks,
    one task should read them.
    """
    for index in indexes:
        for _, file_index in index.file_indexes:
            segments = _flow_segments(file_index, flows)
            yield from _with_issues(file_index, segments) if issues else segments


def _flow_segments(index: Index, flows: Collection[FlowKey] | None) -> Iterator[Segment]:
    keys, chosen_keys = index.keys, None if flows is None else frozenset(flows)
    is_chosen = np.array([chosen_keys is None or key in chosen_keys for key in keys], dtype=np.bool_)
    if not is_chosen.any():
        return
    with closing(index.open_file()) as file:
        for part in range(len(index.spans)):
            packets = index.read_packets(part)
            chosen = np.nonzero(is_chosen[packets.pair])[0]
            if len(chosen):
                rows = zip(*(column[chosen].tolist() for column in packets), strict=True)
                yield from _span_segments(file, list(rows), keys)


def _span_segments(file: ReadableFile, rows: list[tuple[int, ...]], keys: list[FlowKey]) -> Iterator[Segment]:
    """The segments of one span."""
    base, buffer = 0, b""
    for position, (number, ts, link, side, seq, ack, flags, window, at, captured, missing, pair) in enumerate(rows):
        if not captured:
            payload = b""
        else:
            if not base <= at <= at + captured <= base + len(buffer):
                base, buffer = at, file.read(at, _read_ahead_size(rows, position))
            payload = buffer[at - base : at - base + captured]
        source, target = keys[pair][side], keys[pair][1 - side]
        yield Segment(ts, LINK_NAMES[link], source, target, seq, ack, flags, payload, missing, number, window)


def _read_ahead_size(rows: list[tuple[int, ...]], position: int) -> int:
    """How much to read from this payload on, so that the payloads close after it are included."""
    begin = rows[position][8]
    end = begin + rows[position][9]
    for row in rows[position + 1 :]:
        at, captured = row[8], row[9]
        if not captured:
            continue
        if not 0 <= at - end <= _GAP_SIZE or at + captured - begin > _READ_SIZE:
            break
        end = at + captured
    return end - begin


def _with_issues(index: Index, segments: Iterator[Segment]) -> Iterator[Segment | CaptureIssue]:
    """Insert each issue after the packet at which it was found."""
    waiting = deque(index.issues)
    for segment in segments:
        while waiting and waiting[0][0] < segment.packet:
            yield waiting.popleft()[1]
        yield segment
    yield from (issue for _, issue in waiting)
