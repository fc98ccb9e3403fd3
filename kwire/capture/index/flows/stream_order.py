"""Order the segments of clean flows by stream offset, without duplicates; mark flows that are not clean."""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import Bools, Ints, concatenate_rows, find_groups, group_starts
from kwire.capture.index.flows.flow_table import FIN_END, RST_END, FlowTable
from kwire.capture.index.flows.overlaps import SegmentRow, remove_overlaps
from kwire.capture.index.flows.reorder_limits import AckHistory, mark_unclean_late_fills
from kwire.capture.index.flows.segment_columns import SegmentColumns
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.tcp.flags import ACK, FIN, RST, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK, unwrap_seq
from kwire.capture.tcp.tcp_stream import RESENT_DISTANCE_MAX

# Above every packet number.
AFTER_CAPTURE = 1 << 62
# Below every packet number: the SYN of a flow that began before the capture.
BEFORE_CAPTURE = 0
# Above every packet number: separates groups in running maxima.
_GROUP_DISTANCE = 1 << 40


def count_packets(flows: FlowTable, flow: Ints, headers: PacketHeaders) -> Ints:
    """Count the packets of a span; return the number of each packet in its flow."""
    order = np.argsort(flow, kind="stable")
    sorted_flow = flow[order]
    firsts = find_groups(sorted_flow)
    counts = np.diff(np.append(firsts, len(sorted_flow)))
    arrival = np.empty(len(flow), dtype=np.int64)
    arrival[order] = np.arange(len(sorted_flow)) - np.repeat(firsts, counts) + flows.packets[sorted_flow]
    chosen = sorted_flow[firsts]
    ts, size = headers.ts[order], (headers.captured + headers.missing)[order]
    flows.packets[chosen] += counts
    flows.size[chosen] += np.add.reduceat(size, firsts)
    flows.first_ts[chosen] = np.minimum(flows.first_ts[chosen], np.minimum.reduceat(ts, firsts))
    flows.last_ts[chosen] = np.maximum(flows.last_ts[chosen], np.maximum.reduceat(ts, firsts))
    is_new = flows.link[chosen] < 0
    flows.link[chosen[is_new]] = headers.link[order[firsts]][is_new]
    return arrival


def apply_control_flags(flows: FlowTable, flow: Ints, headers: PacketHeaders) -> AckHistory:
    """Process the packets that open and close connections, and the acknowledgements."""
    for index in np.nonzero(headers.flags & (SYN | FIN | RST))[0].tolist():
        flow_number, side, flags = int(flow[index]), int(headers.side[index]), int(headers.flags[index])
        number, size = int(headers.number[index]), int(headers.captured[index] + headers.missing[index])
        if flags & SYN:
            _apply_syn(flows, (flow_number, side), int(headers.seq[index]), size, number, is_answer=bool(flags & ACK))
            if flags & (FIN | RST):
                # No TCP implementation sends these; only the reassembler handles them.
                flows.mark_unclean(np.array([flow_number]), "reuse")
            continue
        at = 2 * flow_number + side
        if flows.start_seq[at] < 0:
            flows.mark_unclean(np.array([flow_number]), "midstream")
        if flags & FIN:
            flows.fin_seq[at] = (int(headers.seq[index]) + size) & SEQ_MASK
        if flows.end_reason[flow_number]:
            continue
        if flags & RST or min(flows.fin_seq[2 * flow_number : 2 * flow_number + 2].tolist()) >= 0:
            flows.end_reason[flow_number] = RST_END if flags & RST else FIN_END
            flows.end_packet[flow_number] = number
    return _record_acks(flows, flow, headers)


def _apply_syn(
    flows: FlowTable, flow_side: tuple[int, int], seq: int, size: int, number: int, *, is_answer: bool
) -> None:
    flow_number, side = flow_side
    at, first = 2 * flow_number + side, (seq + 1) & SEQ_MASK
    if flows.start_seq[at] < 0 and not size and not flows.end_reason[flow_number]:
        for name in ("start_seq", "next_seq", "frame_seq", "acked_seq"):
            getattr(flows, name)[at] = first
        flows.syn_number[at] = number
        flows.syns[flow_number] += not is_answer
        if flows.syns[flow_number] > 1:
            # A simultaneous open.
            flows.mark_unclean(np.array([flow_number]), "reuse")
        if flows.opener[flow_number] < 0:
            flows.opener[flow_number] = 1 - side if is_answer else side
    elif (
        flows.start_seq[at] != first or flows.end_reason[flow_number] or size or flows.syn_number[at] == BEFORE_CAPTURE
    ):
        flows.syns[flow_number] += not is_answer
        flows.mark_unclean(np.array([flow_number]), "reuse")


def _record_acks(flows: FlowTable, flow: Ints, headers: PacketHeaders) -> AckHistory:
    """Advance the highest acknowledged number of each side."""
    before = flows.acked_seq.copy()
    has_ack = np.nonzero((headers.flags & ACK) > 0)[0]
    other = 2 * flow[has_ack] + 1 - headers.side[has_ack]
    known = flows.start_seq[other] >= 0
    other = other[known]
    number = headers.number[has_ack][known]
    ack = unwrap_seq(headers.ack[has_ack][known], flows.next_seq[other])
    np.maximum.at(flows.acked_seq, other, ack)
    return AckHistory(before, other, ack, number)


