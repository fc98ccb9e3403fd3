"""Read the outcomes that match conditions as `FilteredReader`, but many exchanges at once as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kwire.capture.columnar import body_columns, json_columns, session_columns
from kwire.capture.columnar.filtered_reader import FilteredReader, frame_times, session_value
from kwire.capture.columnar.lines.json_lines import LineSource, format_lines
from kwire.capture.columnar.lines.streamed_lines import LineRows, is_line, select_lines
from kwire.capture.columnar.streamed_sessions import StreamedSessions
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS
from kwire.capture.rows.columns import arrow_schema
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW, PrebuiltLines, SkippedCount, merge_lines, outcome_size
from kwire.registry import DEFAULT_EDITION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kwire.capture.columnar.filtered_reader import ColumnCondition, FilteredOutcome
    from kwire.capture.columnar.reader import DecodedPart
    from kwire.capture.columnar.streamed_sessions import SessionsByRow
    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.deferred_decoder import DeferredDecoder
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.kafka.fetch_sessions import FetchSession
    from kwire.capture.options import Options
    from kwire.capture.rows.reorder_buffer import TableLine

# Limits of the exchanges whose lines are made at once: their count, the size of their frames in bytes, the packets of
# the capture between them, and the count of those between them that are built one by one.
_COUNT_MAX = 16 * 1024
_OTHERS_MAX = ORDER_WINDOW // 2
_SIZE_MAX = 8 * 1024 * 1024
_PACKETS_MAX = 64 * 1024


class LineReader(FilteredReader):
    """Reads the matching outcomes of one capture; the caller closes it."""

    def __init__(
        self,
        index: Index,
        options: Options,
        conditions: Sequence[ColumnCondition],
        columns: Collection[str],
        names: Sequence[str],
        *,
        after: int = 0,
    ) -> None:
        """Args: conditions, columns, after: as for `FilteredReader`. names: the columns of the lines, which are some
        of `columns`.
        """
        super().__init__(index, options, conditions, columns, after=after)
        self._line_names = names

    def _merge_streamed(
        self,
        columnar: Iterator[tuple[int, FilteredOutcome]],
        streamed: Iterator[tuple[int, Outcome]],
    ) -> Iterator[FilteredOutcome]:
        """Merge both in the order of completion; lines are divided where too many outcomes belong between them."""
        source = _StreamedSource(streamed, self._after)
        for number, event in columnar:
            rest = event
            while taken := source.take(number):
                if not isinstance(rest, PrebuiltLines):
                    yield from self._streamed_events(taken)
                    continue
                count = int(np.searchsorted(rest.completed_by, taken[-1][0], "right"))
                yield from self._streamed_events(taken, rest.part(0, count))
                rest = rest.part(count, len(rest.lines))
            if not isinstance(rest, PrebuiltLines) or rest.lines:
                yield rest
        while taken := source.take(None):
            yield from self._streamed_events(taken)

    @property
    def _streamed_decoder(self) -> DeferredDecoder | None:
        return self._deferred_decoder if self._has_no_conditions and self._options.edition == DEFAULT_EDITION else None

    @property
    def _reads_damaged(self) -> bool:
        return self._has_no_conditions and self._options.decoded_messages is None

    @property
    def _has_no_conditions(self) -> bool:
        return not (self._conditions or self._options.apis or self._options.exchange_filter is not None)

    def _streamed_events(
        self, taken: Sequence[tuple[int, Outcome]], lines: PrebuiltLines | None = None
    ) -> Iterator[FilteredOutcome]:
        """What becomes of outcomes of the streaming pipeline, and of lines of clean flows among them."""
        numbered = []
        complete = self._deferred_decoder.complete
        for number, outcome in taken:
            if is_line(outcome, self._after):
                assert isinstance(outcome, Exchange)
                numbered.append((number, outcome))
            else:
                yield complete(outcome) if isinstance(outcome, Exchange) else outcome
        parts = [] if lines is None else [lines]
        if numbered:
            assert self._columns is not None
            rows, others = select_lines(numbered, self._header_columns, self._columns)
            yield from map(complete, others)
            parts.append(self._prebuilt_lines(rows))
        merged = merge_lines(parts) if parts else None
        if merged is not None and merged.lines:
            yield merged

    def _select_outcomes(
        self,
        exchanges: ExchangeColumns,
        filtered: DecodedPart,
        is_selected: Bools,
        sessions_by_row: SessionsByRow,
    ) -> Iterator[tuple[int, FilteredOutcome]]:
        is_later = exchanges.request.frame.packet > self._after
        is_whole, is_damaged = filtered.is_wanted & filtered.is_good & is_later, np.zeros_like(is_later)
        if filtered.damaged is not None:
            is_damaged[filtered.damaged.chosen] = is_later[filtered.damaged.chosen]
        is_line = is_whole | is_damaged
        reached = 0
        for rows in _split_rows(np.nonzero(is_selected)[0], exchanges, is_line):
            stop = int(rows[-1]) + 1
            if stop - reached > len(rows):
                yield int(rows[0]), SkippedCount(stop - reached - len(rows))
            reached = stop
            parts = [self._prebuilt_lines(self._line_rows(exchanges, rows[is_whole[rows]], filtered, sessions_by_row))]
            if is_damaged[rows].any():
                damaged = self._damaged_line_rows(rows[is_damaged[rows]], filtered, sessions_by_row)
                parts.append(self._prebuilt_lines(damaged))
            lines, others = merge_lines(parts), rows[~is_line[rows]]
            built = self._exchange_builder.build_exchanges(exchanges.select(others))
            # The receiver sorts by time within a window. Those built one by one come first, because they are few.
            for row, (_, exchange) in zip(others.tolist(), built, strict=True):
                exchange.session = sessions_by_row.get(row)
                yield int(rows[0]), exchange
            if lines.lines:
                yield stop - 1, lines
        if reached < len(exchanges):
            yield len(exchanges), SkippedCount(len(exchanges) - reached)

    def _line_rows(
        self,
        exchanges: ExchangeColumns,
        selected: Ints,
        filtered: DecodedPart,
        sessions_by_row: SessionsByRow,
    ) -> LineRows:
        """Valid exchanges of clean flows."""
        chosen, rows, decoded = exchanges.select(selected), np.searchsorted(filtered.plain, selected), filtered.decoded
        sessions = _sessions_of(chosen, selected, sessions_by_row)
        assert decoded is not None
        return LineRows(chosen, filtered.span, sessions, lambda name: self._build_column(name, chosen, decoded, rows))

    def _damaged_line_rows(self, selected: Ints, filtered: DecodedPart, sessions_by_row: SessionsByRow) -> LineRows:
        """Incomplete exchanges."""
        assert filtered.damaged is not None
        damaged = filtered.damaged.select(selected)
        exchanges = damaged.exchanges

        def build_column(name: str) -> pa.Array:
            """Any column that depends neither on sessions nor on whole bodies."""
            is_of_body = name in body_columns.COLUMNS
            return damaged.build_column(name) if is_of_body else self._header_columns.build_column(name, exchanges)

        return LineRows(
            exchanges, filtered.span, _sessions_of(exchanges, selected, sessions_by_row), build_column, damaged
        )

    def _prebuilt_lines(self, rows: LineRows) -> PrebuiltLines:
        """The lines of exchanges."""
        exchanges, lines = rows.exchanges, self._format_lines(rows)
        frame, error = exchanges.request.frame, rows.build_column("error_code")
        has_error = error.fill_null(0).to_numpy() != 0
        damaged = rows.damaged
        status = np.zeros(len(lines), dtype=np.int64) if damaged is None else damaged.status_numbers()
        return PrebuiltLines(exchanges.completed_by, frame.ts, frame.offset, lines, has_error, status)

    def _format_lines(self, rows: LineRows) -> Sequence[str | TableLine]:
        """The lines of these exchanges."""
        exchanges = rows.exchanges
        types = {field.name: field.type for field in arrow_schema("messages")}

        def array(name: str) -> pa.Array:
            """The values of a column without times and bodies."""
            if name in session_columns.COLUMNS:
                values = [session_value(name, session, self._names) for session in rows.sessions]
                return pa.array(values, type=types[name])
            return rows.build_column(name)

        damaged = rows.damaged

        def bodies(name: str) -> list[str | None]:
            """The texts of a column of bodies."""
            if damaged is not None:
                return damaged.json_texts(name, self._options, is_escaped=True)
            return json_columns.json_texts(name, rows.span, exchanges, self._options, is_escaped=True)

        source = LineSource(len(exchanges), self._file, lambda name: frame_times(name, exchanges), bodies, array)
        if damaged is not None:
            source = source._replace(damages=(damaged.statuses, damaged.issues))
        return format_lines(source, self._line_names)


def _sessions_of(exchanges: ExchangeColumns, rows: Ints, sessions_by_row: SessionsByRow) -> list[FetchSession | None]:
    """The session of each exchange. Args: rows: theirs in the part."""
    sessions: list[FetchSession | None] = [None] * len(rows)
    for at in np.nonzero(np.isin(exchanges.request.api_key, SESSION_API_KEYS))[0].tolist():
        sessions[at] = sessions_by_row.get(int(rows[at]))
    return sessions


class _StreamedSource:
    """Takes the outcomes of the streaming pipeline, as many as can be lines together."""

    def __init__(self, outcomes: Iterator[tuple[int, Outcome]], after: int) -> None:
        self._outcomes = outcomes
        self._after = after
        self._next = next(outcomes, None)

    def take(self, before: int | None) -> list[tuple[int, Outcome]]:
        """The next outcomes before a packet, or any, with their sessions."""
        taken: list[tuple[int, Outcome]] = []
        other_count = size = 0
        while self._next is not None and (before is None or self._next[0] < before):
            number, outcome = self._next
            if isinstance(self._outcomes, StreamedSessions):
                self._outcomes.follow(outcome)
            taken.append((number, outcome))
            other_count += not is_line(outcome, self._after)
            size += outcome_size(outcome)
            self._next = next(self._outcomes, None)
            if len(taken) >= _COUNT_MAX or other_count >= _OTHERS_MAX or size >= _SIZE_MAX:
                break
        return taken


def _split_rows(rows: Ints, exchanges: ExchangeColumns, is_line: Bools) -> Iterator[Ints]:
    """The rows in parts within the limits; an exchange above the limit is a part of its own."""
    request, response = exchanges.request.frame.size[rows], exchanges.response.frame.size[rows]
    cost = (
        (np.maximum(request, 0) + np.maximum(response, 0)) / _SIZE_MAX + 1 / _COUNT_MAX + ~is_line[rows] / _OTHERS_MAX
    )
    # Outcomes of the streaming pipeline between them wait for these.
    cost[1:] += np.diff(exchanges.completed_by[rows]) / _PACKETS_MAX
    part = np.cumsum(cost).astype(np.int64)
    return iter(np.split(rows, np.nonzero(np.diff(part))[0] + 1)) if len(rows) else iter(())
