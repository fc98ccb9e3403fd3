"""The outcomes of a capture for those who want some of them: what is surely not wanted, and good, is only counted.

Conditions are asked of columns, many exchanges at once; only what may pass them becomes an object.
"""

from __future__ import annotations

from functools import cached_property
from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.exchange import Exchange
from kwire.capture.lane import decoded, followed, written
from kwire.capture.lane.objects import Objects
from kwire.capture.lane.plain import COLUMNS as HEADS
from kwire.capture.lane.reading import Lane
from kwire.capture.order import Made, Passed
from kwire.capture.sessions import FETCHES, Session, Sessions
from kwire.capture.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import numpy.typing as npt

    from kwire.capture.exchange import Outcome
    from kwire.capture.index import Index
    from kwire.capture.index.building.pairing import Exchanges
    from kwire.capture.options import Options
    from kwire.capture.rows import Row

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

COLUMNS = HEADS | decoded.COLUMNS
"""The columns of messages of which a condition may be asked beforehand."""
ROW_COLUMNS = COLUMNS | {*followed.COLUMNS, *written.COLUMNS}
"""The columns of messages that rows can be made of without exchanges."""

# What only responses tell.
_ANSWERED = frozenset({"error_code", "error_name", "throttle_ms"})
# So many exchanges become objects at once.
_TOGETHER = 2048


class Condition(NamedTuple):
    """What must hold of rows of messages, and the columns that it looks at; times are nanoseconds."""

    columns: frozenset[str]
    holds: Callable[[Row], bool]


class Sifted(NamedTuple):
    """What is known of a part: which exchanges may pass all conditions, and which are good.

    plain: those that were read side by side, as `read` has them.
    """

    is_wanted: Bools
    is_good: Bools
    plain: Ints
    read: decoded.Decoded | None
    span: decoded.Span


