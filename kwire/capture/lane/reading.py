"""The rows of a level from an index: clean flows by the fast lane, the others by the generators, merged as they come.

Messages are read column by column, and only what is odd becomes an object. For the other levels, and for sessions where
some flows are not clean, exchanges of both lanes go through the same makers of rows, in the order in which the capture
completes them, since topic names and sessions are learned from one for the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import merge
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kwire import registry
from kwire.capture.arrow import batched
from kwire.capture.bodies import Decoder
from kwire.capture.exchange import Exchange, Outcome
from kwire.capture.index.segments import segments_of
from kwire.capture.index.sparse import read_places
from kwire.capture.lane import decoded, followed, written
from kwire.capture.lane.bodies import Bodies
from kwire.capture.lane.clients import Clients
from kwire.capture.lane.matrix import ROOM
from kwire.capture.lane.objects import Objects
from kwire.capture.lane.placed import NO_END, Coming, Piece, Placed, piece_of
from kwire.capture.lane.plain import Plain
from kwire.capture.levels import reduced
from kwire.capture.named import named
from kwire.capture.only import TIMES
from kwire.capture.options import FRAME_SIZE_MAX
from kwire.capture.pipeline import ordered, outcomes_of, row_maker
from kwire.capture.schemas import arrow_schema
from kwire.capture.sessions import Sessions
from kwire.capture.topic_map import teachers
from kwire.capture.values import Segment, Trouble
from kwire.capture.watching import Ended, Seen
from kwire.registry import DEFAULT_EDITION

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.index import FlowKey, Index
    from kwire.capture.index.building.pairing import Exchanges
    from kwire.capture.options import Options
    from kwire.capture.rows import Row

    Ints = npt.NDArray[np.int64]

_LAST = 2**62


class Lane:
    """Reads one capture; `close` it."""

    def __init__(self, index: Index, flows: Collection[FlowKey] | None, options: Options) -> None:
        """Args: flows: those to read; all without a choice."""
        self._index = index
        self._options = options
        self._file = options.name or index.file
        self._decoder = Decoder(options.edition, options.decoded)
        chosen = np.ones(len(index.flows), dtype=np.bool_)
        if flows is not None:
            chosen[:] = False
            chosen[[index.numbers[key] for key in flows if key in index.numbers]] = True
        self.fast, slow = self._shared_out(chosen)
        self.slow = [index.flows[number].key for number in np.nonzero(slow)[0].tolist()]

    @cached_property
    def bodies(self) -> Bodies:
        """The bytes of frames."""
        return Bodies(self._index)

    @cached_property
    def _maker(self) -> Plain:
        """Makes the columns that heads tell."""
        return Plain(self._index, self._file, lambda: self.clients)

    @cached_property
    def clients(self) -> Clients:
        """Who the clients of the clean flows are."""
        return Clients(self._index, self.fast, self._decoder, self.bodies)

    @cached_property
    def _objects(self) -> Objects:
        """Makes the exchanges of clean flows."""
        return Objects(self._index, self._decoder, self.bodies, self.clients)

    @property
    def _unasked(self) -> set[str]:
        """The columns that the options leave empty."""
        bodies = () if self._options.bodies else written.COLUMNS
        return {*bodies, *(() if self._options.sessions else followed.COLUMNS)}

    def close(self) -> None:
        """Give the file back."""
        if "bodies" in self.__dict__:
            self.bodies.close()

    def parts(self) -> Iterator[tuple[int, Exchanges]]:
        """The exchanges of clean flows, span by span in the order of the capture, each with the number of its span."""
        for part in (*range(len(self._index.spans)), -1):
            found = self._of_part(part)
            if len(found):
                yield part, found

    def _of_part(self, part: int) -> Exchanges:
        found = self._index.exchanges(part)
        return found.of(np.nonzero(self.fast[found.flow])[0])

    def outcomes(self, level: str, *, troubles: bool) -> Iterator[Outcome]:
        """What both lanes find, in the order in which it was complete."""
        slow = self._numbered_slow(level, troubles=troubles)
        objects = self._objects
        fast = (each for _, found in self.parts() for each in objects.exchanges(self._of_use(found)))
        sessions = Sessions() if self._options.sessions and level == "messages" else None
        for _, outcome in merge(fast, slow, key=self._place):
            if sessions is not None and isinstance(outcome, Exchange):
                outcome.session = sessions.follow(outcome)
            yield outcome

    def _place(self, numbered: tuple[int, Outcome]) -> tuple[int, int]:
        """Where an outcome belongs: at the end, connections are closed in the order in which they came."""
        number, outcome = numbered
        if number < _LAST or isinstance(outcome, Trouble | Ended | Seen):
            return number, _LAST
        return number, self._index.numbers[outcome.flow.ends]

    def _numbered_slow(self, level: str, *, troubles: bool) -> Iterator[tuple[int, Outcome]]:
        """What the generators find in flows that are not clean, each with the number of the packet it came with.

        What they have passed over in clean flows, where the capture began inside a frame, comes with it.
        """
        options = replace(self._options, sessions=False)
        numbered = _Numbered(self._segments(troubles=troubles))
        keys = self._index.keys(options.tls_keylog)
        return merge(numbered.with_numbers(outcomes_of(numbered, options, keys, level)), self._lost(), key=_number)

    def _segments(self, *, troubles: bool) -> Iterator[tuple[int, Segment | Trouble]]:
        """What the generators read, with the numbers that packets have here."""
        for before, index in self._index.members:
            for each in segments_of([index], self.slow, troubles=troubles):
                yield before + each.packet, each

    def _lost(self) -> Iterator[tuple[int, Outcome]]:
        for row in self._index.lost:
            if self.fast[row.flow]:
                yield row.done, row.of(self._objects.flow(row.flow))

    def _of_use(self, found: Exchanges) -> Exchanges:
        """Those that are asked for, those that name topics, and those of which nobody knows yet what they are."""
        options = self._options
        if options.sessions:
            return found
        is_of_use = self._is_asked_for(self._maker, found)
        if options.decoded is not None:
            is_of_use &= np.isin(found.request.api_key, self._decoder.api_keys())
        is_of_use |= np.isin(found.request.api_key, Decoder(options.edition, teachers(options.edition)).api_keys())
        return found.of(np.nonzero(is_of_use | (found.request.body < 0))[0])

    def rows(self, level: str, *, troubles: bool) -> Iterator[Row]:
        """Rows of any level, made one by one."""
        make = row_maker(level, self._file, self._options)
        return self._named(ordered(self.outcomes(level, troubles=troubles), make))

    def _named(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Rows that were made one by one, with their files."""
        return named(rows, self._index.files) if self._index.files and self._options.name is None else rows

    def side_by_side(self, columns: Sequence[str], *, troubles: bool) -> Iterator[pa.RecordBatch]:
        """Rows of messages, those of clean flows column by column. With session columns all flows must be clean."""
        maker = self._maker
        slow, placed, count = Coming(self._slow_rows(troubles=troubles)), Placed(), 0
        sessions = None
        if self._options.sessions and not set(followed.COLUMNS).isdisjoint(columns):
            sessions = followed.Followed(self._objects, self._options.topics)
        for part, whole in self.parts():
            told = None if sessions is None else sessions.told(whole)
            asked = np.nonzero(self._is_asked_for(maker, whole))[0]
            piece, odd = self._piece(maker, (part, whole), asked, columns, told)
            pieces, made = [piece], self._odd_rows(whole, odd, told)
            for rows, until in slow.up_to(int(whole.request.frame.ts.max())):
                made += rows
                yield from placed.take([*pieces, piece_of(made, columns, count)], until=until)
                count += len(made)
                pieces, made = [], []
        for rows, until in slow.up_to(NO_END):
            yield from placed.take([piece_of(rows, columns, count)], until=until)
            count += len(rows)
        yield from placed.take([], held=0)

    def _piece(
        self, maker: Plain, part: _Part, asked: Ints, columns: Sequence[str], told: followed.Told | None
    ) -> tuple[Piece, Ints]:
        """The rows that can be made all at once, and which exchanges must be made one by one."""
        number, whole = part
        is_plain = whole.request.body[asked] >= 0
        plain, odd = asked[is_plain], asked[~is_plain]
        # Only what was read side by side is known to be good enough to be read without care.
        needed = decoded.COLUMNS.intersection(columns)
        unasked = self._unasked
        if not set(written.COLUMNS).isdisjoint(columns) and unasked.isdisjoint(written.COLUMNS):
            needed |= {"status"}
        span = self._span(number, whole.of(plain)) if needed else decoded.Span(0, b"")
        read, good = None, np.arange(len(plain), dtype=np.int64)
        if needed:
            read = decoded.Decoded(span, whole.of(plain), needed)
            good = np.nonzero(read.is_good)[0]
            odd = np.sort(np.concatenate([odd, plain[~read.is_good]]))
            plain = plain[good]
        chosen = whole.of(plain)
        schema = arrow_schema("messages")
        arrays = []
        for name in columns:
            if name in unasked:
                arrays.append(pa.nulls(len(chosen), schema.field(name).type))
            elif read is not None and name in decoded.COLUMNS:
                arrays.append(read.column(name, good))
            elif name in written.COLUMNS:
                texts = written.texts(name, span, chosen, self._options)
                arrays.append(pa.array(texts, type=pa.string()))
            elif told is not None and name in followed.COLUMNS:
                values = getattr(told, name)
                arrays.append(pa.array([values[place] for place in plain.tolist()], type=schema.field(name).type))
            else:
                arrays.append(maker.column(name, chosen))
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([schema.field(name) for name in columns]))
        return Piece(batch, chosen.request.frame.ts, chosen.request.frame.offset), odd

    def _span(self, part: int, found: Exchanges | None = None) -> decoded.Span:
        """The span of the file that the exchanges of a part are in, for the most part.

        Args: found: those that are read; what lies far from all of them may be left out.
        """
        if part < 0:
            return decoded.Span(0, bytes(ROOM))
        base, size = self._index.spans[part]
        data = self.bodies.span(base, size + ROOM) if found is None else self._places(base, size + ROOM, found)
        return decoded.Span(base, data if len(data) == size + ROOM else data[:size] + bytes(ROOM))

    def _places(self, base: int, size: int, found: Exchanges) -> bytes:
        at = np.concatenate([found.request.frame.at, found.response.frame.at])
        stop = at + np.concatenate([found.request.frame.size, found.response.frame.size])
        here = np.nonzero((at >= base) & (stop <= base + size))[0]
        return read_places(self.bodies.span, base, size, (at[here], stop[here]))

    def _slow_rows(self, *, troubles: bool) -> Iterator[Row]:
        options = replace(self._options, sessions=False)
        outcomes = (outcome for _, outcome in self._numbered_slow("messages", troubles=troubles))
        return self._named(ordered(outcomes, row_maker("messages", self._file, options)))

    def _odd_rows(self, whole: Exchanges, odd: Ints, told: followed.Told | None) -> list[Row]:
        """The rows of exchanges that are made one by one."""
        if not len(odd):
            return []
        make = row_maker("messages", self._file, replace(self._options, sessions=False))
        rows = []
        for place, (_, exchange) in zip(odd.tolist(), self._objects.exchanges(whole.of(odd)), strict=True):
            for row in make(exchange):
                if told is not None:
                    row |= {name: getattr(told, name)[place] for name in followed.COLUMNS}
                rows.append(row)
        return list(self._named(iter(rows)))

    def _is_asked_for(self, maker: Plain, found: Exchanges) -> npt.NDArray[np.bool_]:
        """Which exchanges the options want to see, as `pipeline.is_asked_for` has it; odd ones are asked later."""
        options = self._options
        is_wanted = np.ones(len(found), dtype=np.bool_)
        if options.apis:
            keys = [key for key in registry.API_KEYS if registry.api_name(key) in options.apis]
            is_wanted &= np.isin(found.request.api_key, keys)
        for condition in options.only.conditions if options.only is not None else ():
            if condition.column == TIMES:
                both = (maker.column(name, found).view(pa.int64()).to_pylist() for name in ("req_ts", "resp_ts"))
                is_wanted &= np.array([condition.holds(times) for times in zip(*both, strict=True)], dtype=np.bool_)
                continue
            column = maker.column(condition.column, found)
            if pa.types.is_timestamp(column.type):
                column = column.view(pa.int64())
            encoded = column.dictionary_encode(null_encoding="encode")
            holds = np.array([condition.holds(value) for value in encoded.dictionary.to_pylist()], dtype=np.bool_)
            is_wanted &= holds[encoded.indices.to_numpy()]
        return is_wanted | (found.request.body < 0)

    def _shared_out(self, chosen: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which flows the fast lane reads, and which the generators."""
        index, ports = self._index, self._options.ports
        if self._options.edition != DEFAULT_EDITION or self._options.frame_size_max != FRAME_SIZE_MAX:
            return np.zeros(len(chosen), dtype=np.bool_), chosen
        is_fast = chosen & (index.columns["flow.why"] == 0)
        is_slow = chosen & ~is_fast
        for number in np.nonzero(chosen)[0].tolist() if ports else ():
            is_broker = [end[1] in ports for end in index.flows[number].key]
            if True not in is_broker:
                # The user has named other ports: it is not even told.
                is_fast[number] = is_slow[number] = False
            elif is_fast[number] and is_broker.count(True) == 1:
                # The port says who the client is, before the SYN does.
                is_fast[number] = is_broker.index(False) == int(index.openers[number])
                is_slow[number] = not is_fast[number]
        return is_fast, is_slow


_Part = tuple[int, "Exchanges"]
"""The number of a span, and the exchanges that became complete in it."""


class _Numbered:
    """Segments on their way to the generators; it remembers how far they have come."""

    def __init__(self, found: Iterator[tuple[int, Segment | Trouble]]) -> None:
        self._found = found
        self._number = 0

    def __iter__(self) -> Iterator[Segment | Trouble]:
        for number, each in self._found:
            self._number = number
            yield each
        self._number = _LAST

    def with_numbers(self, outcomes: Iterator[Outcome]) -> Iterator[tuple[int, Outcome]]:
        """Each outcome with the number of the packet with which it came."""
        for outcome in outcomes:
            yield self._number, outcome


def _number(numbered: tuple[int, Any]) -> int:
    return numbered[0]


def lane_batches(
    index: Index,
    flows: Collection[FlowKey] | None,
    level: str,
    options: Options,
    columns: Sequence[str],
    *,
    troubles: bool,
) -> Iterator[pa.RecordBatch]:
    """The rows of chosen flows of one capture, with these columns."""
    lane = Lane(index, flows, reduced(options, level))
    try:
        # A session may go on in a flow that is not clean, and topics be named there.
        is_followed = not set(followed.COLUMNS).isdisjoint(columns) and options.sessions
        by_rows = options.only is not None and options.only.rows is not None
        if level == "messages" and not by_rows and not (is_followed and lane.slow):
            yield from lane.side_by_side(columns, troubles=troubles)
        else:
            yield from batched(lane.rows(level, troubles=troubles), level, columns)
    finally:
        lane.close()
