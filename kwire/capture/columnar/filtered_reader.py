"""Read only the outcomes that match conditions; other exchanges are counted.

Conditions are evaluated on columns, for many exchanges at once. Only exchanges that may match are built as objects.
"""

from __future__ import annotations

from functools import cached_property, partial
from heapq import merge
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.columnar import body_columns, json_columns, session_columns
from kwire.capture.columnar.body_columns import BodyColumns
from kwire.capture.columnar.damaged_rows import DamagedRows
from kwire.capture.columnar.header_columns import COLUMNS as HEADER_COLUMNS
from kwire.capture.columnar.header_columns import NO_TIME
from kwire.capture.columnar.lines.streamed_lines import follow_deferred
from kwire.capture.columnar.reader import ColumnarReader, DecodedPart
from kwire.capture.columnar.session_columns import FetchBodies
from kwire.capture.columnar.span_data import NO_DATA
from kwire.capture.columnar.streamed_sessions import PartSessions, StreamedSessions
from kwire.capture.index.arrays import NO_NUMBERS
from kwire.capture.kafka.exchange import Outcome
from kwire.capture.kafka.fetch_sessions import FetchSession
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS, SessionTracker
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.rows.reorder_buffer import PrebuiltLines, PrebuiltRow, SkippedCount

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from kwire.capture.columnar.streamed_sessions import SessionsByRow
    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.deferred_decoder import DeferredDecoder
    from kwire.capture.model import Row
    from kwire.capture.options import Options

COLUMNS = HEADER_COLUMNS | body_columns.COLUMNS
"""The columns of messages that conditions can be evaluated on."""
ROW_COLUMNS = COLUMNS | session_columns.COLUMNS | json_columns.COLUMNS
"""The columns of messages that rows can be built of without building exchanges."""

FilteredOutcome = Outcome | PrebuiltRow | PrebuiltLines | SkippedCount
"""Outcomes, what was built of exchanges in columns, and the numbers of those that were excluded."""

TIME_COLUMNS = frozenset({"req_ts", "req_end_ts", "resp_ts", "resp_end_ts"})
# Columns that depend on the response only.
_RESPONSE_COLUMNS = frozenset({"error_code", "error_name", "throttle_ms"})
# This many exchanges are built at once.
_SLICE_SIZE = 2048


class ColumnCondition(NamedTuple):
    """A condition on rows of messages, and the columns that it reads; times are in nanoseconds."""

    columns: frozenset[str]
    holds: Callable[[Row], bool]


