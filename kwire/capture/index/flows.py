"""The flows of a capture and how each stands: what is needed to go on with the next span, as columns by flow.

A flow is all that two ends exchange, whatever the number of connections. It is clean while its packets show one
connection from its SYN on, without loss, that speaks Kafka from its first byte; then the fast lane may read it. What it
is not clean for is one of `WHY`; the generators read it then, from its beginning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from kwire.capture.index.heads import ends_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.values import End

    Ints = npt.NDArray[np.int64]

WHY = (
    "clean",
    "midstream",
    "reuse",
    "snaplen",
    "fragments",
    "overlap",
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
_MIX = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F],
    dtype=np.uint64,
)


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
        self.words: list[tuple[int, ...]] = []
        self._ids: dict[tuple[int, ...], int] = {}
        self._room = 0
        self._grow(64)

    def __len__(self) -> int:
        return len(self.words)

    def ids(self, words: npt.NDArray[np.uint64]) -> Ints:
        """The flow of each row of words; new ones are added, in the order in which they come."""
        if not len(words):
            return np.zeros(0, dtype=np.int64)
        mixed = (words * _MIX).sum(axis=1, dtype=np.uint64)
        _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
        if not np.array_equal(words[first][inverse], words):
            # Two flows have one sum: rare, or made so.
            _, first, inverse = np.unique(words, axis=0, return_index=True, return_inverse=True)
        ids = np.empty(len(first), dtype=np.int64)
        for index in np.argsort(first, kind="stable").tolist():
            key = tuple(words[first[index]].tolist())
            found = self._ids.get(key)
            if found is None:
                found = self._ids[key] = len(self.words)
                self.words.append(key)
            ids[index] = found
        if len(self.words) > self._room:
            self._grow(2 * len(self.words))
        return ids[inverse.reshape(-1)]

    def key(self, flow: int) -> tuple[End, End]:
        """The two ends, the smaller one first."""
        return ends_of(self.words[flow])

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
