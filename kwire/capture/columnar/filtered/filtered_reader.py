"""Read only the exchanges that match conditions; others are counted.

Conditions are evaluated on columns, for many exchanges at once. Only exchanges that may match are returned, as objects
or formatted: one by one (`row_output`), or many at once (`filtered_lines`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.columnar.decoded_part import DecodedPart
from kwire.capture.columnar.filtered.column_conditions import evaluate_conditions
from kwire.capture.columnar.filtered.part_sessions import PartSessions
from kwire.capture.columnar.session_columns import FetchBodies
from kwire.capture.columnar.span_data import NO_DATA
from kwire.capture.kafka.exchange import Outcome
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS, SessionTracker
from kwire.capture.rows.reorder_buffer import PrebuiltLines, PrebuiltRow, SkippedCount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kwire.capture.columnar.filtered.column_conditions import ColumnCondition
    from kwire.capture.columnar.formats.exchange_rows import Formatter
    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.index.arrays import Bools
    from kwire.capture.index.flows.message_columns import ExchangeColumns

FilteredOutcome = Outcome | PrebuiltRow | PrebuiltLines | SkippedCount
"""Outcomes, what was formatted of exchanges in columns, and the numbers of those that were excluded."""


class Output(NamedTuple):
    """What becomes of exchanges that match.

    formatter: formats them; None if all are built as objects. select: returns the outcomes of a part, each with a row;
    it is given which exchanges can be formatted.
    """

    formatter: Formatter[object] | None
    select: Callable[[DecodedPart, Bools], Iterator[tuple[int, FilteredOutcome]]]


# This many exchanges are built at once.
_SLICE_SIZE = 2048


class FilteredReader:
    """Reads the matching outcomes of one capture."""

    def __init__(
        self, reader: ColumnarReader, conditions: Sequence[ColumnCondition], level: str, *, after: int = 0
    ) -> None:
        """Args: conditions: all must hold. after: only exchanges that begin after this packet are formatted."""
        self.reader = reader
        self.after = after
        self.reached = 0
        """The file position up to which outcomes were returned, in bytes."""
        self._conditions = conditions
        self._sessions = SessionTracker() if reader.options.sessions and level == "messages" else None
        self._skipped_parts: list[int] = []

    @property
    def selects_all(self) -> bool:
        """Whether all exchanges match."""
        return not self._conditions and self.reader.selects_all

    def read_part(
        self, number: int, exchanges: ExchangeColumns, output: Output
    ) -> Iterator[tuple[int, FilteredOutcome]]:
        """The outcomes of exchanges of one part, each with the number of the packet that completed it."""
        part = self._filter_part(number, exchanges, output.formatter)
        if self._sessions is not None:
            is_fetch = np.isin(exchanges.request.api_key, SESSION_API_KEYS)
            # The session of a fetch that is returned depends on all fetches before it.
            if self.reader.index.is_stream or (part.is_wanted & (is_fetch | (exchanges.request.body < 0))).any():
                for skipped_part in self._skipped_parts:
                    self._part_sessions(self._sessions, self.reader.read_exchanges(skipped_part)).follow_rest()
                self._skipped_parts = []
                part.sessions = self._part_sessions(self._sessions, exchanges, part.fetch_bodies())
            else:
                self._skipped_parts.append(number)
        is_formatted = part.is_wanted & part.is_good & (exchanges.request.frame.packet > self.after)
        selected = output.select(part, is_formatted & (output.formatter is not None))
        yield from self._follow_position(number, exchanges, selected)
        if part.sessions is not None:
            part.sessions.follow_rest()

    def _follow_position(
        self, number: int, exchanges: ExchangeColumns, selected: Iterator[tuple[int, FilteredOutcome]]
    ) -> Iterator[tuple[int, FilteredOutcome]]:
        """The selected outcomes of a part, each with the number of its packet in place of its row."""
        index = self.reader.index
        base, size = index.spans[number] if number >= 0 and not index.is_stream else (index.size, 0)
        for row, outcome in selected:
            self.reached = base + size * row // len(exchanges)
            yield int(exchanges.completed_by[min(row, len(exchanges) - 1)]), outcome

    def _part_sessions(
        self, sessions: SessionTracker, exchanges: ExchangeColumns, bodies: FetchBodies | None = None
    ) -> PartSessions:
        """The sessions of a part. Args: bodies: None if they have not been checked."""
        bodies = bodies or FetchBodies.of_valid(NO_DATA, np.zeros(len(exchanges), dtype=np.bool_))
        return PartSessions(sessions, self.reader.exchange_builder, exchanges, bodies)

    def _filter_part(self, number: int, exchanges: ExchangeColumns, formatter: Formatter[object] | None) -> DecodedPart:
        plain, reader = np.nonzero(exchanges.request.body >= 0)[0], self.reader
        needed = set[str]().union(*(condition.columns for condition in self._conditions))
        with_damaged = False
        if formatter is not None:
            needed.update(formatter.columns)
            with_damaged = formatter.formats_damaged and self.selects_all and reader.options.decoded_messages is None
        if self._conditions or formatter is not None:
            # The number of exchanges without issues is reported, so the status of each is needed.
            needed.add("status")
        part = DecodedPart(reader, number, exchanges, plain, needed, with_damaged=with_damaged)
        if not needed:
            # All are built as objects.
            part.is_good[:] = False
        part.is_wanted = evaluate_conditions(self._conditions, part, reader.file)
        return part


def row_output(formatter: Formatter[list[PrebuiltRow]] | None) -> Output:
    """The output of outcomes one by one, those that match as rows; without a formatter as objects."""
    return Output(formatter, partial(_select_outcomes, formatter))


def _select_outcomes(
    formatter: Formatter[list[PrebuiltRow]] | None, part: DecodedPart, is_formatted: Bools
) -> Iterator[tuple[int, FilteredOutcome]]:
    """The selected outcomes of a part, each with its row, and the number of skipped exchanges between them."""
    selected, reached = np.nonzero(part.is_wanted | ~part.is_good)[0], 0
    for begin in range(0, len(selected), _SLICE_SIZE):
        rows = selected[begin : begin + _SLICE_SIZE]
        is_row = is_formatted[rows]
        formatted = iter(formatter.format_rows(part.rows(rows[is_row])) if formatter is not None else ())
        built = part.build_exchanges(rows[~is_row])
        for row, each_is_row in zip(rows.tolist(), is_row.tolist(), strict=True):
            if row > reached:
                yield row, SkippedCount(row - reached)
            reached = row + 1
            yield row, next(formatted) if each_is_row else next(built)
    if reached < len(part.exchanges):
        yield len(part.exchanges), SkippedCount(len(part.exchanges) - reached)
