"""Readers of the data source `kafka_capture` without Spark, and their rows in a form that can be compared."""

from __future__ import annotations

import json
import pickle
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from kwire.spark.data_source import CaptureDataSource, CaptureReader
from kwire.spark.streaming.stream_reader import CaptureStreamReader

Row = dict[str, Any]

# Columns that depend on the file of a row: packets are counted by file.
FILE_COLUMNS = {"file", "req_packet", "resp_packet", "number", "first_packet", "last_packet"}


def open_reader(*files: Path, **given: str) -> CaptureReader:
    """A reader of these files with these options."""
    source = CaptureDataSource({"paths": json.dumps(list(map(str, files))), **given})
    reader = source.reader(source.schema())
    assert isinstance(reader, CaptureReader)
    return reader


def read_all(reader: CaptureReader) -> list[Row]:
    """The rows of all tasks."""
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def read_tasks(reader: CaptureReader | CaptureStreamReader, tasks: Iterable[Any]) -> list[Row]:
    """The rows of these tasks; reader and tasks are serialized as for worker processes."""
    copies = (pickle.loads(pickle.dumps((reader, task))) for task in tasks)
    return [row for copied, task in copies for batch in copied.read(task) for row in batch.to_pylist()]


def comparable(rows: Iterable[Row], without: Collection[str] = ()) -> list[str]:
    """Rows as sorted texts, without these columns."""
    return sorted(str({name: value for name, value in row.items() if name not in without}) for row in rows)