class Chosen(Lane):
    """Reads one capture; `close` it."""

    def __init__(
        self,
        index: Index,
        options: Options,
        conditions: Sequence[Condition],
        columns: Collection[str] | None = None,
        *,
        after: int = 0,
    ) -> None:
        """Args: conditions: all must hold, each of `COLUMNS` alone. columns: rows of these, some of `ROW_COLUMNS`, are
        all that is wanted of what passes them and begins behind the packet `after`.
        """
        super().__init__(index, None, options)
        self._conditions = conditions
        self._columns = columns
        self._after = after
        self.reached = 0
        """How far the file is told, in bytes."""

    def found(self, level: str) -> Iterator[Outcome | Made | Passed]:
        """In the order in which they were complete. The names of all topics should be known beforehand."""
        sessions = Sessions() if self._options.sessions and level == "messages" else None
        if self.slow and sessions is not None:
            # A session may go on in a flow that is not clean: then exchanges of both are followed together.
            self._columns = None
        for _, each in merge(self._fast(sessions), self._numbered_slow(level, troubles=True), key=lambda pair: pair[0]):
            if self.slow and sessions is not None and isinstance(each, Exchange):
                each.session = sessions.follow(each)
            yield each

    def _fast(self, sessions: Sessions | None) -> Iterator[tuple[int, Outcome | Made | Passed]]:
        objects = Objects(self._index, self._decoder, self.bodies, self.clients)
        left: list[int] = []
        for part, whole in self.parts():
            sifted = self._sifted(part, whole)
            is_made = sifted.is_wanted | ~sifted.is_good
            told: dict[int, Session | None] = {}
            if sessions is not None:
                is_fetch = np.isin(whole.request.api_key, FETCHES)
                # What a session is at a fetch that is shown, all fetches before it tell.
                if self.slow:
                    is_made |= is_fetch
                elif (sifted.is_wanted & (is_fetch | (whole.request.body < 0))).any():
                    self._follow(sessions, objects, left)
                    told, left = self._told(sessions, objects, whole), []
                else:
                    left.append(part)
            base, size = self._index.spans[part] if part >= 0 else (self._index.size, 0)
            for place, each in self._shown(objects, whole, sifted, is_made, told):
                self.reached = base + size * place // len(whole)
                yield int(whole.done[min(place, len(whole) - 1)]), each

    def _shown(
        self,
        objects: Objects,
        whole: Exchanges,
        sifted: Sifted,
        is_made: Bools,
        told: dict[int, Session | None],
    ) -> Iterator[tuple[int, Outcome | Made | Passed]]:
        """What is to be shown of a part, each with its place, and how many lie between that are not."""
        is_row = sifted.is_wanted & sifted.is_good & (whole.request.frame.packet > self._after)
        is_row &= self._columns is not None
        reached = 0
        for places in _slices(np.nonzero(is_made)[0]):
            own = is_row[places]
            rows = self._rows(whole, places[own], sifted, told) if own.any() else iter(())
            exchanges = objects.exchanges(whole.of(places[~own]))
            for place, is_own in zip(places.tolist(), own.tolist(), strict=True):
                if place > reached:
                    yield place, Passed(place - reached)
                reached = place + 1
                if is_own:
                    yield place, next(rows)
                    continue
                _, exchange = next(exchanges)
                exchange.session = told.get(place)
                yield place, exchange
        if reached < len(whole):
            yield len(whole), Passed(len(whole) - reached)

    def _rows(self, whole: Exchanges, places: Ints, sifted: Sifted, told: dict[int, Session | None]) -> Iterator[Made]:
        """The rows of good exchanges, made column by column."""
        assert self._columns is not None
        found = whole.of(places)
        rows = np.searchsorted(sifted.plain, places)
        names = list(self._columns)
        columns = [
            self._column(name, found, rows, sifted, [told.get(place) for place in places.tolist()]) for name in names
        ]
        frame = found.request.frame
        for ts, offset, *row in zip(frame.ts.tolist(), frame.offset.tolist(), *columns, strict=True):
            yield Made(ts, offset, dict(zip(names, row, strict=True)))

    def _column(self, name: str, found: Exchanges, rows: Ints, sifted: Sifted, told: list[Session | None]) -> list[Any]:
        """The values of a column, as rows have them."""
        if name in written.COLUMNS:
            return written.texts(name, sifted.span, found, self._options)
        if name in followed.COLUMNS:
            return [_of_session(name, each, self._names) for each in told]
        if name == "issues":
            return [[] for _ in told]
        if name == "file":
            # A name that is no UTF-8 is no text of Arrow.
            return [self._file] * len(told)
        side, _, when = name.partition("_")
        if when in {"ts", "end_ts"}:
            frame = found.request.frame if side == "req" else found.response.frame
            return [
                None if size < 0 else ts
                for ts, size in zip(getattr(frame, when).tolist(), frame.size.tolist(), strict=True)
            ]
        assert sifted.read is not None
        column = sifted.read.column(name, rows) if name in decoded.COLUMNS else self._maker.column(name, found)
        values: list[Any] = column.to_pylist()
        return values

    @cached_property
    def _names(self) -> TopicNames:
        return TopicNames(self._options.topics)

    def _told(self, sessions: Sessions, objects: Objects, whole: Exchanges) -> dict[int, Session | None]:
        """The sessions of the fetches of a part, by their places."""
        out = {}
        for places in _slices(np.nonzero(np.isin(whole.request.api_key, FETCHES))[0]):
            for place, (_, exchange) in zip(places.tolist(), objects.exchanges(whole.of(places)), strict=True):
                out[place] = sessions.follow(exchange)
        return out

    def _follow(self, sessions: Sessions, objects: Objects, parts: list[int]) -> None:
        """Follow the sessions of parts of which no fetch was shown."""
        for part in parts:
            self._told(sessions, objects, self._of_part(part))

    def _sifted(self, part: int, whole: Exchanges) -> Sifted:
        is_wanted, is_good = np.ones(len(whole), dtype=np.bool_), np.zeros(len(whole), dtype=np.bool_)
        plain = np.nonzero(whole.request.body >= 0)[0]
        if not self._conditions and self._columns is None:
            return Sifted(is_wanted, is_good, plain, None, decoded.Span(0, b""))
        found, span = whole.of(plain), self._span(part)
        # Whether it is good, a reader of the whole wants to know of each.
        needed = {"status", *(self._columns or ())}.union(*(each.columns for each in self._conditions))
        read = decoded.Decoded(span, found, decoded.COLUMNS & needed)
        is_good[plain] = read.is_good
        holds = np.ones(len(plain), dtype=np.bool_)
        for condition in self._conditions:
            is_known = _is_known(condition, found, read)
            some = np.nonzero(holds & is_known)[0]
            holds[some] = self._holds(condition, found.of(some), read, some)
        is_wanted[plain] = holds
        return Sifted(is_wanted, is_good, plain, read, span)

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
        if name == "file":
            return np.zeros(len(rows), dtype=np.int64), [self._file]
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


def _of_session(name: str, session: Session | None, names: TopicNames) -> object:
    """One of the columns of sessions."""
    if session is None:
        return None
    if name == "session_partitions":
        return None if session.partitions is None else session.partitions.text(names)
    return session.id if name == "session_id" else session.epoch


def _slices(places: Ints) -> Iterator[Ints]:
    return (places[at : at + _TOGETHER] for at in range(0, len(places), _TOGETHER))
