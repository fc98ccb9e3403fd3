"""The Spark data source `kafka_capture`: Arrow batches of a level of rows, filters applied before rows leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kwire.capture import arrow
from kwire.capture.traffic import LEVELS
from kwire.spark import options, paths
from kwire.spark.indexing import names_told
from kwire.spark.options import PlanOptions
from kwire.spark.plan import Task, of_interest, tasks
from kwire.spark.reading import read
from kwire.spark.streaming import CaptureStreamReader
from kwire.spark.wanted import Wanted, wanted


class CaptureDataSource(DataSource):
    """`spark.read.format("kafka_capture").option("level", ...).load(files, patterns or directories)`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kafka_capture"

    def schema(self) -> StructType:
        """The columns of the chosen level, the same as `kwire.read_capture` gives, or those of option `columns`."""
        whole = arrow.schema(options.level(self.options))
        return from_arrow_schema(pa.schema([whole.field(name) for name in options.columns(self.options)]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the files named.

        Spark passes `schema` by keyword: the one of `schema()`, or the columns that the user chose from it.
        """
        files = paths.expand(paths.named_in(self.options))
        kind = PushingReader if options.pushes_filters(self.options) else CaptureReader
        return kind(files, options.plan(self.options), wanted(self.options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name.
        """A reader of the files that come to a folder, and of the connections that go on in them."""
        return CaptureStreamReader(self.options, wanted(self.options, schema, is_stream=True))


class CaptureReader(DataSourceReader):
    """Reads the chosen level of captures; it travels to the workers, so it holds plain values only."""

    def __init__(self, files: list[str], asked: PlanOptions, wanted: Wanted) -> None:
        """The files one by one, how they become tasks, and what the query asks for."""
        self.files = files
        self.asked = asked
        self.wanted = wanted

    def partitions(self) -> list[Task]:
        """The tasks. Large files are indexed for this, on the driver, unless their sidecars are there."""
        prospect = self.wanted.prospect
        files = of_interest(self.files, self.asked, prospect)
        if self.asked.names == "set" and self.wanted.needs_names:
            topics = names_told(files, self.wanted.options, self.asked)
            self.wanted.options = replace(self.wanted.options, topics=topics)
        may_cut = self.wanted.level not in LEVELS and self.asked.names == "set"
        return tasks(files, self.asked, prospect, may_cut=may_cut)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, batch by batch, without those that a pushed filter drops."""
        assert isinstance(partition, Task)
        return read(partition, self.wanted, self.asked.index)


class PushingReader(CaptureReader):
    """Takes the filters of a query as well.

    Spark 4.3 keeps the reader that took them with what was loaded: another query of the same `load()` would get the
    rows of the first one. So this is for those who ask for it.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name.
        """Keep the filters that mean the same here as in SQL; the others go back to Spark."""
        return self.wanted.take(filters)
