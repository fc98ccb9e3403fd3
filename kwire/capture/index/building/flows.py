"""The flows of a capture and how each stands: what is needed to go on with the next span, as columns by flow.

A flow is all that two ends exchange, whatever the number of connections. It is clean while its packets show one
connection from its SYN on, without loss, that speaks Kafka from its first byte; then the fast lane may read it. What it
is not clean for is one of `WHY`; the generators read it then, from its beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

WHY = (
    "clean",
    "midstream",
    "reuse",
    "snaplen",
    "fragments",
    "hole",
    "disorder",
    "after_end",
    "not_kafka",
    "bad_length",
    "tokens",
    "pairing",
    "waiting",
    "cut",
    "many",
)
_NUMBER = {name: number for number, name in enumerate(WHY)}

# What is kept of each flow, and of each side of it, and what that is before anything was seen.
_OF_FLOW = {
    "first_ts": 2**63 - 1,
    "last_ts": -(2**63),
    "packets": 0,
    "size": 0,
    "link": -1,
    "syns": 0,
    "why": 0,
    "opener": -1,
    "stage": 0,
    "has_begun": 0,
    "ended": 0,
    "ended_number": 2**62,
    "count": 0,
    "open": 0,
    "answered": -1,
    "client_id": -1,
}
_OF_SIDE = {"start": -1, "syn_number": 2**62, "next": 0, "frame_at": 0, "acked": -1, "fin": -1}
FIN_END, RST_END = 1, 2
ENDED = ("end", "fin", "rst")


class Flows:
    """The columns by flow number, and by side number: twice the flow's, plus the side."""

    first_ts: Ints
    last_ts: Ints
    packets: Ints
    size: Ints
    link: Ints
    syns: Ints
    why: Ints
    opener: Ints
    stage: Ints
    has_begun: Ints
    ended: Ints
    ended_number: Ints
    count: Ints
    open: Ints
    answered: Ints
    client_id: Ints
    start: Ints
    syn_number: Ints
    next: Ints
    frame_at: Ints
    acked: Ints
    fin: Ints

    def __init__(self) -> None:
        """No flow yet."""
        self._known = 0
        self._room = 0
        self._grow(64)

    def __len__(self) -> int:
        return self._known

    def reach(self, count: int) -> None:
        """There are so many flows by now: numbers from 0 up."""
        self._known = max(self._known, count)
        if count > self._room:
            self._grow(2 * count)

    def spoil(self, flows: Ints, why: str) -> None:
        """These are not clean; the first reason stays."""
        if len(flows):
            chosen = flows[self.why[flows] == 0]
            self.why[chosen] = _NUMBER[why]

    def is_clean(self, flows: Ints) -> npt.NDArray[np.bool_]:
        """Whether each of these is clean so far."""
        return cast("npt.NDArray[np.bool_]", self.why[flows] == 0)

    def _grow(self, room: int) -> None:
        for names, factor in ((_OF_FLOW, 1), (_OF_SIDE, 2)):
            for name, before in names.items():
                column = np.full(room * factor, before, dtype=np.int64)
                if self._room:
                    column[: self._room * factor] = getattr(self, name)
                setattr(self, name, column)
        self._room = room
