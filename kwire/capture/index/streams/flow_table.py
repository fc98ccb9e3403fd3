"""The flows of a capture: their state between spans, as columns by flow and by side.

A flow is one connection; where ports are used again, a pair of endpoints has several.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from kwire.capture.index.arrays import Bools, Ints
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE

UNSEEN, BY_SYN, BY_DATA = 0, 1, 2
"""How a connection begins: not seen yet; by a SYN; by data."""
FIN_END, RST_END, REUSE_END, QUIET_END = 1, 2, 3, 4
END_REASONS = ("end", "fin", "rst", "reuse", "quiet")
SYN_ANSWER, SYN_PLAIN = 1, 2
"""The SYNs of a side: with an acknowledgement, or without."""


def _by_flow(initial: int) -> Ints:
    """The rows of one flow in a column by flow."""
    return np.array([initial], dtype=np.int64)


def _by_side(initial: int) -> Ints:
    """The rows of one flow in a column by side."""
    return np.array([initial, initial], dtype=np.int64)


class FlowTable:
    """Columns by flow number, and by side number: twice the flow number, plus the side.

    The class has the initial rows of one flow; each table has columns of its own. pair: of endpoints. epoch: how
    many connections the pair had before. numbered_in: twice the span in which the flow got its number, and one more
    if `connection_walk` gave it. opener: the side that opened the connection, then the client. is_irregular:
    whether `connection_walk` reads its packets of the span. strays, data_ts: while the flow is irregular, the packets
    since new bytes that are far behind, and the time of the latest new bytes. detection: whether the client is
    known (`undecided_flows`). decided_at: the moment at which it was found, if that was after its first bytes.
    fin_side: which side sent the first FIN, -1 if none did. closed_by: the packet that shows an ended connection to be
    over. syns: which SYNs a side sent. starts_known: whether `start_seq` is known
    from a SYN, or is the lowest number that was seen. plain_starts_known: the same of what was decrypted, -1 for
    other streams. known_from: the first packet for which the start is known. acked_ts, fin_ts: of the packets that
    showed `acked_seq` and `fin_seq`. has_frames: whether frames were looked for.
    """

    pair = _by_flow(-1)
    epoch = _by_flow(0)
    numbered_in = _by_flow(0)

    first_ts = _by_flow(2**63 - 1)
    last_ts = _by_flow(-(2**63))
    packets = _by_flow(0)
    size = _by_flow(0)
    link = _by_flow(-1)
    opener = _by_flow(-1)
    beginning = _by_flow(UNSEEN)
    is_irregular = _by_flow(0)
    strays = _by_flow(0)
    data_ts = _by_flow(0)
    detection = _by_flow(0)
    decided_at = _by_flow(0)
    fin_side = _by_flow(-1)
    end_reason = _by_flow(0)
    end_packet = _by_flow(AFTER_CAPTURE)
    end_ts = _by_flow(0)
    closed_by = _by_flow(-1)
    request_count = _by_flow(0)
    open_requests = _by_flow(0)
    last_answered = _by_flow(-1)
    syns = _by_side(0)
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

    def add_flows(self, pairs: Ints, epochs: Ints | int, numbered_in: int) -> Ints:
        """Add a flow for each of these pairs; return their numbers."""
        flows = np.arange(self._count, self._count + len(pairs))
        self._count += len(pairs)
        if self._count > self._capacity:
            self._grow(2 * self._count)
        self.pair[flows], self.epoch[flows], self.numbered_in[flows] = pairs, epochs, numbered_in
        return flows

    def is_regular(self, flows: Ints) -> Bools:
        """Whether each of these flows is not irregular."""
        return cast("Bools", self.is_irregular[flows] == 0)

    def copy_rows(self, flows: Ints) -> dict[str, Ints]:
        """The rows of these flows, for `restore_rows`."""
        return {
            name: getattr(self, name).reshape(-1, len(initial))[flows] for name, initial in _INITIAL_COLUMNS.items()
        }

    def restore_rows(self, flows: Ints, rows: dict[str, Ints], chosen: Bools) -> None:
        """Set the rows of those flows that are chosen to what `copy_rows` returned for all of these."""
        for name, initial in _INITIAL_COLUMNS.items():
            getattr(self, name).reshape(-1, len(initial))[flows[chosen]] = rows[name][chosen]

    def clear_row(self, flow: int) -> None:
        """Set the row of a flow that had no data to that of a new connection of the same endpoints."""
        for rows, initial in self._cleared:
            rows[flow] = initial
        self.epoch[flow] += 1

    def frame_starts_known(self, sides: Ints) -> Bools:
        """Whether a frame begins with the first byte of each of these sides."""
        plain = self.plain_starts_known[sides]
        return np.where(plain < 0, self.starts_known[sides], plain) > 0

    def __getstate__(self) -> dict[str, Any]:
        """The rows of the flows that are open; of the others only what their pairs of endpoints need."""
        kept = {name: getattr(self, name)[: self._count] for name in _CLOSED_COLUMNS}
        opened = np.nonzero(kept["closed_by"] < 0)[0]
        return {"count": self._count, "kept": kept, "opened": opened, "rows": self.copy_rows(opened)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what `__getstate__` returned."""
        self._count = count = state["count"]
        self._capacity = 0
        self._grow(max(count, 1))
        for name, column in state["kept"].items():
            getattr(self, name)[:count] = column
        opened = state["opened"]
        self.restore_rows(opened, state["rows"], np.ones(len(opened), dtype=np.bool_))

    def _grow(self, capacity: int) -> None:
        for name, initial in _INITIAL_COLUMNS.items():
            column = np.full(capacity * len(initial), initial[0])
            before = getattr(self, name)
            column[: len(before)] = before
            setattr(self, name, column)
        self._capacity = capacity
        self._set_cleared()

    def _set_cleared(self) -> None:
        """Set the views of the columns that `clear_row` writes."""
        self._cleared = [
            (getattr(self, name).reshape(-1, len(initial)), initial)
            for name, initial in _INITIAL_COLUMNS.items()
            if name not in _KEPT_COLUMNS
        ]


# What a row keeps that is used again.
_KEPT_COLUMNS = frozenset({"pair", "epoch", "numbered_in", "first_ts", "last_ts"})
# What is needed of a flow that is closed: its endpoints may be used again.
_CLOSED_COLUMNS = ("pair", "epoch", "closed_by")
_INITIAL_COLUMNS = {name: column for name, column in vars(FlowTable).items() if isinstance(column, np.ndarray)}
