"""Stream readers of captures without Spark: their batches, task by task, as Spark runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from kwire.spark.data_source import CaptureDataSource
from kwire.spark.streaming.limited_reader import LimitedStreamReader
from tests.support.spark.capture_readers import FILE_COLUMNS, Row, comparable, read_tasks

ALL = ReadAllAvailable()
# How many rows at most stay open at the end of small_share.pcap, by level.
LEFT_OPEN = {"messages": 4, "partitions": 4, "flows": 10, "packets": 40}


def open_stream(folder: Path, **given: str) -> LimitedStreamReader:
    """A reader of the captures in folder `in`, with its state in folder `state`."""
    source = CaptureDataSource({"path": str(folder / "in"), "state": str(folder / "state"), **given})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, LimitedStreamReader)
    return reader


def read_batch(reader: LimitedStreamReader, start: dict[str, int], end: dict[str, int]) -> list[Row]:
    """The rows of one batch; reader and tasks are serialized as for worker processes."""
    return read_tasks(reader, reader.partitions(start, end))


def read_batches(reader: LimitedStreamReader, start: int = 0, limit: ReadLimit = ALL) -> Iterator[list[Row]]:
    """The rows of each batch until all files are read."""
    offset = {"batch": start}
    while (end := reader.latestOffset(offset, limit)) != offset:
        yield read_batch(reader, offset, end)
        reader.commit(end)
        offset = end


def comparable_rows(rows: list[Row]) -> list[str]:
    """Rows as sorted texts, without the columns that depend on the file."""
    return comparable(rows, FILE_COLUMNS)
