"""Mark flows with late gap fills as unclean: reassembly skips a gap only after its receiver acknowledged the bytes."""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.flows.flow_table import FlowTable
from kwire.capture.index.flows.segment_columns import SegmentColumns
from kwire.capture.tcp.tcp_stream import BUFFERED_COUNT_MAX, BUFFERED_SIZE_MAX, REORDER_PACKETS_MAX

# Limits of segments after a gap of a clean flow: far below those of one stream in the streaming pipeline, because its
# limits for all streams together are lower.
COUNT_MAX = BUFFERED_COUNT_MAX // 4
SIZE_MAX = BUFFERED_SIZE_MAX // 8
# Up to this many late segments of a span are checked one by one.
_LATE_SEGMENTS_MAX = 1000


class AckHistory:
    """The acknowledgements of a span."""

    def __init__(self, before: Ints, side: Ints, ack: Ints, number: Ints) -> None:
        """Args: before: acknowledged numbers of earlier spans, by side. side: whose bytes. number: of the packet."""
        self._before = before
        self._side = side
        self._ack = ack
        self._number = number

    def acked_up_to(self, side: int, number: int) -> int:
        """The number up to which the bytes of a side were acknowledged before a packet."""
        acks = self._ack[(self._side == side) & (self._number < number)]
        return max(int(self._before[side]), int(acks.max(initial=-1)))


def mark_unclean_late_fills(flows: FlowTable, segments: SegmentColumns, lateness: Ints, acks: AckHistory) -> None:
    """Mark flows in which reassembly skipped a gap, or may have skipped it, before it was filled.

    Args: segments: by side and offset. lateness: by segment, how many packets of its flow after a later part of the
    stream it came.
    """
    late = np.nonzero(lateness >= REORDER_PACKETS_MAX)[0]
    if len(late) > _LATE_SEGMENTS_MAX:
        flows.mark_unclean(segments.side[late] >> 1, "disorder")
        return
    for index in late.tolist():
        side, offset, number = int(segments.side[index]), int(segments.offset[index]), int(segments.number[index])
        is_after_gap = (segments.side == side) & (segments.offset > offset) & (segments.number < number)
        is_over_limit = int(is_after_gap.sum()) >= COUNT_MAX or int(segments.size[is_after_gap].sum()) >= SIZE_MAX
        if is_over_limit or acks.acked_up_to(side, number) > offset:
            flows.mark_unclean(segments.side[[index]] >> 1, "disorder")


def mark_unclean_open_gaps(flows: FlowTable, after_gap: SegmentColumns) -> None:
    """Mark flows with an open gap that reassembly has skipped by now, or will skip."""
    if not len(after_gap.side):
        return
    side, first = np.unique(after_gap.side, return_inverse=True)
    count = np.bincount(first)
    size = np.bincount(first, after_gap.size)
    flow = side >> 1
    arrival = np.full(len(side), np.iinfo(np.int64).max)
    np.minimum.at(arrival, first, after_gap.arrival)
    is_late = (flows.packets[flow] - arrival >= REORDER_PACKETS_MAX) & (flows.acked_seq[side] > flows.next_seq[side])
    flows.mark_unclean(flow[is_late | (count >= COUNT_MAX) | (size >= SIZE_MAX)], "disorder")
