"""Read the outcomes that match conditions as `FilteredReader`, but many exchanges at once as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kwire.capture.columnar import json_columns, session_columns
from kwire.capture.columnar.filtered_reader import FilteredReader, frame_times
from kwire.capture.columnar.json_lines import LineSource, format_lines
from kwire.capture.rows.columns import arrow_schema
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW, PrebuiltLines, SkippedCount

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kwire.capture.columnar.filtered_reader import ColumnCondition, FilteredOutcome
    from kwire.capture.columnar.reader import DecodedPart
    from kwire.capture.columnar.streamed_sessions import SessionsByRow
    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.pairing import ExchangeColumns
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.kafka.fetch_sessions import FetchSession
    from kwire.capture.options import Options
    from kwire.capture.rows.reorder_buffer import TableLine

# Limits of the exchanges whose lines are made at once: their count, the size of their frames in bytes, the packets of
# the capture between them, and the count of those between them that are built one by one.
_COUNT_MAX = 8192
_OTHERS_MAX = ORDER_WINDOW // 2
_SIZE_MAX = 8 * 1024 * 1024
_PACKETS_MAX = 32 * 1024


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
        """Merge both in the order of completion; lines are divided where an outcome belongs between them."""
        waiting = next(streamed, None)
        for number, event in columnar:
            rest = event
            while waiting is not None and waiting[0] < number:
                if isinstance(rest, PrebuiltLines):
                    count = int(np.searchsorted(rest.completed_by, waiting[0], "right"))
                    if count:
                        yield rest.part(0, count)
                        rest = rest.part(count, len(rest.lines))
                yield waiting[1]
                waiting = next(streamed, None)
            yield rest
        if waiting is not None:
            yield waiting[1]
        for _, outcome in streamed:
            yield outcome

    def _select_outcomes(
        self,
        exchanges: ExchangeColumns,
        filtered: DecodedPart,
        is_selected: Bools,
        sessions_by_row: SessionsByRow,
    ) -> Iterator[tuple[int, FilteredOutcome]]:
        is_line = filtered.is_wanted & filtered.is_good & (exchanges.request.frame.packet > self._after)
        reached = 0
        for rows in _split_rows(np.nonzero(is_selected)[0], exchanges, is_line):
            stop = int(rows[-1]) + 1
            if stop - reached > len(rows):
                yield int(rows[0]), SkippedCount(stop - reached - len(rows))
            reached = stop
            is_in_lines = is_line[rows]
            lines = self._prebuilt_lines(exchanges, rows[is_in_lines], filtered, sessions_by_row)
            others = rows[~is_in_lines]
            built = self._exchange_builder.build_exchanges(exchanges.select(others))
            # The receiver sorts by time within a window. Those built one by one come first, because they are few.
            for row, (_, exchange) in zip(others.tolist(), built, strict=True):
                exchange.session = sessions_by_row.get(row)
                yield int(rows[0]), exchange
            if lines.lines:
                yield stop - 1, lines
        if reached < len(exchanges):
            yield len(exchanges), SkippedCount(len(exchanges) - reached)

    def _prebuilt_lines(
        self,
        exchanges: ExchangeColumns,
        selected: Ints,
        filtered: DecodedPart,
        sessions_by_row: SessionsByRow,
    ) -> PrebuiltLines:
        """The lines of valid exchanges."""
        chosen, rows = exchanges.select(selected), np.searchsorted(filtered.plain, selected)
        sessions = [sessions_by_row.get(row) for row in selected.tolist()]
        lines = self._format_lines(chosen, rows, filtered, sessions)
        frame = chosen.request.frame
        assert filtered.decoded is not None
        error = self._build_column("error_code", chosen, filtered.decoded, rows)
        return PrebuiltLines(chosen.completed_by, frame.ts, frame.offset, lines, error.fill_null(0).to_numpy() != 0)

    def _format_lines(
        self, chosen: ExchangeColumns, rows: Ints, filtered: DecodedPart, sessions: list[FetchSession | None]
    ) -> Sequence[str | TableLine]:
        """The lines of these exchanges. Args: rows: their rows in what was decoded."""
        types = {field.name: field.type for field in arrow_schema("messages")}

        def array(name: str) -> pa.Array:
            """The values of a column without times and bodies."""
            if name in session_columns.COLUMNS:
                values = self._column_values(name, chosen, rows, filtered, sessions)
                return pa.array(values, type=types[name])
            assert filtered.decoded is not None
            return self._build_column(name, chosen, filtered.decoded, rows)

        def bodies(name: str) -> list[str | None]:
            """The texts of a column of bodies."""
            return json_columns.json_texts(name, filtered.span, chosen, self._options, is_escaped=True)

        source = LineSource(len(chosen), self._file, lambda name: frame_times(name, chosen), bodies, array)
        return format_lines(source, self._line_names)


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
