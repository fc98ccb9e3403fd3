"""Jobs of the processes that decode captures into Parquet files: names, rows of a level, share partitions.

`python -m kwire.report.level_jobs` reads jobs from stdin and writes an `Answer` to each to stdout, as lines of JSON.
It imports neither Spark's session nor its JVM, so a process starts in half a second.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Union

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from kwire.capture.model import CaptureError
from kwire.capture.reader import collect_topic_names, open_index, read_batches, read_flow_batches
from kwire.capture.rows.columns import arrow_schema
from kwire.spark.source import options as option_parsers
from kwire.spark.source.scan_request import ScanRequest, build_scan_request

# At its lowest level it costs little more than LZ4, of which Spark's Parquet reader fails to decompress some pages.
_COMPRESSION, _COMPRESSION_LEVEL = "zstd", 1


class NamesJob(msgspec.Struct, frozen=True, tag="names"):
    """Index a capture, and find the topic names in it. index: the folder of indexes. options: of `kafka_capture`."""

    file: str
    index: str
    options: dict[str, str]


class LevelJob(msgspec.Struct, frozen=True, tag="level"):
    """Write the rows of a level of a capture to a Parquet file. topics: names by id, of all captures."""

    file: str
    index: str
    options: dict[str, str]
    topics: dict[str, str]
    output: str


class TimelineJob(msgspec.Struct, frozen=True, tag="timeline"):
    """Write the transitions of all share partitions. messages, flows: Parquet files of these levels."""

    messages: list[str]
    flows: list[str]
    edition: str
    output: str


class DeliveriesJob(msgspec.Struct, frozen=True, tag="deliveries"):
    """Write the tables of `local_deliveries`. acquired, acks: Parquet files of these levels. outputs: by table."""

    acquired: list[str]
    acks: list[str]
    outputs: dict[str, str]


Job = Union[NamesJob, LevelJob, TimelineJob, DeliveriesJob]  # noqa: UP007  msgspec evaluates it.


class Answer(msgspec.Struct, frozen=True):
    """The result of a job: topic names by id of a `NamesJob`, else how many rows were written; or the error."""

    topics: dict[str, str] = {}
    rows: int = 0
    error: str | None = None


def run_job(job: Job) -> Answer:
    """Do one job. A capture that cannot be read is an answer with an error that names it."""
    try:
        if isinstance(job, NamesJob):
            return Answer(topics=_find_names(job))
        if isinstance(job, LevelJob):
            return Answer(rows=_write_level(job))
        if isinstance(job, DeliveriesJob):
            return Answer(rows=_write_deliveries(job))
        return Answer(rows=_write_timeline(job))
    except CaptureError as error:
        return Answer(error=str(error))


def level_request(texts: dict[str, str], topics: dict[str, str]) -> ScanRequest:
    """The scan request of a level. texts: options of `kafka_capture`."""
    level_schema = from_arrow_schema(request_schema(texts))
    request = build_scan_request(texts, level_schema)
    request.options = replace(request.options, topics={**topics, **request.options.topics})
    return request


def request_schema(texts: dict[str, str]) -> pa.Schema:
    """The columns that are read with these options of `kafka_capture`."""
    level_schema = arrow_schema(option_parsers.parse_level(texts))
    return pa.schema([level_schema.field(name) for name in option_parsers.parse_columns(texts)])


def _find_names(job: NamesJob) -> dict[str, str]:
    return collect_topic_names([job.file], option_parsers.parse_reader_options(job.options), cache=job.index)


def _write_level(job: LevelJob) -> int:
    request = level_request(job.options, job.topics)
    return _write_batches(_read_level(job, request), request_schema(job.options), job.output)


def _read_level(job: LevelJob, request: ScanRequest) -> Iterator[pa.RecordBatch]:
    try:
        level, options, columns = request.level, request.reader_options, request.needed_columns
        index = open_index(job.file, job.index, unpacked_size_max=options.unpacked_size_max)
        if index is None:
            batches = read_batches(job.file, level, options, columns=columns)
        else:
            batches = read_flow_batches([index], None, level, options, columns=columns)
        yield from request.filter_batches(batches)
    except CaptureError as error:
        raise CaptureError(f"{job.file}: {error}") from error


def _write_timeline(job: TimelineJob) -> int:
    # Its module imports Spark's functions, which the other jobs do not need.
    from kwire.spark.analyses.share_timeline import local_timeline

    messages, flows = pq.read_table(job.messages), pq.read_table(job.flows)
    # The events stay in memory until the end and have no cycles: looking for some takes a fifth of the time.
    gc.disable()
    try:
        transitions = local_timeline(messages, flows, edition=job.edition)
    finally:
        gc.enable()
    return _write_batches(transitions.to_batches(), transitions.schema, job.output)


def _write_deliveries(job: DeliveriesJob) -> int:
    from kwire.report.local_deliveries import compute_deliveries

    tables = compute_deliveries(pq.read_table(job.acquired), pq.read_table(job.acks))._asdict()
    return sum(_write_batches(tables[name].to_batches(), tables[name].schema, job.outputs[name]) for name in tables)


def _write_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, output: str) -> int:
    rows = 0
    with pq.ParquetWriter(output, schema, compression=_COMPRESSION, compression_level=_COMPRESSION_LEVEL) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def main() -> None:
    """Answer the jobs of stdin until it ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    # Whatever a library prints must not become an answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin.buffer:
        answers.write(msgspec.json.encode(run_job(msgspec.json.decode(line, type=Job))) + b"\n")


if __name__ == "__main__":
    main()
