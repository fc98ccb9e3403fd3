"""Measure the round trip of handshakes: from a SYN to its sender's acknowledgement of the answer.

This holds at any point of capture. Only packets with SYN are visited, and the first one behind an answer.
"""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.tcp.flags import ACK, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK
from kwire.capture.traffic.connection_states import ConnectionStates


class RoundTrips:
    """Measures the handshakes of a span, and has what was known of a round trip at each packet."""

    def __init__(self, states: ConnectionStates, headers: PacketHeaders, row: Ints, by_side: tuple[Ints, Ints]) -> None:
        """Args: headers: in packet order. row: of the connection of each packet. by_side: the packets by side.

        These are the side of each, twice the row plus the side, and its index; those of a side in packet order.
        """
        self._states = states
        self._headers = headers
        self._by_side = by_side
        self._before: dict[int, int] = {}
        self._measured: dict[int, list[tuple[int, int]]] = {}
        syns = np.nonzero(headers.flags & SYN)[0]
        syns_by_row: dict[int, list[int]] = {}
        for number, index in zip(row[syns].tolist(), syns.tolist(), strict=True):
            syns_by_row.setdefault(number, []).append(index)
        answered = np.unique(row[states.syn_ack[row] >= 0]).tolist()
        for number in (*syns_by_row, *(number for number in answered if number not in syns_by_row)):
            self._measure(number, syns_by_row.get(number, []))

    def find(self, row: int, index: int) -> int:
        """The round trip of a connection, in nanoseconds, as it was known at a packet of the span; 0 if unknown."""
        for at, round_trip in reversed(self._measured.get(row, [])):
            if at <= index:
                return round_trip
        return max(self._before.get(row, int(self._states.rtt[row])), 0)

    def _measure(self, row: int, syns: list[int]) -> None:
        """Measure the handshakes of one connection. Args: syns: its packets with SYN."""
        states = self._states
        reached = -1
        for index in (*syns, len(self._headers.flags)):
            if states.syn_side[row] >= 0 and states.syn_ack[row] >= 0:
                answer = self._first_without_syn(2 * row + int(states.syn_side[row]), reached)
                if answer is not None and answer < index:
                    self._add_acknowledgement(row, answer)
            if index < len(self._headers.flags):
                self._add_syn(row, index)
                reached = index

    def _add_syn(self, row: int, index: int) -> None:
        states, headers = self._states, self._headers
        side, seq = int(headers.side[index]), int(headers.seq[index])
        if not headers.flags[index] & ACK:
            states.syn_side[row], states.syn_seq[row], states.syn_ts[row] = side, seq, headers.ts[index]
            states.syn_ack[row] = -1
        elif 0 <= states.syn_side[row] != side and headers.ack[index] == (int(states.syn_seq[row]) + 1) & SEQ_MASK:
            states.syn_ack[row] = seq

    def _add_acknowledgement(self, row: int, index: int) -> None:
        """The first packet behind the answer, of the side that sent the SYN: a later one may be much later."""
        states, headers = self._states, self._headers
        round_trip = int(headers.ts[index] - states.syn_ts[row])
        is_answer = headers.flags[index] & ACK and headers.ack[index] == (int(states.syn_ack[row]) + 1) & SEQ_MASK
        if round_trip >= 0 and is_answer:
            self._before.setdefault(row, int(states.rtt[row]))
            self._measured.setdefault(row, []).append((index, round_trip))
            states.rtt[row] = round_trip
        states.syn_side[row] = states.syn_ack[row] = -1

    def _first_without_syn(self, side: int, reached: int) -> int | None:
        """The first packet of a side behind another packet that has no SYN; None if there is none."""
        sides, indexes = self._by_side
        first, stop = np.searchsorted(sides, (side, side + 1)).tolist()
        place = first + int(np.searchsorted(indexes[first:stop], reached, "right"))
        while place < stop and self._headers.flags[indexes[place]] & SYN:
            place += 1
        return int(indexes[place]) if place < stop else None
