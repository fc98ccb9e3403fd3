"""The state of the TCP analysis of connections, as columns; it continues from span to span."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints

_LATEST = 2**63 - 1


class ConnectionStates(NamedTuple):
    """Connections, one row each. Columns by side have two columns of numbers, the others one.

    first_packet, last_packet: numbers. rtt: round trip of the handshake in nanoseconds, -1 where it was not seen.
    closing_side: the side that sent the first FIN or RST, -1 if none did. has_data: whether bytes were captured.
    syn_side, syn_seq, syn_ts: of the latest SYN, -1 for none or where its answer was acknowledged. syn_ack: the number
    of the SYN-ACK that answers it, -1 for none.

    By side: size: of payload on the wire, repetitions included. lost: bytes that were not captured. high: the unwrapped
    sequence number behind all that were seen, -1 for none. low: the lowest one, -1 where the first packet was a SYN.
    counted: the packets without RST.
    """

    flow: Ints
    first_ts: Ints
    last_ts: Ints
    first_packet: Ints
    last_packet: Ints
    rtt: Ints
    closing_side: Ints
    has_data: Ints
    syn_side: Ints
    syn_seq: Ints
    syn_ts: Ints
    syn_ack: Ints
    packets: Ints
    size: Ints
    retransmits: Ints
    lost: Ints
    zero_windows: Ints
    low: Ints
    high: Ints
    counted: Ints

    def select(self, rows: Ints) -> ConnectionStates:
        """The rows with these indexes."""
        return ConnectionStates._make(column[rows] for column in self)


_INITIAL = {
    "first_ts": _LATEST,
    "last_ts": -_LATEST - 1,
    "first_packet": _LATEST,
    "rtt": -1,
    "closing_side": -1,
    "syn_side": -1,
    "syn_ack": -1,
    "low": -1,
    "high": -1,
}
_BY_SIDE = ConnectionStates._fields[ConnectionStates._fields.index("packets") :]


def new_states(flow: Ints) -> ConnectionStates:
    """The states of connections without packets."""
    shapes = ((len(flow), 2) if name in _BY_SIDE else len(flow) for name in ConnectionStates._fields[1:])
    values = (_INITIAL.get(name, 0) for name in ConnectionStates._fields[1:])
    columns = (np.full(shape, value, dtype=np.int64) for shape, value in zip(shapes, values, strict=True))
    return ConnectionStates(flow, *columns)


NO_STATES = new_states(NO_NUMBERS)
