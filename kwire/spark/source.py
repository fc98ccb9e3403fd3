"""The Spark data source `kafka_capture`: a task for each file, Arrow batches, filters applied before rows leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kwire.capture import arrow
from kwire.capture.options import Options
from kwire.capture.values import CaptureError
from kwire.spark import options, paths, pushdown

if TYPE_CHECKING:
    from pyarrow.compute import Expression

# Rendering messages as JSON is the dearest part of reading; it is left out when nobody asked for these columns.
BODY_COLUMNS = {"body_request", "body_response"}


class CaptureDataSource(DataSource):
    """`spark.read.format("kafka_capture").option("level", ...).load(files, patterns or directories)`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kafka_capture"

    def schema(self) -> StructType:
        """The columns of the chosen level, the same as `kwire.read_capture` gives."""
        return from_arrow_schema(arrow.schema(options.level(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the files named.

        Spark passes `schema` by keyword: the one of `schema()`, or the columns that the user chose from it.
        """
        wanted = options.parse(self.options)
        if not BODY_COLUMNS & set(schema.names):
            wanted = replace(wanted, bodies=False)
        files = paths.expand(paths.named_in(self.options))
        return CaptureReader(files, options.level(self.options), wanted, schema.names)


@dataclass
class CapturePartition(InputPartition):
    """One task: one capture file."""

    file: str


class CaptureReader(DataSourceReader):
    """Reads the chosen level of each file; it travels to the workers, so it holds plain values only."""

    def __init__(self, files: list[str], level: str, wanted: Options, columns: list[str]) -> None:
        self.files = files
        self.level = level
        self.options = wanted
        self.columns = columns
        self.filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name.
        """Keep the filters that Arrow can apply with SQL's meaning; the others go back to Spark."""
        for each in filters:
            if pushdown.expression(each, arrow.schema(self.level)) is None:
                yield each
            else:
                self.filters.append(each)

    def partitions(self) -> list[CapturePartition]:
        """One task for each file: streams and requests do not cross files."""
        return [CapturePartition(file) for file in self.files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one file, batch by batch, without those that a pushed filter drops."""
        assert isinstance(partition, CapturePartition)
        condition = self._condition()
        try:
            for batch in arrow.batches(partition.file, self.level, self.options):
                kept = batch if condition is None else batch.filter(condition)
                if kept.num_rows:
                    yield kept.select(self.columns)
        except CaptureError as error:
            # Among many files the reader of the message needs to know which.
            raise CaptureError(f"{partition.file}: {error}") from error

    def _condition(self) -> Expression | None:
        whole: Expression | None = None
        for each in self.filters:
            part = pushdown.expression(each, arrow.schema(self.level))
            assert part is not None
            whole = part if whole is None else whole & part
        return whole
