"""Which flows are closed in a span: a connection may receive late packets for some time after its FIN or RST."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE
from kwire.capture.tcp.reassembly import LINGER_NS

# The packets whose times are compared at once.
_BLOCK_SIZE = 1024


class PacketTimes(NamedTuple):
    """Number and time of all packets of a span, nanoseconds."""

    number: Ints
    ts: Ints


class FlowEnd(NamedTuple):
    """The packet that shows a connection to be over, `AFTER_CAPTURE` at the end of the capture; and its time."""

    number: int
    ts: int


class FlowClosing:
    """The flows that have ended and are not closed yet."""

    def __init__(self, flows: FlowTable) -> None:
        """`flows` has the end of each flow."""
        self._flows = flows
        self._lingering: list[int] = []
        self._last_ts = 0

    def end_flows(self, headers: PacketHeaders, flow: Ints, times: PacketTimes) -> dict[int, FlowEnd]:
        """The flows that a packet of any flow shows to be over, in their order.

        Args: headers, flow: the packets of the span. times: of all packets.
        """
        flows = self._flows
        is_new = (flows.end_packet[flow] == headers.number) & (flows.end_reason[flow] > 0)
        self._lingering += self._select_read(flow[is_new]).tolist()
        if not len(times.ts):
            return {}
        self._last_ts = int(times.ts[-1])
        search, closing = _LaterPackets(times.ts), []
        for lingering in self._lingering:
            end_packet = int(flows.end_packet[lingering])
            behind = int(np.searchsorted(times.number, end_packet, "right"))
            at = search.first_after(behind, int(flows.end_ts[lingering]) + LINGER_NS)
            if at is not None:
                closing.append((int(times.number[at]), end_packet, lingering, int(times.ts[at])))
        closing.sort()
        closed = {lingering: FlowEnd(number, ts) for number, _, lingering, ts in closing}
        self._lingering = [lingering for lingering in self._lingering if lingering not in closed]
        flows.closed_by[list(closed)] = [end.number for end in closed.values()]
        closed_by = flows.closed_by[flow]
        is_after = (closed_by >= 0) & (headers.number >= closed_by) & (headers.captured + headers.missing > 0)
        flows.mark_unclean(flow[is_after], "after_end")
        return closed

    def end_all(self) -> dict[int, FlowEnd]:
        """The flows that are open at the end of the capture, in the order in which they began."""
        flows = self._flows
        left = self._select_read(np.nonzero(flows.closed_by[: len(flows)] < 0)[0])
        return dict.fromkeys(left.tolist(), FlowEnd(AFTER_CAPTURE, self._last_ts))

    def _select_read(self, flow: Ints) -> Ints:
        """Those of these flows of which something may be left."""
        return flow[self._flows.is_clean(flow) & (self._flows.begin_packet[flow] < AFTER_CAPTURE)]


class _LaterPackets:
    """Finds packets by their times, which need not be in order, block by block."""

    def __init__(self, ts: Ints) -> None:
        self._ts = ts
        self._latest = np.maximum.reduceat(ts, np.arange(0, len(ts), _BLOCK_SIZE))

    def first_after(self, begin: int, ts: int) -> int | None:
        """The first packet from a place on that is later than a time; None if there is none."""
        block = begin // _BLOCK_SIZE
        found = self._first_in_block(begin, block, ts)
        if found is None:
            later = np.nonzero(self._latest[block + 1 :] > ts)[0]
            if len(later):
                block += 1 + int(later[0])
                found = self._first_in_block(block * _BLOCK_SIZE, block, ts)
        return found

    def _first_in_block(self, begin: int, block: int, ts: int) -> int | None:
        places = np.nonzero(self._ts[begin : (block + 1) * _BLOCK_SIZE] > ts)[0]
        return begin + int(places[0]) if len(places) else None
