"""Captures that only Spark can reach (`s3a:`, `hdfs:`, files executors do not see): their bytes go through Spark.

Each file is one value of a row, so it has to fit in the memory of an executor; `listing` says which are too large.
Where connections go on from file to file, packets are grouped by the hosts that they run between, through the shuffle.
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

from kwire.capture import arrow
from kwire.capture.carried import Carried
from kwire.capture.ip import segments
from kwire.capture.keylog import KeyLog
from kwire.capture.packets import packets
from kwire.capture.values import CaptureError, Segment, Trouble
from kwire.spark import options as texts
from kwire.spark.listing import captures
from kwire.spark.reading import in_batches, named_rows
from kwire.spark.wanted import Wanted

if TYPE_CHECKING:
    from kwire.capture.rows import Row

_PACKETS = pa.schema(
    [
        ("hosts", pa.binary()),
        ("file", pa.string()),
        ("first_ts", pa.int64()),
        ("ts", pa.int64()),
        ("link", pa.string()),
        ("source", pa.binary()),
        ("source_port", pa.int32()),
        ("target", pa.binary()),
        ("target_port", pa.int32()),
        ("seq", pa.int64()),
        ("ack", pa.int64()),
        ("flags", pa.int32()),
        ("payload", pa.binary()),
        ("missing", pa.int64()),
        ("packet", pa.int64()),
        ("window", pa.int32()),
        ("trouble", pa.string()),
        ("detail", pa.string()),
    ]
)
# Packets of one record batch on the way to the shuffle.
_PACKETS_PER_BATCH = 2_000


def read_remote(spark: SparkSession, names: str | Iterable[str], given: Mapping[str, str]) -> DataFrame:
    """The rows of captures that Spark reads; `given` are options of `kafka_capture`, `across_files` among them.

    Names of topics are known as far as the file tells them, or the connections between the same hosts, or the options.
    Raises: ValueError for an option that is none, and for a file that is too large; FileNotFoundError for no file.
    """
    schema = arrow.schema(texts.level(given))
    columns = texts.columns(given)
    if texts.pushes_filters(given):
        raise ValueError("option push_filters: nothing is taken over here; give the condition as option filter")
    wanted = Wanted(texts.level(given), texts.parse(given), columns, where=texts.condition(given))
    result = from_arrow_schema(pa.schema([schema.field(name) for name in columns]))
    files = captures(spark, [names] if isinstance(names, str) else list(names))
    if not texts.plan(given).across_files:
        return files.mapInArrow(_each_alone(wanted), result)
    apart = files.mapInArrow(_packets(wanted), from_arrow_schema(_PACKETS))
    return apart.groupBy("hosts").applyInArrow(_by_hosts(wanted, result), result)


def _each_alone(wanted: Wanted) -> Any:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, content in _files(batches):
            options = replace(wanted.reading, name=path)
            try:
                yield from wanted.kept(arrow.batches(content, wanted.level, options, columns=wanted.needed))
            except CaptureError as error:
                raise CaptureError(f"{path}: {error}") from error

    return rows


def _packets(wanted: Wanted) -> Any:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path, content in _files(batches):
            held: list[dict[str, object]] = []
            first_ts = None
            for each in segments(packets(content, KeyLog(wanted.options.tls_keylog))):
                first_ts = each.ts if first_ts is None else first_ts
                held.append(_row(each, path, first_ts))
                if len(held) == _PACKETS_PER_BATCH:
                    yield pa.RecordBatch.from_pylist(held, _PACKETS)
                    held = []
            yield pa.RecordBatch.from_pylist(held, _PACKETS)

    return rows


def _row(each: Segment | Trouble, path: str, first_ts: int) -> dict[str, object]:
    place = {"file": path, "first_ts": first_ts, "ts": each.ts, "packet": each.packet}
    if isinstance(each, Trouble):
        return {**place, "hosts": b"", "trouble": each.kind, "detail": each.detail}
    (source, source_port), (target, target_port) = each.source, each.target
    return {
        **place,
        "hosts": b"".join(sorted((source, target))),
        "link": each.link,
        "source": source,
        "source_port": source_port,
        "target": target,
        "target_port": target_port,
        "seq": each.seq,
        "ack": each.ack,
        "flags": each.flags,
        "payload": each.payload,
        "missing": each.missing,
        "window": each.window,
    }


def _by_hosts(wanted: Wanted, result: StructType) -> Any:
    def rows(group: pa.Table) -> pa.Table:
        found = list(wanted.kept(in_batches(_rows(group, wanted), wanted)))
        schema = arrow.schema(wanted.level)
        return pa.Table.from_batches(found, pa.schema([schema.field(name) for name in result.names]))

    return rows


def _rows(group: pa.Table, wanted: Wanted) -> Iterator[Row]:
    """The rows of the connections between two hosts, or of what belongs to no connection."""
    options = wanted.reading
    carried = Carried(wanted.level, options, KeyLog(options.tls_keylog))
    ordered = group.sort_by([("first_ts", "ascending"), ("file", "ascending"), ("packet", "ascending")])
    files = ordered.group_by(["first_ts", "file"], use_threads=False).aggregate([]).to_pylist()
    carried.files += [(file["first_ts"], file["file"]) for file in files]
    found = chain(carried.outcomes(_segments(ordered)), carried.close())
    return named_rows(wanted.level, options, carried, files[0]["file"], found)


def _segments(ordered: pa.Table) -> Iterator[Segment | Trouble]:
    for batch in ordered.to_batches():
        for row in batch.to_pylist():
            if row["trouble"] is not None:
                yield Trouble(row["trouble"], row["detail"], row["packet"], row["ts"])
                continue
            yield Segment(
                row["ts"],
                row["link"],
                (row["source"], row["source_port"]),
                (row["target"], row["target_port"]),
                row["seq"],
                row["ack"],
                row["flags"],
                row["payload"],
                row["missing"],
                row["packet"],
                row["window"],
            )


def _files(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["path"], row["content"]
