"""Writes what phase 1 finds as the columns of an index, span after span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kwire.capture.index.building.flows import WHY
from kwire.capture.index.model import ANSWERED, ASKED, BEGUN, FLOWS, FRAME, PACKETS
from kwire.capture.reassembly import OPEN_MAX

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.index.building.beginnings import LostRow
    from kwire.capture.index.building.hop import Places
    from kwire.capture.index.building.pairing import Exchanges
    from kwire.capture.index.columns import Columns

    Ints = npt.NDArray[np.int64]

_MANY = WHY.index("many")


class ClientNumbers:
    """The client ids of an index, numbered in the order of its exchanges, whoever gave them other numbers before."""

    def __init__(self) -> None:
        """None yet."""
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, column: Ints, texts: Sequence[str]) -> Ints:
        """The numbers of a column of places in `texts`; -1, which is none, stays."""
        found, first, inverse = np.unique(column, return_index=True, return_inverse=True)
        numbers = np.full(len(found), -1, dtype=np.int64)
        for index in np.argsort(first).tolist():
            place = int(found[index])
            if place < 0:
                numbers[index] = place
                continue
            text = texts[place]
            if text not in self._numbers:
                self._numbers[text] = len(self.texts)
                self.texts.append(text)
            numbers[index] = self._numbers[text]
        return numbers[inverse.reshape(-1)]


class Keeper:
    """Takes what the spans add, in their order."""

    def __init__(self, columns: Columns) -> None:
        """Into these columns, of which there are none yet."""
        self.columns = columns
        self.clients = ClientNumbers()
        self._spans: list[tuple[int, int]] = []
        self._firsts = [0]
        self._lasts = [0]
        self._lost: list[LostRow] = []

    def span(self, extent: tuple[int, int], packets: dict[str, Ints], found: Exchanges, places: Places) -> None:
        """One more: its place and size in the file, the columns of its packets, and what it completes.

        Of the packets the numbers are needed. The client ids of the exchanges are numbers of `clients` already.
        """
        number = len(self._spans)
        self._spans.append(extent)
        for name, kind in PACKETS.items():
            if name in packets:
                self.columns.add(f"{number}.{name}", packets[name].astype(kind, copy=False))
        self.columns.add(f"{number}.pieces.at", places.at)
        self.columns.add(f"{number}.pieces.size", places.size)
        self._firsts.append(self._firsts[-1] + len(places.at))
        numbers = packets["number"]
        self._lasts.append(int(numbers[-1]) if len(numbers) else self._lasts[-1])
        add_exchanges(self.columns, number, found)

    def close(self, flows: dict[str, npt.NDArray[Any]], unanswered: Exchanges, loose: Sequence[bytes]) -> None:
        """The end: what each flow is, by number, and the requests that wait."""
        why = flows["why"]
        if len(why) > OPEN_MAX:
            # The generators give up the connections that were idle longest.
            flows["why"] = np.where(why == 0, _MANY, why)
            unanswered = unanswered.of(np.zeros(0, dtype=np.int64))
        add_exchanges(self.columns, -1, unanswered)
        self.columns.add("parts.last", np.array(self._lasts[1:], dtype="i8"))
        self.columns.add("pieces.first", np.array(self._firsts[:-1], dtype="i8"))
        self.columns.add("flow.words", flows["words"].astype("u8", copy=False).reshape(-1))
        for name in FLOWS:
            self.columns.add(f"flow.{name}", flows[name])
        for number, payload in enumerate(loose):
            self.columns.add(f"loose.{number}", np.frombuffer(payload, dtype=np.uint8))

    def begun(self, found: Exchanges, places: Places, lost: Sequence[LostRow]) -> None:
        """What the beginnings of flows tell that began before the capture; client ids as in spans."""
        add_exchanges(self.columns, BEGUN, found)
        # Behind the pieces of the last span.
        self.columns.add(f"{len(self._spans)}.pieces.at", places.at)
        self.columns.add(f"{len(self._spans)}.pieces.size", places.size)
        self._lost = list(lost)

    def about(self, more: dict[str, Any]) -> None:
        """What else the index says."""
        self.columns.about = {**more, "client_ids": self.clients.texts, "spans": self._spans, "lost": self._lost}


def add_exchanges(columns: Columns, number: int, found: Exchanges) -> None:
    """Write exchanges in the place of this span; -1: those without an answer."""
    for name, frame in (("request", found.request.frame), ("response", found.response.frame)):
        for each, kind in FRAME.items():
            columns.add(f"{number}.{name}.{each}", getattr(frame, each).astype(kind))
    for each, kind in ASKED.items():
        columns.add(f"{number}.asked.{each}", getattr(found.request, each).astype(kind))
    for each, kind in ANSWERED.items():
        columns.add(f"{number}.answered.{each}", getattr(found.response, each).astype(kind))
    columns.add(f"{number}.done", found.done)
