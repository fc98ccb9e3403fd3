"""What a query asks of captures: a level, columns, conditions, and how files are read. It travels to the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql.datasource import Filter
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kwire.capture import arrow
from kwire.capture.only import Condition, Only, of_filter
from kwire.capture.options import Options
from kwire.capture.where.fields import TOPICS
from kwire.capture.where.where import Where
from kwire.spark import options, pushdown
from kwire.spark.prospect import Prospect

if TYPE_CHECKING:
    from pyarrow.compute import Expression

# Rendering messages as JSON is the dearest part of reading; it is left out when nobody asked for these columns.
BODY_COLUMNS = frozenset({"body_request", "body_response"})
# What tells the names of topics; and what tells of sessions.
NAME_COLUMNS = frozenset({"topic", "session_partitions"})
SESSION_COLUMNS = frozenset({"session_id", "session_epoch", "session_partitions"})


@dataclass
class Wanted:
    """Holds plain values only. `columns` are those of the rows that leave, `filters` and `where` may look at more.

    `filters` come from Spark; `where` is the text of option `filter`, empty for none.
    """

    level: str
    options: Options
    columns: list[str]
    filters: list[Filter] = field(default_factory=list)
    packets: tuple[int, int] | None = None
    where: str = ""

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Keep the filters that Arrow can apply with SQL's meaning; the others are given back."""
        schema = arrow.schema(self.level)
        for each in filters:
            if pushdown.expression(each, schema) is None:
                yield each
            else:
                self.filters.append(each)

    @property
    def needed(self) -> list[str]:
        """The columns that must be made: those that leave, and those that filters look at."""
        looked_at = [name for name in map(pushdown.column_of, self.filters) if name is not None]
        return list(dict.fromkeys([*self.columns, *looked_at, *sorted(self._where_columns)]))

    @property
    def _where_columns(self) -> frozenset[str]:
        found = Where(self.where, self.level).columns if self.where else frozenset()
        # Topics are no column; those of a session are told by one.
        return found - {TOPICS} | {"session_partitions"} if TOPICS in found else found

    @property
    def _asks_topics(self) -> bool:
        """Whether the filter asks for the topics of messages, which only their reader knows."""
        return bool(self.where) and TOPICS in Where(self.where, self.level).columns

    @property
    def needs_names(self) -> bool:
        """Whether a row says something else when the name of a topic is known."""
        return not NAME_COLUMNS.isdisjoint(self.needed)

    @property
    def reading(self) -> Options:
        """How the files are read for this."""
        heads = tuple(filter(None, (pushdown.head_condition(each, self.level) for each in self.filters)))
        if self.where:
            heads = (*heads, *of_filter(self.where, self.level))
        if self.packets is not None:
            heads = (*heads, Condition("req_packet", "share", self.packets))
        bodies = self.options.bodies and not BODY_COLUMNS.isdisjoint(self.needed)
        sessions = self.options.sessions and not SESSION_COLUMNS.isdisjoint(self.needed)
        return replace(self.options, bodies=bodies, sessions=sessions, only=self._only(heads))

    def _only(self, heads: tuple[Condition, ...]) -> Only | None:
        rows = (self.where, self.level) if self._asks_topics else None
        return Only(heads, rows) if heads or rows else None

    @property
    def prospect(self) -> Prospect:
        """What of this can be told before anything is read."""
        return Prospect(Where(self.where, self.level) if self.where else None, tuple(self.filters))

    def of_packets(self, span: tuple[int, int]) -> Wanted:
        """The same, of requests that begin in these packets alone."""
        return replace(self, packets=span)

    def kept(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filters, with the columns that leave; empty batches are left out."""
        condition = self._condition()
        where = Where(self.where, self.level) if self.where and not self._asks_topics else None
        for batch in batches:
            passed = batch if condition is None else batch.filter(condition)
            if where is not None:
                passed = passed.filter(_passing(where, passed))
            if passed.num_rows:
                yield passed.select(self.columns)

    def _condition(self) -> Expression | None:
        schema = arrow.schema(self.level)
        parts = [part for each in self.filters if (part := pushdown.expression(each, schema)) is not None]
        return reduce(and_, parts) if parts else None


def _passing(where: Where, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Which rows of a batch pass; times are nanoseconds in the rows that filters look at."""
    names = sorted(where.columns)
    columns = [_values(batch.column(name)) for name in names]
    rows = zip(*columns, strict=True) if columns else ([] for _ in range(batch.num_rows))
    return pa.array([where.passes(dict(zip(names, row, strict=True))) for row in rows], pa.bool_())


def _values(column: pa.Array) -> list[object]:
    if not pa.types.is_timestamp(column.type):
        return cast("list[object]", column.to_pylist())
    micros = column.cast(pa.int64()).to_pylist()
    return [None if each is None else each * 1_000 for each in micros]


def wanted(given: Mapping[str, str], schema: StructType, *, is_stream: bool = False) -> Wanted:
    """What the options of a query and its columns ask for.

    Raises: ValueError for what the source does not have.
    """
    level = options.level(given)
    _check(schema, level)
    asked = options.parse(given, is_stream=is_stream)
    return Wanted(level, asked, schema.names, where=options.condition(given))


def _check(schema: StructType, level: str) -> None:
    """ValueError unless each column is one of the level, with its type; Spark would only say that they differ."""
    known = from_arrow_schema(arrow.schema(level))
    for column in schema:
        if column.name not in known.names:
            raise ValueError(f"level {level} has no column {column.name}; it has {', '.join(known.names)}")
        if column.dataType != known[column.name].dataType:
            expected = known[column.name].dataType.simpleString()
            raise ValueError(f"column {column.name} is {expected}, not {column.dataType.simpleString()}")
