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

from kwire.capture.model import CaptureError, CaptureIssue, Segment
from kwire.capture.reader import read_batches, read_series_rows
from kwire.capture.rows.columns import arrow_schema
from kwire.capture.segment_scan import scan_segments
from kwire.capture.series.checkpoint import PipelineState
from kwire.capture.tls.key_log import KeyLog
from kwire.spark.source import options as option_parsers
from kwire.spark.source.file_listing import list_captures
from kwire.spark.source.partition_reader import rows_to_batches
from kwire.spark.source.scan_request import ScanRequest

if TYPE_CHECKING:
    from kwire.capture.model import Row

_PACKET_COLUMNS = {
    pa.string(): ("file", "link", "trouble", "detail"),
    pa.binary(): ("hosts", "source", "target", "payload"),
    pa.int32(): ("source_port", "target_port", "flags", "window"),
    pa.int64(): ("first_ts", "ts", "seq", "ack", "missing", "packet"),
}
_PACKETS = pa.schema([(name, kind) for kind, names in _PACKET_COLUMNS.items() for name in names])
# Fields of a segment that are columns of the same name.
_SEGMENT_COLUMNS = ("link", "seq", "ack", "flags", "payload", "missing", "window")
# Packets of one record batch on the way to the shuffle.
_PACKETS_PER_BATCH = 2_000


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
    apart = files.mapInArrow(_packet_mapper(scan_request), from_arrow_schema(_PACKETS))
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
            packet_rows: list[dict[str, object]] = []
            first_ts = None
            keys = KeyLog(scan_request.options.tls_keylog)
            for segment in scan_segments(content, scan_request.options, keys):
                first_ts = segment.ts if first_ts is None else first_ts
                packet_rows.append(_packet_row(segment, path, first_ts))
                if len(packet_rows) == _PACKETS_PER_BATCH:
                    yield pa.RecordBatch.from_pylist(packet_rows, _PACKETS)
                    packet_rows = []
            yield pa.RecordBatch.from_pylist(packet_rows, _PACKETS)

    return rows


def _packet_row(segment: Segment | CaptureIssue, path: str, first_ts: int) -> dict[str, object]:
    common_columns = {"file": path, "first_ts": first_ts, "ts": segment.ts, "packet": segment.packet}
    if isinstance(segment, CaptureIssue):
        return {**common_columns, "hosts": b"", "trouble": segment.kind, "detail": segment.detail}
    (source, source_port), (target, target_port) = segment.source, segment.target
    ends = {"source": source, "source_port": source_port, "target": target, "target_port": target_port}
    fields = {name: getattr(segment, name) for name in _SEGMENT_COLUMNS}
    return {**common_columns, "hosts": b"".join(sorted((source, target))), **ends, **fields}


def _host_group_mapper(scan_request: ScanRequest, result: StructType) -> Any:
    def rows(group: pa.Table) -> pa.Table:
        batches = list(scan_request.filter_batches(rows_to_batches(_group_rows(group, scan_request), scan_request)))
        schema = arrow_schema(scan_request.level)
        return pa.Table.from_batches(batches, pa.schema([schema.field(name) for name in result.names]))

    return rows


def _group_rows(group: pa.Table, scan_request: ScanRequest) -> Iterator[Row]:
    """The rows of the connections between two hosts, or the issues that belong to no connection."""
    options = scan_request.reader_options
    pipeline = PipelineState(scan_request.level, options, KeyLog(options.tls_keylog))
    ordered = group.sort_by([("first_ts", "ascending"), ("file", "ascending"), ("packet", "ascending")])
    files = ordered.group_by(["first_ts", "file"], use_threads=False).aggregate([]).to_pylist()
    pipeline.files += [(file["first_ts"], file["file"]) for file in files]
    outcomes = chain(pipeline.outcomes(_group_segments(ordered)), pipeline.close())
    return read_series_rows(pipeline, files[0]["file"], outcomes, scan_request.level, options)


def _group_segments(ordered: pa.Table) -> Iterator[Segment | CaptureIssue]:
    for batch in ordered.to_batches():
        for row in batch.to_pylist():
            if row["trouble"] is not None:
                yield CaptureIssue(row["trouble"], row["detail"], row["packet"], row["ts"])
                continue
            source, target = (row["source"], row["source_port"]), (row["target"], row["target_port"])
            fields = {name: row[name] for name in ("ts", "packet", *_SEGMENT_COLUMNS)}
            yield Segment(source=source, target=target, **fields)


def _file_contents(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["path"], row["content"]
