"""Which flows are closed in a span: a connection may receive late packets for some time after its FIN or RST."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE
from kwire.capture.tcp.reassembly import LINGER_NS


class PacketTimes(NamedTuple):
    """Number and time of all packets of a span, nanoseconds."""

    number: Ints
    ts: Ints


class FlowClosing:
    """The flows that have ended and are not closed yet."""

    def __init__(self, flows: FlowTable) -> None:
        """`flows` has the end of each flow."""
        self._flows = flows
        self._lingering: list[int] = []
        self._last_ts = 0

    def end_flows(self, headers: PacketHeaders, flow: Ints, times: PacketTimes) -> dict[int, tuple[int, int]]:
        """The flows that a packet of any flow shows to be over: number and time of that packet, in their order.

        Args: headers, flow: the packets of the span. times: of all packets.
        """
        flows = self._flows
        is_new = (flows.end_packet[flow] == headers.number) & (flows.end_reason[flow] > 0)
        self._lingering += self._select_read(flow[is_new]).tolist()
        if len(times.ts):
            self._last_ts = int(times.ts[-1])
        if not self._lingering or not len(times.number):
            return {}
        number, ts = times
        reached = np.maximum.accumulate(ts)
        closing: list[tuple[int, int, int, int]] = []
        for lingering in self._lingering:
            end_packet, end = int(flows.end_packet[lingering]), int(flows.end_ts[lingering]) + LINGER_NS
            at = int(np.searchsorted(reached, end, "right"))
            if at < len(number) and number[at] <= end_packet:
                # A packet before the end has a later time.
                is_later = (ts > end) & (number > end_packet)
                at = int(np.argmax(is_later)) if is_later.any() else len(number)
            if at < len(number):
                closing.append((int(number[at]), end_packet, lingering, int(ts[at])))
        closing.sort()
        closed = {lingering: (number, ts) for number, _, lingering, ts in closing}
        self._lingering = [lingering for lingering in self._lingering if lingering not in closed]
        flows.closed_by[list(closed)] = [number for number, _ in closed.values()]
        closed_by = flows.closed_by[flow]
        is_after = (closed_by >= 0) & (headers.number >= closed_by) & (headers.captured + headers.missing > 0)
        flows.mark_unclean(flow[is_after], "after_end")
        return closed

    def end_all(self) -> dict[int, tuple[int, int]]:
        """The flows that are open at the end of the capture, in the order in which they began."""
        flows = self._flows
        left = self._select_read(np.nonzero(flows.closed_by[: len(flows)] < 0)[0])
        return dict.fromkeys(left.tolist(), (AFTER_CAPTURE, self._last_ts))

    def _select_read(self, flow: Ints) -> Ints:
        """Those of these flows of which something may be left."""
        start = self._flows.start_seq
        return flow[self._flows.is_clean(flow) & ((start[2 * flow] >= 0) | (start[2 * flow + 1] >= 0))]
