"""Which flows are closed in a span: a connection may receive late packets for some time after its FIN or RST."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.flow_table import QUIET_END, RST_END, UNSEEN, FlowTable
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE
from kwire.capture.tcp.stream_limits import LINGER_NS, RESET_EFFECT_NS

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
        self._search = _LaterPackets(PacketTimes(NO_NUMBERS, NO_NUMBERS))

    def begin_span(self, times: PacketTimes) -> None:
        """Args: times: of all packets of the span."""
        self._search = _LaterPackets(times)
        if len(times.ts):
            self._last_ts = int(times.ts[-1])

    def add_ended(self, headers: PacketHeaders, flow: Ints) -> None:
        """Add the flows that end in the span. Args: headers, flow: its packets."""
        flows = self._flows
        is_new = (flows.end_packet[flow] == headers.number) & (flows.end_reason[flow] > 0)
        self._lingering += self._select_read(flow[is_new]).tolist()

    def add(self, flow: int) -> None:
        """Add one flow that has ended."""
        self._lingering.append(flow)

    def remove(self, flows: Collection[int]) -> None:
        """Remove these flows."""
        self._lingering = [flow for flow in self._lingering if flow not in flows]

    def find_end(self, flow: int) -> FlowEnd | None:
        """The packet of the span, of any flow, that shows an ended flow to be over; None if there is none."""
        flows = self._flows
        return self._search.first_after(int(flows.end_packet[flow]), int(flows.end_ts[flow]) + LINGER_NS)

    def close_lingering(self) -> dict[int, FlowEnd]:
        """Close the flows that a packet of the span shows to be over."""
        flows = self._flows
        ends = {flow: end for flow in self._lingering if (end := self.find_end(flow)) is not None}
        self.remove(ends)
        for flow in [flow for flow in ends if is_reset_ignored(flows, flow)]:
            flows.end_reason[flow], flows.end_packet[flow] = 0, AFTER_CAPTURE
            del ends[flow]
        flows.closed_by[list(ends)] = [end.number for end in ends.values()]
        return ends

    def sort_ends(self, ends: dict[int, FlowEnd]) -> dict[int, FlowEnd]:
        """The flows that are closed in a span, in the order of their ends."""
        flows = self._flows
        return dict(sorted(ends.items(), key=lambda item: (item[1].number, int(flows.end_packet[item[0]]), item[0])))

    def end_all(self) -> dict[int, FlowEnd]:
        """The flows that are open at the end of the capture, in the order of their numbers."""
        flows = self._flows
        left = self._select_read(np.nonzero(flows.closed_by[: len(flows)] < 0)[0])
        return dict.fromkeys(left.tolist(), FlowEnd(AFTER_CAPTURE, self._last_ts))

    def close_quiet(self, before_ts: int, number: int) -> dict[int, FlowEnd]:
        """Close the flows without a packet since a time, in the order of their numbers.

        Args: number: of the packet before which they are closed.
        """
        flows, count = self._flows, len(self._flows)
        is_quiet = (flows.closed_by[:count] < 0) & (flows.last_ts[:count] < before_ts)
        quiet = self._select_read(np.nonzero(is_quiet)[0])
        flows.closed_by[quiet] = number
        flows.end_reason[quiet[flows.end_reason[quiet] == 0]] = QUIET_END
        self.remove(set(quiet.tolist()))
        return dict.fromkeys(quiet.tolist(), FlowEnd(number, self._last_ts))

    def _select_read(self, flow: Ints) -> Ints:
        """Those of these flows of which something may be left."""
        read: Ints = flow[self._flows.beginning[flow] != UNSEEN]
        return read


def is_reset_ignored(flows: FlowTable, flow: int) -> bool:
    """Whether a connection sent data after a reset, so that it goes on."""
    is_reset = flows.end_reason[flow] == RST_END
    return bool(is_reset and flows.data_ts[flow] - flows.end_ts[flow] > RESET_EFFECT_NS)


class _LaterPackets:
    """Finds packets by their times, which need not be in order, block by block."""

    def __init__(self, times: PacketTimes) -> None:
        self._number, self._ts = times
        firsts = np.arange(0, len(self._ts), _BLOCK_SIZE)
        self._latest = np.maximum.reduceat(self._ts, firsts) if len(firsts) else firsts

    def first_after(self, number: int, ts: int) -> FlowEnd | None:
        """The first packet behind another that is later than a time; None if there is none."""
        begin = int(np.searchsorted(self._number, number, "right"))
        block = begin // _BLOCK_SIZE
        found = self._first_in_block(begin, block, ts)
        if found is None:
            later = np.nonzero(self._latest[block + 1 :] > ts)[0]
            if len(later):
                block += 1 + int(later[0])
                found = self._first_in_block(block * _BLOCK_SIZE, block, ts)
        return None if found is None else FlowEnd(int(self._number[found]), int(self._ts[found]))

    def _first_in_block(self, begin: int, block: int, ts: int) -> int | None:
        places = np.nonzero(self._ts[begin : (block + 1) * _BLOCK_SIZE] > ts)[0]
        return begin + int(places[0]) if len(places) else None
