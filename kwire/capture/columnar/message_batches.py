"""Read the rows of messages as record batches, column by column."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar import session_columns
from kwire.capture.columnar.batch_merge import BatchSorter, RowBatch, divide_outcomes, row_batch
from kwire.capture.columnar.decoded_part import DecodedPart
from kwire.capture.columnar.formats.arrow_formatter import ArrowFormatter
from kwire.capture.pipeline import make_row_builder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import Row


class MessageBatches:
    """The rows of messages of one capture, with these columns."""

    def __init__(self, reader: ColumnarReader, columns: Sequence[str]) -> None:
        options = reader.options
        self._reader = reader
        self._columns = columns
        self._formatter = ArrowFormatter(columns, options)
        self._build_rows = make_row_builder("messages", reader.file, replace(options, sessions=False))
        self._sessions: session_columns.SessionColumns | None = None
        if options.sessions and not session_columns.COLUMNS.isdisjoint(columns):
            self._sessions = session_columns.SessionColumns(reader.exchange_builder, options.topics)

    def read_batches(self, *, issues: bool) -> Iterator[pa.RecordBatch]:
        """The rows in the order of time. Args: issues: whether capture issues have rows."""
        sorter, row_count = BatchSorter(), 0
        for part, exchanges in self._reader.read_parts():
            batches, other_rows = self._format_part(part, exchanges) if len(exchanges) else ([], [])
            for outcomes, until in divide_outcomes(self._reader.ordered_outcomes(part, issues=issues)):
                other_rows += self._build_outcomes(outcomes)
                batches += self._row_batches(other_rows, row_count)
                yield from sorter.add_batches(batches, until=until)
                row_count += len(other_rows)
                batches, other_rows = [], []
        yield from sorter.add_batches([], window=0)

    def _row_batches(self, rows: list[Row], first: int) -> list[RowBatch]:
        """The batch of rows that were built one by one, if there are any. Args: first: how many preceded them."""
        return [row_batch(rows, self._columns, first)] if rows else []

    def _format_part(self, part: int, exchanges: ExchangeColumns) -> tuple[list[RowBatch], list[Row]]:
        """The rows of a part: those that are built by columns, and those that are built one by one."""
        decoded = self._decode_part(part, exchanges)
        if self._sessions is not None:
            decoded.session_values = self._sessions.build_values(exchanges, decoded.is_good, decoded.span)
        good = np.nonzero(decoded.is_wanted & decoded.is_good)[0]
        batches = [self._formatter.format_rows(decoded.rows(good))]
        unusual = np.nonzero(decoded.is_wanted & ~decoded.is_good)[0]
        if decoded.damaged is not None:
            batches.append(self._formatter.format_rows(decoded.damaged_rows(decoded.damaged.chosen)))
            unusual = np.setdiff1d(unusual, decoded.damaged.chosen)
        return batches, self._build_unusual(decoded, unusual)

    def _decode_part(self, part: int, exchanges: ExchangeColumns) -> DecodedPart:
        """Decode what the columns need; for sessions also of exchanges that do not match the options."""
        reader, has_sessions = self._reader, self._sessions is not None
        is_wanted = reader.matches_options(exchanges)
        # Only bodies that were decoded in columns are known to be valid; sessions and the JSON columns need that.
        needed = {*self._columns, "status"} if has_sessions or self._formatter.has_bodies else self._columns
        plain = np.nonzero((exchanges.request.body >= 0) & (is_wanted | has_sessions))[0]
        with_damaged = self._formatter.formats_damaged and not has_sessions and reader.selects_all
        with_damaged = with_damaged and reader.options.decoded_messages is None
        decoded = DecodedPart(reader, part, exchanges, plain, needed, with_damaged=with_damaged)
        decoded.is_wanted = is_wanted
        return decoded

    def _build_outcomes(self, outcomes: list[Outcome]) -> list[Row]:
        """The rows of outcomes that are no exchanges."""
        return list(self._reader.with_file_names(row for outcome in outcomes for row in self._build_rows(outcome)))

    def _build_unusual(self, part: DecodedPart, unusual: Ints) -> list[Row]:
        """The rows of exchanges that are built one by one."""
        rows, values = [], part.session_values
        for number, exchange in zip(unusual.tolist(), part.build_exchanges(unusual), strict=True):
            for row in self._build_rows(exchange):
                if values is not None:
                    row |= {name: of_rows[number] for name, of_rows in values.items()}
                rows.append(row)
        return list(self._reader.with_file_names(iter(rows)))
