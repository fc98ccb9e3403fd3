"""Reading of captures that only Spark can access (`s3a:`, `hdfs:`, files that executors do not share).

Each file is one value of a row, so it must fit in the memory of an executor; `file_listing` refuses larger ones. With
option `across_files`, packets are grouped by the two hosts that exchange them, through the shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kwire.capture.model import CaptureError
from kwire.capture.reader import read_batches, read_series_rows
from kwire.capture.rows.columns import arrow_schema
from kwire.capture.series.open_series import open_series
from kwire.capture.tls.key_log import KeyLog
from kwire.spark.source import options as option_parsers
from kwire.spark.source.file_listing import list_captures
from kwire.spark.source.packet_columns import (
    PACKET_SCHEMA,
    header_batches,
    issues_of_rows,
    packet_batches,
    sort_packets,
)
from kwire.spark.source.partition_reader import rows_to_batches
from kwire.spark.source.scan_request import ScanRequest

if TYPE_CHECKING:
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import Row


def read_remote(spark: SparkSession, names: str | Iterable[str], option_texts: Mapping[str, str]) -> DataFrame:
    """The rows of captures that Spark reads; `option_texts` are options of `kafka_capture`, including `across_files`.

    Topic names come from the same file (with `across_files`: from connections between the same hosts) and the options.
    Raises: ValueError for an unknown option and for a file that is too large; FileNotFoundError for no file.
    """
    level = option_parsers.parse_level(option_texts)
    columns = option_parsers.parse_columns(option_texts)
    schema = arrow_schema(level)
    if option_parsers.parse_push_filters(option_texts):
        raise ValueError("option push_filters: filters are not pushed down here; use option filter instead")
    reader_options = option_parsers.parse_reader_options(option_texts)
    filter_text = option_parsers.parse_filter(option_texts)
    scan_request = ScanRequest(level, reader_options, columns, filter_text=filter_text)
    result = from_arrow_schema(pa.schema([schema.field(name) for name in columns]))
    files = list_captures(spark, [names] if isinstance(names, str) else list(names))
    if not option_parsers.parse_plan_options(option_texts).across_files:
        return files.mapInArrow(_whole_file_mapper(scan_request), result)
    apart = files.mapInArrow(_packet_mapper(scan_request), from_arrow_schema(PACKET_SCHEMA))
    return apart.groupBy("hosts").applyInArrow(_host_group_mapper(scan_request, result), result)


def _whole_file_mapper(scan_request: ScanRequest) -> Any:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, content in _file_contents(batches):
            options = replace(scan_request.reader_options, name=path)
            try:
                yield from scan_request.filter_batches(
                    read_batches(content, scan_request.level, options, columns=scan_request.needed_columns)
                )
            except CaptureError as error:
                raise CaptureError(f"{path}: {error}") from error

    return rows


def _packet_mapper(scan_request: ScanRequest) -> Any:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, content in _file_contents(batches):
            yield from packet_batches(path, content, scan_request.options)

    return rows


def _host_group_mapper(scan_request: ScanRequest, result: StructType) -> Any:
    def rows(group: pa.Table) -> pa.Table:
        batches = list(scan_request.filter_batches(rows_to_batches(group_rows(group, scan_request), scan_request)))
        schema = arrow_schema(scan_request.level)
        return pa.Table.from_batches(batches, pa.schema([schema.field(name) for name in result.names]))

    return rows


def group_rows(group: pa.Table, scan_request: ScanRequest) -> Iterator[Row]:
    """The rows of the connections between two hosts, or the issues that belong to no connection."""
    options = scan_request.reader_options
    series = open_series(scan_request.level, options, KeyLog(options.tls_keylog))
    files, ordered = sort_packets(group)
    series.files += files
    issues = issues_of_rows(ordered)
    found: Iterable[Outcome] = issues or chain.from_iterable(map(series.read_headers, header_batches(ordered)))
    return read_series_rows(series, files[0][1], chain(found, series.close()), scan_request.level, options)


def _file_contents(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["path"], row["content"]
