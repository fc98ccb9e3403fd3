"""The scan request of a query: level, columns, conditions and reader options. It is serialized to the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.display_filter.exchange_filter import exchange_conditions
from kwire.capture.display_filter.fields import TOPICS
from kwire.capture.options import ExchangeCondition, ExchangeFilter, Options
from kwire.capture.rows.column import Trait
from kwire.capture.rows.columns import arrow_schema, columns_with
from kwire.capture.rows.levels import options_for_columns
from kwire.spark.source import options, pushdown
from kwire.spark.source.pruning import PruningFilter

if TYPE_CHECKING:
    from pyarrow.compute import Expression
    from pyspark.sql.datasource import Filter


@dataclass
class ScanRequest:
    """Holds plain values only. `columns` are those of the result; `filters` and `filter_text` may use others.

    `filters` are Spark's; `filter_text` is the text of option `filter`, empty for none. `packet_range`: only requests
    that begin in these packets are read.
    """

    level: str
    options: Options
    columns: list[str]
    filters: list[Filter] = field(default_factory=list)
    packet_range: tuple[int, int] | None = None
    filter_text: str = ""

    def accept_filters(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Store the filters that Arrow can apply with SQL's meaning; return the others."""
        schema = arrow_schema(self.level)
        for spark_filter in filters:
            if pushdown.arrow_expression(spark_filter, schema) is None:
                yield spark_filter
            else:
                self.filters.append(spark_filter)

    @property
    def needed_columns(self) -> list[str]:
        """The columns that must be built: those of the result, and those that filters use."""
        filter_columns = [name for name in map(pushdown.filter_column, self.filters) if name is not None]
        return list(dict.fromkeys([*self.columns, *filter_columns, *sorted(self._filter_columns)]))

    @property
    def _filter_columns(self) -> frozenset[str]:
        columns = DisplayFilter(self.filter_text, self.level).columns if self.filter_text else frozenset()
        # Topics are no column; the topics of a session are in `session_partitions`.
        return columns - {TOPICS} | {"session_partitions"} if TOPICS in columns else columns

    @property
    def _filters_by_topic(self) -> bool:
        """Whether the filter uses the topics of messages, which only the message reader can evaluate."""
        return bool(self.filter_text) and TOPICS in DisplayFilter(self.filter_text, self.level).columns

    @property
    def needs_topic_names(self) -> bool:
        """Whether rows depend on the names of topics."""
        return not columns_with(Trait.TOPIC_NAMES).isdisjoint(self.needed_columns)

    @property
    def reader_options(self) -> Options:
        """The options of the capture reader, reduced to what this request needs."""
        pushed = (pushdown.exchange_condition(spark_filter, self.level) for spark_filter in self.filters)
        conditions = tuple(filter(None, pushed))
        if self.filter_text:
            conditions = (*conditions, *exchange_conditions(self.filter_text, self.level))
        if self.packet_range is not None:
            conditions = (*conditions, ExchangeCondition("req_packet", "share", self.packet_range))
        rows = (self.filter_text, self.level) if self._filters_by_topic else None
        exchange_filter = ExchangeFilter(conditions, rows) if conditions or rows else None
        return replace(options_for_columns(self.options, self.needed_columns), exchange_filter=exchange_filter)

    @property
    def pruning_filter(self) -> PruningFilter:
        """The conditions that can exclude files and connections before they are read."""
        display_filter = DisplayFilter(self.filter_text, self.level) if self.filter_text else None
        return PruningFilter(display_filter, tuple(self.filters))

    def with_packet_range(self, span: tuple[int, int]) -> ScanRequest:
        """The same request, restricted to requests that begin in these packets."""
        return replace(self, packet_range=span)

    def filter_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filters, with the columns of the result; empty batches are dropped."""
        expression = self._arrow_expression()
        filters_here = self.filter_text and not self._filters_by_topic
        display_filter = DisplayFilter(self.filter_text, self.level) if filters_here else None
        for batch in batches:
            passed = batch if expression is None else batch.filter(expression)
            if display_filter is not None:
                passed = passed.filter(_filter_mask(display_filter, passed))
            if passed.num_rows:
                yield passed.select(self.columns)

    def _arrow_expression(self) -> Expression | None:
        schema = arrow_schema(self.level)
        expressions = (pushdown.arrow_expression(spark_filter, schema) for spark_filter in self.filters)
        parts = [expression for expression in expressions if expression is not None]
        return reduce(and_, parts) if parts else None


def _filter_mask(display_filter: DisplayFilter, batch: pa.RecordBatch) -> pa.BooleanArray:
    """For each row of a batch whether it passes; display filters compare times in nanoseconds."""
    names = sorted(display_filter.columns)
    columns = [_column_values(batch.column(name)) for name in names]
    rows = zip(*columns, strict=True) if columns else ([] for _ in range(batch.num_rows))
    return pa.array([display_filter.matches(dict(zip(names, row, strict=True))) for row in rows], pa.bool_())


def _column_values(column: pa.Array) -> list[object]:
    if not pa.types.is_timestamp(column.type):
        return cast("list[object]", column.to_pylist())
    micros = column.cast(pa.int64()).to_pylist()
    return [None if value is None else value * 1_000 for value in micros]


def build_scan_request(option_texts: Mapping[str, str], schema: StructType, *, is_stream: bool = False) -> ScanRequest:
    """The scan request of a query's options and columns.

    Raises: ValueError for options and columns that the source does not have.
    """
    level = options.parse_level(option_texts)
    _check_columns(schema, level)
    reader_options = options.parse_reader_options(option_texts, is_stream=is_stream)
    return ScanRequest(level, reader_options, schema.names, filter_text=options.parse_filter(option_texts))


def _check_columns(schema: StructType, level: str) -> None:
    """ValueError that names the column unless each one is of the level and has its type; Spark's error names none."""
    level_columns = from_arrow_schema(arrow_schema(level))
    for column in schema:
        if column.name not in level_columns.names:
            raise ValueError(f"level {level} has no column {column.name}; it has {', '.join(level_columns.names)}")
        if column.dataType != level_columns[column.name].dataType:
            expected = level_columns[column.name].dataType.simpleString()
            raise ValueError(f"column {column.name} is {expected}, not {column.dataType.simpleString()}")