def select_segments(flows: FlowTable, flow: Ints, headers: PacketHeaders, arrival: Ints) -> SegmentColumns:
    """The segments with data, of flows that are clean after these packets."""
    chosen = np.nonzero((headers.captured + headers.missing) > 0)[0]
    flow_of_segment, number = flow[chosen], headers.number[chosen]
    flows.mark_unclean(flow_of_segment[headers.missing[chosen] > 0], "snaplen")
    flows.mark_unclean(flow_of_segment[headers.at[chosen] < 0], "fragments")
    is_before = np.maximum(flows.syn_number[2 * flow_of_segment], flows.syn_number[2 * flow_of_segment + 1]) > number
    flows.mark_unclean(flow_of_segment[is_before], "midstream")
    flows.mark_unclean(flow_of_segment[number > flows.end_packet[flow_of_segment]], "after_end")
    clean = flows.is_clean(flow_of_segment)
    chosen, flow_of_segment, number = chosen[clean], flow_of_segment[clean], number[clean]
    side = 2 * flow_of_segment + headers.side[chosen]
    offset = unwrap_seq(headers.seq[chosen], flows.next_seq[side])
    size, at, ts = headers.captured[chosen], headers.at[chosen], headers.ts[chosen]
    return SegmentColumns(side, offset, size, at, ts, number, arrival[chosen], completed_by=number)


def order_segments(
    flows: FlowTable, segments: SegmentColumns, acks: AckHistory
) -> tuple[SegmentColumns, SegmentColumns]:
    """The segments that continue their streams, by side and offset; and those after a gap that may still be filled."""
    segments = _sort_segments(segments)
    end = segments.offset + segments.size
    is_copy = ~group_starts(segments.side)
    is_copy[1:] &= (segments.offset[1:] == segments.offset[:-1]) & (segments.size[1:] == segments.size[:-1])
    # Only another connection, whose SYN was not captured, sends numbers this far back.
    start = np.where(flows.syn_number[segments.side] == BEFORE_CAPTURE, 0, flows.start_seq[segments.side])
    oldest = np.maximum(flows.frame_seq[segments.side] - RESENT_DISTANCE_MAX // 2, start)
    flows.mark_unclean(segments.side[end < oldest] >> 1, "reuse")
    segments = segments.select(~is_copy & (end > flows.frame_seq[segments.side]))
    if not len(segments.side):
        return segments, segments
    is_first, expected = _expected_offsets(flows, segments)
    overlaps = np.unique(segments.side[segments.offset < expected])
    if len(overlaps):
        segments = _sort_segments(_remove_overlaps(flows, segments, overlaps))
        is_first, expected = _expected_offsets(flows, segments)
    group = np.cumsum(is_first, dtype=np.int64)
    gap_group = np.where(segments.offset > expected, group, 0)
    # True from the first gap of the group on.
    is_after_gap = np.maximum.accumulate(gap_group) == group
    distance = group * _GROUP_DISTANCE
    segments = segments._replace(completed_by=np.maximum.accumulate(segments.number + distance) - distance)
    _check_late_fills(flows, segments, group, acks)
    clean = flows.is_clean(segments.side >> 1)
    return segments.select(clean & ~is_after_gap), segments.select(clean & is_after_gap)


def _expected_offsets(flows: FlowTable, segments: SegmentColumns) -> tuple[Bools, Ints]:
    """Which segments are the first of their side, and the offset of each segment if none is missing or repeated."""
    is_first = group_starts(segments.side)
    expected = np.empty(len(segments.side), dtype=np.int64)
    expected[1:] = (segments.offset + segments.size)[:-1]
    expected[is_first] = flows.frame_seq[segments.side[is_first]]
    return is_first, expected


def _remove_overlaps(flows: FlowTable, segments: SegmentColumns, sides: Ints) -> SegmentColumns:
    """The segments, with only the new bytes of segments of these sides, which overlap."""
    new_rows: list[tuple[int, ...]] = []
    for side in sides.tolist():
        overlapping = segments.select(segments.side == side)
        overlapping = overlapping.select(np.argsort(overlapping.number, kind="stable"))
        columns = [overlapping.offset, overlapping.size, overlapping.at, overlapping.ts]
        columns += [overlapping.number, overlapping.arrival]
        rows = [SegmentRow(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        for row in remove_overlaps(rows, int(flows.frame_seq[side])):
            # Each segment is completed by its own packet.
            new_rows.append((side, *row, row.number))
    others = segments.select(~np.isin(segments.side, sides))
    new_columns = np.array(new_rows, dtype=np.int64).reshape(-1, len(SegmentColumns._fields)).T
    return concatenate_rows(others, SegmentColumns(*new_columns))


def _sort_segments(segments: SegmentColumns) -> SegmentColumns:
    order = np.argsort(segments.side, kind="stable")
    side, offset, number = segments.side[order], segments.offset[order], segments.number[order]
    is_same = side[1:] == side[:-1]
    later = (offset[1:] > offset[:-1]) | ((offset[1:] == offset[:-1]) & (number[1:] >= number[:-1]))
    if bool((is_same & ~later).any()):
        order = np.lexsort((segments.number, segments.offset, segments.side))
    return segments.select(order)


def _check_late_fills(flows: FlowTable, segments: SegmentColumns, group: Ints, acks: AckHistory) -> None:
    """Check gaps that stayed open for long: reassembly may skip them even if they are filled later."""
    if bool((segments.completed_by == segments.number).all()):
        return
    distance = (group[-1] - group[::-1]) * _GROUP_DISTANCE
    lowest = np.minimum.accumulate(segments.arrival[::-1] - distance) + distance
    mark_unclean_late_fills(flows, segments, segments.arrival - lowest[::-1], acks)
