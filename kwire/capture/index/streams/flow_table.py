"""The flows of a capture: their state between spans, as columns by flow and by side.

A flow is all traffic between two endpoints, however many connections it has. It is clean while columns can read it: one
connection that uses the Kafka protocol, with or without its beginning, and with or without lost and cut packets. Other
flows have one of `UNCLEAN_REASONS`, and the streaming pipeline reads them from their first packet.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from kwire.capture.index.arrays import Bools, Ints
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE

UNCLEAN_REASONS = (
    "clean",
    "midstream",  # data before the SYN of its side
    "reuse",  # a second connection between the endpoints
    "disorder",  # more segments behind gaps, or acknowledgements further ahead, than columns handle
    "after_end",  # data after the connection was closed, or so late after a reset that this had no effect
    "not_kafka",  # no request, or requests of both sides, so that they do not show which one is the client
    "bad_length",  # a response that has no correlation id and came late
    "tls",  # it speaks TLS; with its secrets, a decrypted index has its exchanges
    "tokens",  # SASL tokens without headers (SaslHandshake version 0)
    "pairing",  # two open requests of one correlation id, or more early responses than may wait
    "waiting",  # too many pending requests
    "many",  # too many flows in the capture
    "old_header",  # a request header without a client id (ControlledShutdown version 0)
)
_NUMBER = {name: number for number, name in enumerate(UNCLEAN_REASONS)}

FIN_END, RST_END = 1, 2
END_REASONS = ("end", "fin", "rst")


def _by_flow(initial: int) -> Ints:
    """The rows of one flow in a column by flow."""
    return np.array([initial], dtype=np.int64)


def _by_side(initial: int) -> Ints:
    """The rows of one flow in a column by side."""
    return np.array([initial, initial], dtype=np.int64)


class FlowTable:
    """Columns by flow number, and by side number: twice the flow number, plus the side.

    The class has the initial rows of one flow; each table has columns of its own. opener: the side that opened the
    connection, then the client. beginning: whether the connection begins by a SYN or by data (`stream_starts`).
    begin_packet, begin_arrival: the packet that opens the connection, and how many packets of the flow came before it.
    detection: whether the client is known (`undecided_flows`). decided_at: the moment at which it was found, if that
    was after its first bytes. closed_by: the packet that shows an ended connection to be over. starts_known: whether
    `start_seq` is known from a SYN, or is the lowest number that was seen. plain_starts_known: the same of what was
    decrypted, -1 for other streams. known_from: the first packet for which the start is known. acked_ts, fin_ts: of the
    packets that showed `acked_seq` and `fin_seq`. has_frames: whether frames were looked for.
    """

    first_ts = _by_flow(2**63 - 1)
    last_ts = _by_flow(-(2**63))
    packets = _by_flow(0)
    size = _by_flow(0)
    link = _by_flow(-1)
    syns = _by_flow(0)
    unclean_reason = _by_flow(0)
    opener = _by_flow(-1)
    beginning = _by_flow(0)
    begin_packet = _by_flow(AFTER_CAPTURE)
    begin_arrival = _by_flow(0)
    detection = _by_flow(0)
    decided_at = _by_flow(0)
    end_reason = _by_flow(0)
    end_packet = _by_flow(AFTER_CAPTURE)
    end_ts = _by_flow(0)
    closed_by = _by_flow(-1)
    request_count = _by_flow(0)
    open_requests = _by_flow(0)
    last_answered = _by_flow(-1)
    start_seq = _by_side(-1)
    starts_known = _by_side(0)
    plain_starts_known = _by_side(-1)
    known_from = _by_side(AFTER_CAPTURE)
    has_frames = _by_side(0)
    next_seq = _by_side(0)
    acked_seq = _by_side(-1)
    fin_seq = _by_side(-1)
    fin_ts = _by_side(0)
    acked_ts = _by_side(0)
    last_data_ts = _by_side(0)

    def __init__(self) -> None:
        """There is no flow yet."""
        self._count = 0
        self._capacity = 0
        self._grow(64)

    def __len__(self) -> int:
        return self._count

    def grow_to(self, count: int) -> None:
        """Extend the table to this many flows, numbered from 0."""
        self._count = max(self._count, count)
        if count > self._capacity:
            self._grow(2 * count)

    def mark_unclean(self, flows: Ints, reason: str) -> None:
        """Mark these flows as not clean; the first reason of each flow is kept."""
        if len(flows):
            chosen = flows[self.unclean_reason[flows] == 0]
            self.unclean_reason[chosen] = _NUMBER[reason]

    def is_clean(self, flows: Ints) -> Bools:
        """Whether each of these flows is clean so far."""
        return cast("Bools", self.unclean_reason[flows] == 0)

    def frame_starts_known(self, sides: Ints) -> Bools:
        """Whether a frame begins with the first byte of each of these sides."""
        plain = self.plain_starts_known[sides]
        return np.where(plain < 0, self.starts_known[sides], plain) > 0

    def _grow(self, capacity: int) -> None:
        for name, initial in _INITIAL_COLUMNS.items():
            column = np.full(capacity * len(initial), initial[0])
            before = getattr(self, name)
            column[: len(before)] = before
            setattr(self, name, column)
        self._capacity = capacity


_INITIAL_COLUMNS = {name: column for name, column in vars(FlowTable).items() if isinstance(column, np.ndarray)}
