"""Read the rows of a level below `messages` by columns.

Rows need the topic names that were known when their exchange was complete. So the exchanges that name topics are taken
in the order of completion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kwire.capture.columnar.batch_merge import ROWS_MAX, BatchSorter, RowBatch
from kwire.capture.columnar.body_columns import exchanges_by_version
from kwire.capture.columnar.levels.body_source import BodySource
from kwire.capture.columnar.levels.level_columns import LevelColumns
from kwire.capture.columnar.levels.level_rows import BodyGroup, LevelRows, concatenate_level_rows
from kwire.capture.columnar.levels.partition_columns import PartitionColumns
from kwire.capture.columnar.levels.record_columns import RecordColumns
from kwire.capture.columnar.levels.share_columns import ShareAckColumns, ShareAcquiredColumns
from kwire.capture.columnar.levels.topic_history import TopicHistory
from kwire.capture.columnar.span_data import SpanData
from kwire.capture.kafka.exchange import Outcome
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.capture.kafka.topic_naming import learn_topic_names, topic_naming_messages
from kwire.capture.pipeline import make_row_builder
from kwire.capture.rows.columns import arrow_schema
from kwire.capture.rows.record_batches import make_record_batch
from kwire.capture.rows.reorder_buffer import sort_key
from kwire.registry import known_api_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.capture.columnar.reader import ColumnarReader
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.model import Row

LEVELS: dict[str, type[LevelColumns]] = {
    each.LEVEL: each for each in (PartitionColumns, ShareAcquiredColumns, ShareAckColumns, RecordColumns)
}
"""The levels that are built by columns."""


class LevelReader:
    """Reads the rows of one level of one capture."""

    def __init__(self, reader: ColumnarReader, level: str, columns: Sequence[str]) -> None:
        """Args: reader: with options as `options_for_level` returns them."""
        options = reader.options
        self._reader = reader
        self._level = level
        self._names = list(columns)
        self._builder = LEVELS[level](columns, payload=options.payload)
        self._topics = TopicHistory(options.topics)
        self._rows_of_outcome = make_row_builder(level, reader.file, options, self._topics)

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the order of their exchanges."""
        sorter, count = BatchSorter(), 0
        for part, exchanges in self._reader.read_parts():
            if not len(exchanges):
                continue
            self._topics.begin_part()
            batches = list(self._rows_one_by_one(exchanges, count))
            batches += self._column_batches(part, exchanges, count)
            yield from sorter.add_batches(batches)
            count += len(exchanges)
        yield from sorter.add_batches([], window=0)

    # Rows that are built one by one

    def _rows_one_by_one(self, exchanges: ExchangeColumns, first: int) -> Iterator[RowBatch]:
        """The rows of those exchanges whose headers are unusual.

        Args: first: the number of the first exchange. The names in all messages that name topics are learned.
        """
        rows = _RowList(self._level, self._names, self._reader.with_file_names)
        needed = exchanges.request.body < 0
        if "topic" in self._names:
            decoder = MessageDecoder(self._reader.options.edition, topic_naming_messages(self._reader.options.edition))
            needed |= np.isin(exchanges.request.api_key, decoder.api_keys())
        numbers = np.nonzero(needed)[0].tolist()
        built = self._reader.exchange_builder.build_exchanges(exchanges.select(np.nonzero(needed)[0]))
        for number, (_, exchange) in zip(numbers, built, strict=True):
            self._topics.position = number
            if exchanges.request.body[number] < 0:
                rows.add(exchange, self._rows_of_outcome(exchange), first + number)
            else:
                learn_topic_names(exchange, self._topics, self._reader.options.edition)
            if len(rows) >= ROWS_MAX:
                yield rows.take_batch()
        if len(rows):
            yield rows.take_batch()

    # Rows that are built by columns

    def _column_batches(self, part: int, exchanges: ExchangeColumns, first: int) -> Iterator[RowBatch]:
        is_chosen = self._reader.matches_options(exchanges) & (exchanges.request.body >= 0)
        # The messages of other APIs are not even imported.
        present = np.unique(exchanges.request.api_key[is_chosen]).tolist()
        keys = [key for key in present if key in known_api_keys() and self._builder.has_rows(key)]
        chosen = np.nonzero(is_chosen & np.isin(exchanges.request.api_key, keys))[0]
        if not len(chosen):
            return
        span = self._reader.read_span_data(part, exchanges.select(chosen))
        parts = self._level_rows(exchanges, chosen, span)
        if parts:
            yield self._make_batch(concatenate_level_rows(parts), exchanges, first)

    def _level_rows(self, exchanges: ExchangeColumns, chosen: Ints, span: SpanData) -> list[LevelRows]:
        parts: list[LevelRows] = []
        is_left = np.zeros(len(exchanges), dtype=np.bool_)
        is_left[chosen] = True
        for api_key, version, is_member in exchanges_by_version(exchanges):
            rows = np.nonzero(is_member & is_left)[0]
            if len(rows):
                found, done = self._builder.read_group(BodyGroup(span, exchanges, rows, api_key, version))
                parts += found
                is_left[done] = False
        left = np.nonzero(is_left)[0]
        if len(left):
            collector = self._builder.row_collector()
            source = BodySource(self._reader.bodies, span, self._reader.exchange_builder)
            for number, request, response in source.bodies(exchanges, left, self._builder.needs_request):
                collector.add_exchange(number, request, response)
            parts.append(collector.rows(exchanges))
        return parts

    def _make_batch(self, rows: LevelRows, exchanges: ExchangeColumns, first: int) -> RowBatch:
        """The rows with all columns, in the order of time."""
        frame, is_missing = exchanges.request.frame, exchanges.request.frame.size < 0
        assert not bool(is_missing[rows.exchange].any())
        ts, offset = frame.ts[rows.exchange], frame.offset[rows.exchange]
        order = np.lexsort((rows.exchange, offset, ts))
        topic, topic_id = self._topics.topic_columns(*rows.topic, rows.exchange)
        columns = {**rows.columns, "topic": topic, "topic_id": topic_id}
        numbers = rows.exchange[order]
        row_ts = rows.ts[order]
        schema, arrays = arrow_schema(self._level), []
        used, inverse = np.unique(numbers, return_inverse=True)
        used_exchanges, places = exchanges.select(used), pa.array(inverse.reshape(-1))
        is_sorted = bool((order[1:] > order[:-1]).all())
        for name in self._names:
            if name in columns:
                arrays.append(columns[name] if is_sorted else columns[name].take(pa.array(order)))
            elif name == "ts":
                arrays.append(pa.array(row_ts // 1000, type=pa.int64()).view(schema.field(name).type))
            elif name == "file":
                arrays.append(self._reader.header_columns.file_column(row_ts))
            else:
                arrays.append(self._reader.header_columns.build_column(name, used_exchanges).take(places))
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([schema.field(name) for name in self._names]))
        return RowBatch(batch, ts[order], offset[order], first + numbers)


class _RowList:
    """Rows that were built one by one, with what they are sorted by."""

    def __init__(
        self, level: str, columns: Sequence[str], with_file_names: Callable[[Iterator[Row]], Iterator[Row]]
    ) -> None:
        self._level = level
        self._columns = columns
        self._with_file_names = with_file_names
        self._rows: list[Row] = []
        self._keys: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, outcome: Outcome, rows: list[Row], number: int) -> None:
        """Add the rows of an outcome. Args: number: in the order of completion."""
        if rows:
            self._rows += rows
            self._keys += [(*sort_key(outcome), number)] * len(rows)

    def take_batch(self) -> RowBatch:
        """The rows as a batch; then there are none."""
        rows, keys = list(self._with_file_names(iter(self._rows))), np.array(self._keys, dtype=np.int64).reshape(-1, 3)
        self._rows, self._keys = [], []
        return RowBatch(make_record_batch(rows, self._level, self._columns), keys[:, 0], keys[:, 1], keys[:, 2])
