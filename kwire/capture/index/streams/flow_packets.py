"""The packets of a span by flow: how many each flow has, and which packet of the capture is its n-th."""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import Ints, find_groups
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE


class FlowPackets:
    """The packets of one span. flows: those that have any. arrival: by packet, how many of its flow came before it."""

    def __init__(self, flows: FlowTable, flow: Ints, headers: PacketHeaders) -> None:
        """Args: flow: of each packet."""
        order = np.argsort(flow, kind="stable")
        sorted_flow = flow[order]
        self._firsts = find_groups(sorted_flow)
        counts = np.diff(np.append(self._firsts, len(sorted_flow)))
        self.flows = sorted_flow[self._firsts]
        self._before = flows.packets[self.flows]
        self._numbers = headers.number[order]
        self.arrival = np.empty(len(flow), dtype=np.int64)
        self.arrival[order] = np.arange(len(order)) + np.repeat(self._before - self._firsts, counts)
        self._counts, self._order, self._headers = counts, order, headers

    def add_totals(self, flows: FlowTable) -> None:
        """Add number, sizes and times of the packets to the totals of their flows."""
        headers, order, chosen = self._headers, self._order, self.flows
        if not len(order):
            return
        ts, size = headers.ts[order], (headers.captured + headers.missing)[order]
        flows.packets[chosen] += self._counts
        flows.size[chosen] += np.add.reduceat(size, self._firsts)
        flows.first_ts[chosen] = np.minimum(flows.first_ts[chosen], np.minimum.reduceat(ts, self._firsts))
        flows.last_ts[chosen] = np.maximum(flows.last_ts[chosen], np.maximum.reduceat(ts, self._firsts))

    def has_packets(self, flow: int) -> bool:
        """Whether a flow has packets in this span."""
        place = int(np.searchsorted(self.flows, flow))
        return place < len(self.flows) and int(self.flows[place]) == flow

    def number_of(self, flow: int, arrival: int) -> int:
        """The packet of a flow before which it had so many; 0 in an earlier span, `AFTER_CAPTURE` in a later one."""
        place = int(np.searchsorted(self.flows, flow))
        stop = int(self._firsts[place + 1]) if place + 1 < len(self._firsts) else len(self._numbers)
        own = arrival - int(self._before[place])
        if own < 0:
            return 0
        index = int(self._firsts[place]) + own
        return int(self._numbers[index]) if index < stop else AFTER_CAPTURE
