"""The packets of a span by flow: how many each flow has, and which packet of the capture is its n-th."""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import Ints, find_groups
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE


class FlowPackets:
    """The packets of one span. arrival: by packet, how many packets of its flow came before it."""

    def __init__(self, flows: FlowTable, flow: Ints, headers: PacketHeaders) -> None:
        """Count the packets in `flows`. Args: flow: of each packet."""
        order = np.argsort(flow, kind="stable")
        sorted_flow = flow[order]
        self._firsts = find_groups(sorted_flow)
        counts = np.diff(np.append(self._firsts, len(sorted_flow)))
        self._flow = sorted_flow[self._firsts]
        self._before = flows.packets[self._flow]
        self._numbers = headers.number[order]
        self.arrival = np.empty(len(flow), dtype=np.int64)
        self.arrival[order] = np.arange(len(order)) + np.repeat(self._before - self._firsts, counts)
        if not len(flow):
            return
        ts, size = headers.ts[order], (headers.captured + headers.missing)[order]
        chosen = self._flow
        flows.packets[chosen] += counts
        flows.size[chosen] += np.add.reduceat(size, self._firsts)
        flows.first_ts[chosen] = np.minimum(flows.first_ts[chosen], np.minimum.reduceat(ts, self._firsts))
        flows.last_ts[chosen] = np.maximum(flows.last_ts[chosen], np.maximum.reduceat(ts, self._firsts))
        is_new = flows.link[chosen] < 0
        flows.link[chosen[is_new]] = headers.link[order[self._firsts]][is_new]

    def has_packets(self, flow: int) -> bool:
        """Whether a flow has packets in this span."""
        place = int(np.searchsorted(self._flow, flow))
        return place < len(self._flow) and int(self._flow[place]) == flow

    def number_of(self, flow: int, arrival: int) -> int:
        """The packet of a flow before which it had so many; 0 in an earlier span, `AFTER_CAPTURE` in a later one."""
        place = int(np.searchsorted(self._flow, flow))
        stop = int(self._firsts[place + 1]) if place + 1 < len(self._firsts) else len(self._numbers)
        own = arrival - int(self._before[place])
        if own < 0:
            return 0
        index = int(self._firsts[place]) + own
        return int(self._numbers[index]) if index < stop else AFTER_CAPTURE
