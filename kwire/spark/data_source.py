"""The Spark data source `kafka_capture`: Arrow batches of a level of rows, filters applied before rows leave."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kwire.capture.rows.columns import arrow_schema
from kwire.capture.rows.levels import TRAFFIC_LEVELS
from kwire.spark import paths
from kwire.spark.indexing.local_indexing import load_topic_names
from kwire.spark.source import options
from kwire.spark.source.options import PlanOptions
from kwire.spark.source.partition_reader import read_task
from kwire.spark.source.plan import ScanTask, plan_tasks, select_files
from kwire.spark.source.pushdown import HAS_FILTERS
from kwire.spark.source.scan_request import ScanRequest, build_scan_request
from kwire.spark.streaming.stream_reader import HAS_LIMITS, CaptureStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class CaptureDataSource(DataSource):
    """`spark.read.format("kafka_capture").option("level", ...).load(files, patterns or directories)`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kafka_capture"

    def schema(self) -> StructType:
        """The columns of the level, as `kwire.read_capture` returns them, or those of option `columns`."""
        level_schema = arrow_schema(options.parse_level(self.options))
        return from_arrow_schema(pa.schema([level_schema.field(name) for name in options.parse_columns(self.options)]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the named files.

        Spark passes `schema` by keyword: the one of `schema()`, or the columns that the user chose from it.
        """
        files = paths.expand_names(paths.load_names(self.options))
        kind = PushingReader if options.parse_push_filters(self.options) else CaptureReader
        if kind is PushingReader and not HAS_FILTERS:
            raise ValueError(f"option push_filters needs Spark 4.1 or newer; this is {pyspark.__version__}")
        return kind(files, options.parse_plan_options(self.options), build_scan_request(self.options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name.
        """A reader of new files in a folder, which follows connections from file to file."""
        scan_request = build_scan_request(self.options, schema, is_stream=True)
        if HAS_LIMITS:
            from kwire.spark.streaming.limited_reader import LimitedStreamReader

            return LimitedStreamReader(self.options, scan_request)
        reader = CaptureStreamReader(self.options, scan_request)
        if reader.stream_options.files_max is not None or reader.stream_options.bytes_max is not None:
            raise ValueError(
                f"maxFilesPerTrigger and maxBytesPerTrigger need Spark 4.2 or newer; this is {pyspark.__version__}"
            )
        return reader


class CaptureReader(DataSourceReader):
    """Reads the chosen level of captures; it is serialized to the workers, so it holds plain values only."""

    def __init__(self, files: list[str], plan_options: PlanOptions, scan_request: ScanRequest) -> None:
        """Read these files, divided into tasks by `plan_options`."""
        self.files = files
        self.plan_options = plan_options
        self.scan_request = scan_request

    def partitions(self) -> list[ScanTask]:
        """The tasks of the query. Large files without a valid sidecar are indexed for this, on the driver."""
        pruning_filter = self.scan_request.pruning_filter
        files = select_files(self.files, self.plan_options, pruning_filter)
        if self.plan_options.names == "set" and self.scan_request.needs_topic_names:
            topics = load_topic_names(self._index_folders(files), self.scan_request.options)
            self.scan_request.options = replace(self.scan_request.options, topics=topics)
        may_split = self.scan_request.level not in TRAFFIC_LEVELS and self.plan_options.names == "set"
        # Spark does not accept an empty list of partitions.
        return plan_tasks(files, self.plan_options, pruning_filter, may_split=may_split) or [ScanTask([])]

    def _index_folders(self, files: list[str]) -> list[tuple[str, str | None]]:
        """Each file, and where its index is stored: only files that are split have one."""
        plan = self.plan_options
        return [(file, plan.index if plan.splits_file(os.stat(file).st_size) else None) for file in files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, batch by batch, without those that a pushed filter drops."""
        assert isinstance(partition, ScanTask)
        return read_task(partition, self.scan_request, self.plan_options.index)


class PushingReader(CaptureReader):
    """Accepts the filters of a query as well.

    Spark 4.3 reuses the reader that accepted filters: a second query on the same `load()` would get the rows of the
    first one. So this reader is used only with option `push_filters`.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name.
        """Accept the filters that mean the same here as in SQL; return the others to Spark."""
        return self.scan_request.accept_filters(filters)
