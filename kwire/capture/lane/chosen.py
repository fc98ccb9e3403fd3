"""The outcomes of a capture for those who want some of them: what is surely not wanted, and good, is only counted.

Conditions are asked of columns, many exchanges at once; only what may pass them becomes an object.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.exchange import Exchange
from kwire.capture.lane import decoded
from kwire.capture.lane.objects import Objects
from kwire.capture.lane.plain import COLUMNS as HEADS
from kwire.capture.lane.reading import Lane
from kwire.capture.sessions import FETCHES, Sessions
from kwire.capture.twice import Passed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from kwire.capture.exchange import Outcome
    from kwire.capture.index import Index
    from kwire.capture.index.pairing import Exchanges
    from kwire.capture.options import Options
    from kwire.capture.rows import Row

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

COLUMNS = HEADS | decoded.COLUMNS
"""The columns of messages of which a condition may be asked beforehand."""

# What only responses tell.
_ANSWERED = frozenset({"error_code", "error_name", "throttle_ms"})
# So many exchanges become objects at once.
_TOGETHER = 2048


class Condition(NamedTuple):
    """What must hold of rows of messages, and the columns that it looks at; times are nanoseconds."""

    columns: frozenset[str]
    holds: Callable[[Row], bool]


class Chosen(Lane):
    """Reads one capture; `close` it."""

    def __init__(self, index: Index, options: Options, conditions: Sequence[Condition]) -> None:
        """Args: conditions: all must hold, each of `COLUMNS` alone."""
        super().__init__(index, None, options)
        self._conditions = conditions
        self.reached = 0
        """How far the file is told, in bytes."""

    def found(self, level: str) -> Iterator[Outcome | Passed]:
        """In the order in which they were complete. The names of all topics should be known beforehand."""
        sessions = Sessions() if self._options.sessions and level == "messages" else None
        for _, each in merge(self._fast(sessions), self._numbered_slow(level, troubles=True), key=lambda pair: pair[0]):
            # A session may go on in a flow that is not clean.
            if self.slow and sessions is not None and isinstance(each, Exchange):
                each.session = sessions.follow(each)
            yield each

    def _fast(self, sessions: Sessions | None) -> Iterator[tuple[int, Outcome | Passed]]:
        objects = Objects(self._index, self._decoder, self.bodies, self.clients)
        left: list[int] = []
        for part, whole in self.parts():
            is_wanted, is_good = self._sifted(part, whole)
            is_made, own = is_wanted | ~is_good, None
            if sessions is not None:
                is_fetch = np.isin(whole.request.api_key, FETCHES)
                # What a session is at a fetch that is shown, all fetches before it tell.
                if self.slow:
                    is_made |= is_fetch
                elif (is_wanted & (is_fetch | (whole.request.body < 0))).any():
                    self._follow(sessions, objects, left)
                    is_made, own, left = is_made | is_fetch, sessions, []
                else:
                    left.append(part)
            base, size = self._index.spans[part] if part >= 0 else (self._index.size, 0)
            for place, number, each in _objects(objects, whole, is_made):
                self.reached = base + size * place // len(whole)
                if own is not None and isinstance(each, Exchange):
                    each.session = own.follow(each)
                yield number, each

    def _follow(self, sessions: Sessions, objects: Objects, parts: list[int]) -> None:
        """Follow the sessions of parts of which no fetch was shown."""
        for part in parts:
            whole = self._of_part(part)
            for place in _slices(np.nonzero(np.isin(whole.request.api_key, FETCHES))[0]):
                for _, exchange in objects.exchanges(whole.of(place)):
                    sessions.follow(exchange)

    def _sifted(self, part: int, whole: Exchanges) -> tuple[Bools, Bools]:
        """Which exchanges may pass all conditions, and which are known to be good."""
        is_wanted, is_good = np.ones(len(whole), dtype=np.bool_), np.zeros(len(whole), dtype=np.bool_)
        if not self._conditions:
            return is_wanted, is_good
        plain = np.nonzero(whole.request.body >= 0)[0]
        found = whole.of(plain)
        # Whether it is good, a reader of the whole wants to know of each.
        needed = frozenset({"status"}).union(*(each.columns for each in self._conditions)) & decoded.COLUMNS
        read = decoded.Decoded(self._span(part), found, needed)
        is_good[plain] = read.is_good
        holds = np.ones(len(plain), dtype=np.bool_)
        for condition in self._conditions:
            is_known = _is_known(condition, found, read)
            some = np.nonzero(holds & is_known)[0]
            holds[some] = self._holds(condition, found.of(some), read, some)
        is_wanted[plain] = holds
        return is_wanted, is_good

    def _holds(self, condition: Condition, found: Exchanges, read: decoded.Decoded, rows: Ints) -> Bools:
        """Asks a condition once for all exchanges that look the same to it."""
        names = sorted(condition.columns)
        code = np.zeros(len(rows), dtype=np.int64)
        each: list[tuple[Ints, list[object]]] = []
        for name in names:
            codes, values = self._values(name, found, read, rows)
            each.append((codes, values))
            # Both stay small: no more codes than exchanges.
            code = np.unique(code * max(len(values), 1) + codes, return_inverse=True)[1].astype(np.int64)
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        chosen = [[values[place] for place in codes[first].tolist()] for codes, values in each]
        rows_of = (dict(zip(names, row, strict=True)) for row in zip(*chosen, strict=True))
        answers = np.array([condition.holds(row) for row in rows_of], dtype=np.bool_)
        return answers[inverse] if len(answers) else np.zeros(0, dtype=np.bool_)

    def _values(self, name: str, found: Exchanges, read: decoded.Decoded, rows: Ints) -> tuple[Ints, list[object]]:
        """A column as numbers, and the value that each number stands for."""
        side, _, when = name.partition("_")
        if when in {"ts", "end_ts"}:
            frame = found.request.frame if side == "req" else found.response.frame
            times, codes = np.unique(np.where(frame.size < 0, -1, getattr(frame, when)), return_inverse=True)
            return codes.astype(np.int64), [None if ts < 0 else ts for ts in times.tolist()]
        column = read.column(name, rows) if name in decoded.COLUMNS else self._maker.column(name, found)
        if pa.types.is_nested(column.type):
            # Of what is good there are no issues.
            return np.zeros(len(rows), dtype=np.int64), [[]]
        encoded = column.dictionary_encode(null_encoding="encode")
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _is_known(condition: Condition, found: Exchanges, read: decoded.Decoded) -> Bools:
    """Of which exchanges all is known that a condition asks for."""
    asked = condition.columns & decoded.COLUMNS
    if not asked:
        return np.ones(len(found), dtype=np.bool_)
    # What is not there is known.
    return read.is_good | (found.response.frame.size < 0) if asked <= _ANSWERED else read.is_good


def _objects(objects: Objects, whole: Exchanges, is_made: Bools) -> Iterator[tuple[int, int, Outcome | Passed]]:
    """The exchanges of a part, and how many lie between them that are not made; each with its place and packet."""
    reached = 0
    for places in _slices(np.nonzero(is_made)[0]):
        for place, (number, exchange) in zip(places.tolist(), objects.exchanges(whole.of(places)), strict=True):
            if place > reached:
                yield place, number, Passed(place - reached)
            yield place, number, exchange
            reached = place + 1
    if reached < len(whole):
        yield len(whole), int(whole.done[-1]), Passed(len(whole) - reached)


def _slices(places: Ints) -> Iterator[Ints]:
    return (places[at : at + _TOGETHER] for at in range(0, len(places), _TOGETHER))