class FilteredReader(ColumnarReader):
    """Reads the matching outcomes of one capture; the caller closes it."""

    def __init__(
        self,
        index: Index,
        options: Options,
        conditions: Sequence[ColumnCondition],
        columns: Collection[str] | None = None,
        *,
        after: int = 0,
    ) -> None:
        """Args: conditions: all must hold; each reads only `COLUMNS`. columns: exchanges that match and begin after
        packet `after` are returned as rows of these columns, which are some of `ROW_COLUMNS`; None returns exchanges.
        """
        super().__init__(index, None, options)
        self._conditions = conditions
        self._columns = columns
        self._after = after
        self.reached = 0
        """The file position up to which outcomes were returned, in bytes."""

    def filtered_outcomes(self, level: str) -> Iterator[FilteredOutcome]:
        """The outcomes in the order of completion. The names of all topics should be known before."""
        sessions = SessionTracker() if self._options.sessions and level == "messages" else None
        numbered = self._numbered_outcomes(level, issues=True, decoder=self._streamed_decoder)
        if sessions is None:
            yield from self._merge_streamed(self._columnar_outcomes(None), numbered)
            return
        # Sessions may continue in flows that are not clean: the exchanges of all flows are tracked together.
        follow = partial(follow_deferred, sessions, self._deferred_decoder)
        streamed = StreamedSessions(sessions, numbered, follow)
        for outcome in self._merge_streamed(self._columnar_outcomes(streamed), streamed):
            streamed.follow(outcome)
            yield outcome

    @property
    def _reads_damaged(self) -> bool:
        """Whether incomplete exchanges are decoded in columns, as far as possible."""
        return False

    @property
    def _streamed_decoder(self) -> DeferredDecoder | None:
        """The decoder of other flows, for readers that complete their exchanges afterwards."""
        return None

    def _merge_streamed(
        self, columnar: Iterator[tuple[int, FilteredOutcome]], streamed: Iterator[tuple[int, Outcome]]
    ) -> Iterator[FilteredOutcome]:
        """Merge both in the order of completion."""
        return (outcome for _, outcome in merge(columnar, streamed, key=lambda numbered: numbered[0]))

    def _columnar_outcomes(self, sessions: StreamedSessions | None) -> Iterator[tuple[int, FilteredOutcome]]:
        skipped_parts: list[int] = []
        for part, exchanges in self.read_parts():
            filtered = self._filter_part(part, exchanges)
            is_selected = filtered.is_wanted | ~filtered.is_good
            part_sessions: PartSessions | None = None
            if sessions is not None:
                is_fetch = np.isin(exchanges.request.api_key, SESSION_API_KEYS)
                # The session of a fetch that is returned depends on all fetches before it.
                if self.streamed_flows or (filtered.is_wanted & (is_fetch | (exchanges.request.body < 0))).any():
                    for skipped_part in skipped_parts:
                        self._part_sessions(sessions, self._clean_exchanges(skipped_part)).follow_rest()
                    skipped_parts = []
                    part_sessions = self._part_sessions(sessions, exchanges, filtered)
                else:
                    skipped_parts.append(part)
            base, size = self._index.spans[part] if part >= 0 else (self._index.size, 0)
            for row, outcome in self._select_outcomes(exchanges, filtered, is_selected, part_sessions or {}):
                self.reached = base + size * row // len(exchanges)
                yield int(exchanges.completed_by[min(row, len(exchanges) - 1)]), outcome
            if part_sessions is not None:
                part_sessions.follow_rest()

    def _select_outcomes(
        self,
        exchanges: ExchangeColumns,
        filtered: DecodedPart,
        is_selected: Bools,
        sessions_by_row: SessionsByRow,
    ) -> Iterator[tuple[int, FilteredOutcome]]:
        """The selected outcomes of a part, each with its row, and the number of skipped exchanges between them."""
        is_row = filtered.is_wanted & filtered.is_good & (exchanges.request.frame.packet > self._after)
        is_row &= self._columns is not None
        reached = 0
        for selected_rows in _split_rows(np.nonzero(is_selected)[0]):
            is_prebuilt = is_row[selected_rows]
            rows = self._prebuilt_rows(exchanges, selected_rows[is_prebuilt], filtered, sessions_by_row)
            built = self._exchange_builder.build_exchanges(exchanges.select(selected_rows[~is_prebuilt]))
            for row, is_row_prebuilt in zip(selected_rows.tolist(), is_prebuilt.tolist(), strict=True):
                if row > reached:
                    yield row, SkippedCount(row - reached)
                reached = row + 1
                if is_row_prebuilt:
                    yield row, next(rows)
                    continue
                _, exchange = next(built)
                exchange.session = sessions_by_row.get(row)
                yield row, exchange
        if reached < len(exchanges):
            yield len(exchanges), SkippedCount(len(exchanges) - reached)

    def _prebuilt_rows(
        self,
        exchanges: ExchangeColumns,
        selected: Ints,
        filtered: DecodedPart,
        sessions_by_row: SessionsByRow,
    ) -> Iterator[PrebuiltRow]:
        """The rows of valid exchanges, built column by column."""
        assert self._columns is not None
        selected_exchanges = exchanges.select(selected)
        rows = np.searchsorted(filtered.plain, selected)
        names = list(self._columns)
        sessions = [sessions_by_row.get(row) for row in selected.tolist()]
        columns = [self._column_values(name, selected_exchanges, rows, filtered, sessions) for name in names]
        frame = selected_exchanges.request.frame
        for ts, offset, *row in zip(frame.ts.tolist(), frame.offset.tolist(), *columns, strict=True):
            yield PrebuiltRow(ts, offset, dict(zip(names, row, strict=True)))

    def _column_values(
        self,
        name: str,
        exchanges: ExchangeColumns,
        rows: Ints,
        filtered: DecodedPart,
        sessions: list[FetchSession | None],
    ) -> list[Any]:
        """The values of a column, as rows have them."""
        if name in json_columns.COLUMNS:
            return json_columns.json_texts(name, filtered.span, exchanges, self._options)
        if name in session_columns.COLUMNS:
            return [session_value(name, session, self._names) for session in sessions]
        if name == "issues":
            return [[] for _ in sessions]
        if name == "file":
            # Arrow cannot represent a file name that is not valid UTF-8.
            return [self._file] * len(sessions)
        if name in TIME_COLUMNS:
            times = frame_times(name, exchanges)
            return [None if ts == NO_TIME else ts for ts in times.tolist()]
        assert filtered.decoded is not None
        values: list[Any] = self._build_column(name, exchanges, filtered.decoded, rows).to_pylist()
        return values

    def _build_column(self, name: str, exchanges: ExchangeColumns, decoded: BodyColumns, rows: Ints) -> pa.Array:
        if name in body_columns.COLUMNS:
            return decoded.build_column(name, rows)
        return self._header_columns.build_column(name, exchanges)

    @cached_property
    def _names(self) -> TopicNames:
        return TopicNames(self._options.topics)

    def _part_sessions(
        self, sessions: StreamedSessions, exchanges: ExchangeColumns, filtered: DecodedPart | None = None
    ) -> PartSessions:
        """The sessions of a part. Args: filtered: None if the bodies have not been checked."""
        bodies = FetchBodies.of_valid(NO_DATA, np.zeros(len(exchanges), dtype=np.bool_))
        if filtered is not None:
            bodies = FetchBodies.of_valid(filtered.span, filtered.is_good)
            damaged = filtered.damaged
            if damaged is not None:
                bodies = FetchBodies(filtered.span, *(each.copy() for each in bodies[1:]))
                bodies.is_asked[damaged.chosen], bodies.is_answered[damaged.chosen] = (
                    damaged.is_asked,
                    damaged.is_answered,
                )
                bodies.is_cut[damaged.chosen] = ~damaged.is_asked
        return PartSessions(sessions, self._exchange_builder, exchanges, bodies)

    def _filter_part(self, part: int, exchanges: ExchangeColumns) -> DecodedPart:
        is_wanted, is_good = np.ones(len(exchanges), dtype=np.bool_), np.zeros(len(exchanges), dtype=np.bool_)
        plain = np.nonzero(exchanges.request.body >= 0)[0]
        if not self._conditions and self._columns is None:
            return DecodedPart(is_wanted, is_good, plain, None, NO_DATA)
        plain_exchanges = exchanges.select(plain)
        incomplete = np.nonzero(exchanges.request.body < -1)[0] if self._reads_damaged else NO_NUMBERS
        span = self._read_span_data(part, exchanges if len(incomplete) else plain_exchanges)
        # The number of exchanges without issues is reported, so the status of each is needed.
        needed = {"status", *(self._columns or ())}.union(*(condition.columns for condition in self._conditions))
        decoded = BodyColumns(span, plain_exchanges, body_columns.COLUMNS & needed)
        is_good[plain] = decoded.is_good
        holds = np.ones(len(plain), dtype=np.bool_)
        for condition in self._conditions:
            is_known = _is_decidable(condition, plain_exchanges, decoded)
            candidates = np.nonzero(holds & is_known)[0]
            holds[candidates] = self._evaluate(condition, plain_exchanges.select(candidates), decoded, candidates)
        is_wanted[plain] = holds
        damaged = DamagedRows(self.bodies, span, exchanges, incomplete, needed) if len(incomplete) else None
        return DecodedPart(is_wanted, is_good, plain, decoded, span, damaged)

    def _evaluate(
        self, condition: ColumnCondition, exchanges: ExchangeColumns, decoded: BodyColumns, rows: Ints
    ) -> Bools:
        """Evaluate a condition once for each combination of values."""
        names = sorted(condition.columns)
        code = np.zeros(len(rows), dtype=np.int64)
        encoded_columns: list[tuple[Ints, list[object]]] = []
        for name in names:
            codes, values = self._encode_column(name, exchanges, decoded, rows)
            encoded_columns.append((codes, values))
            # No more codes than exchanges, so the product stays small.
            code = np.unique(code * max(len(values), 1) + codes, return_inverse=True)[1].astype(np.int64)
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        chosen = [[values[code_number] for code_number in codes[first].tolist()] for codes, values in encoded_columns]
        rows_of = (dict(zip(names, row, strict=True)) for row in zip(*chosen, strict=True))
        results = np.array([condition.holds(row) for row in rows_of], dtype=np.bool_)
        return results[inverse] if len(results) else np.zeros(0, dtype=np.bool_)

    def _encode_column(
        self, name: str, exchanges: ExchangeColumns, decoded: BodyColumns, rows: Ints
    ) -> tuple[Ints, list[object]]:
        """A column as codes, and the value of each code."""
        if name in TIME_COLUMNS:
            known_times, codes = np.unique(frame_times(name, exchanges), return_inverse=True)
            return codes.astype(np.int64), [None if ts == NO_TIME else ts for ts in known_times.tolist()]
        if name == "file":
            return np.zeros(len(rows), dtype=np.int64), [self._file]
        column = self._build_column(name, exchanges, decoded, rows)
        if pa.types.is_nested(column.type):
            # Valid exchanges have no issues.
            return np.zeros(len(rows), dtype=np.int64), [[]]
        encoded = column.dictionary_encode(null_encoding="encode")
        return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def frame_times(name: str, exchanges: ExchangeColumns) -> Ints:
    """The times of one of `TIME_COLUMNS` in nanoseconds, `NO_TIME` where the frame is missing."""
    side, _, when = name.partition("_")
    frame = exchanges.request.frame if side == "req" else exchanges.response.frame
    return np.where(frame.size < 0, NO_TIME, getattr(frame, when))


def _is_decidable(condition: ColumnCondition, exchanges: ExchangeColumns, decoded: BodyColumns) -> Bools:
    """For which exchanges all columns that a condition reads are known."""
    needed = condition.columns & body_columns.COLUMNS
    if not needed:
        return np.ones(len(exchanges), dtype=np.bool_)
    # A missing response is known.
    return decoded.is_good | (exchanges.response.frame.size < 0) if needed <= _RESPONSE_COLUMNS else decoded.is_good


def session_value(name: str, session: FetchSession | None, names: TopicNames) -> object:
    """The value of one of the session columns."""
    if session is None:
        return None
    if name == "session_partitions":
        return None if session.partitions is None else session.partitions.as_json(names)
    return session.id if name == "session_id" else session.epoch


def _split_rows(rows: Ints) -> Iterator[Ints]:
    return (rows[at : at + _SLICE_SIZE] for at in range(0, len(rows), _SLICE_SIZE))
