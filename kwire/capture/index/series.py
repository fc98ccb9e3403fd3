"""Flows that go on from file to file: chosen flows of several captures, indexed as if the captures were one.

The builder runs over the packets that the indexes of the files have kept. Offsets of a file begin behind those of the
file before, and so do numbers of packets; rows tell both as they are in their own file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kwire.capture.index.build import renumbered
from kwire.capture.index.building.builder import Builder
from kwire.capture.index.building.hop import Held
from kwire.capture.index.columns import Columns
from kwire.capture.index.keeping import Keeper
from kwire.capture.index.model import FLOWS, FlowKey, Index
from kwire.capture.index.sparse import read_places
from kwire.capture.index.walking.files import File
from kwire.capture.index.walking.heads import Heads, end_words
from kwire.capture.keylog import KeyLog

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

# Between the files: as much as anybody reads behind the end of one.
_ROOM = 1024
# A series may have more files than a process may open.
_OPEN_MAX = 16


class Series(Index):
    """The index of chosen flows of several captures, in the order of their times. It is built when it is made."""

    def __init__(self, indexes: Sequence[Index], flows: Collection[FlowKey] | None = None) -> None:
        """Args: flows: None for all."""
        self.indexes = list(indexes)
        self._chosen = flows
        self._firsts = np.cumsum([0, *(each.packet_count for each in indexes)], dtype=np.int64)
        self._bases = np.cumsum([0, *(each.size + _ROOM for each in indexes)], dtype=np.int64)
        super().__init__(b"", self._built())

    @property
    def file(self) -> str:
        """The first of the files."""
        return self.indexes[0].file

    @cached_property
    def files(self) -> list[tuple[int, str]]:
        """The time from which on the capture was under way, and the name, of each file."""
        return [(each.first_ts, each.file) for each in self.indexes]

    @property
    def members(self) -> list[tuple[int, Index]]:
        """The index of each file, and how many packets are in the files before."""
        return list(zip(self._firsts[:-1].tolist(), self.indexes, strict=True))

    def keys(self, more: str = "") -> KeyLog:
        """The TLS secrets of all files, and more lines of a key log."""
        found = self.indexes[0].keys(more)
        for each in self.indexes[1:]:
            found.add(each.secrets)
        return found

    def opened(self) -> _Files:
        """The bytes of all files."""
        return _Files(self.indexes, self._bases[:-1].tolist())

    def own_packets(self, numbers: Ints) -> Ints:
        """Numbers of packets as they are in their own files; what is below one stays."""
        place = np.searchsorted(self._firsts[:-1], numbers, "left") - 1
        return numbers - self._firsts[np.maximum(place, 0)]

    def __reduce__(self) -> tuple[Any, ...]:
        """It is built again, from indexes that travel as theirs do."""
        return Series, (self.indexes, self._chosen)

    def _built(self) -> Columns:
        columns = Columns()
        keeper = Keeper(columns)
        numbers: dict[FlowKey, int] = {}
        files = self.opened()
        try:
            builder = Builder(files.read)
            for heads, flow, extent in self._parts(numbers):
                places = heads.at, heads.at + heads.kept
                held = Held(extent[0], read_places(files.read, *extent, places))
                part = builder.part(heads, flow, held)
                found = renumbered(part.exchanges, keeper.clients, builder.client_ids)
                keeper.span(extent, {"number": heads.number}, found, part.places)
            unanswered = renumbered(builder.close(), keeper.clients, builder.client_ids)
            begun = builder.begun()
        finally:
            files.close()
        keeper.begun(renumbered(begun.exchanges, keeper.clients, builder.client_ids), begun.pieces, begun.lost)
        flows: dict[str, Any] = {name: getattr(builder.flows, name)[: len(numbers)] for name in FLOWS}
        words = [end_words(low, high) for low, high in numbers]
        keeper.close({**flows, "words": np.array(words, dtype=np.uint64).reshape(-1, 5)}, unanswered, [])
        keeper.about(
            {
                "size": int(self._bases[-1]),
                "mtime_ns": 0,
                "packet_count": int(self._firsts[-1]),
                "first_ts": min((each.first_ts for each in self.indexes), default=0),
                "last_ts": max((each.last_ts for each in self.indexes), default=0),
                "secrets_at": [],
                "may_have_secrets": False,
                "troubles": [],
            }
        )
        return columns

    def _parts(self, numbers: dict[FlowKey, int]) -> Iterator[tuple[Heads, Ints, tuple[int, int]]]:
        """The packets of chosen flows, span by span: their heads, flows, and the place and size of the span."""
        for place, index in enumerate(self.indexes):
            own = np.full(len(index.flows), -1, dtype=np.int64)
            for number, flow in enumerate(index.flows):
                if self._chosen is None or flow.key in self._chosen:
                    own[number] = numbers.setdefault(flow.key, len(numbers))
            base, first = int(self._bases[place]), int(self._firsts[place])
            for part, (begin, size) in enumerate(index.spans if (own >= 0).any() else ()):
                packets = index.packets(part)
                chosen = np.nonzero(own[packets.flow] >= 0)[0]
                if not len(chosen):
                    continue
                wide = {name: getattr(packets, name)[chosen].astype(np.int64) for name in packets._fields}
                flow_numbers = own[wide.pop("flow")]
                wide["number"] += first
                wide["at"] = np.where(wide["at"] < 0, wide["at"], wide["at"] + base)
                heads = Heads(ends=np.zeros((len(chosen), 0), dtype=np.uint64), **wide)
                yield heads, flow_numbers, (base + begin, size)


class _Files:
    """Reads by the offsets of a series."""

    def __init__(self, indexes: Sequence[Index], bases: list[int]) -> None:
        self._indexes = indexes
        self._bases = bases
        self._open: dict[int, File] = {}

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from an offset; fewer at the end of its file."""
        place = bisect_right(self._bases, at) - 1
        file = self._open.get(place)
        if file is None:
            if len(self._open) == _OPEN_MAX:
                self._open.pop(next(iter(self._open))).close()
            file = self._open[place] = File(self._indexes[place].source)
        return file.read(at - self._bases[place], size)

    def close(self) -> None:
        """Give the files back."""
        for file in self._open.values():
            file.close()
        self._open.clear()
