"""Rows as Arrow: record batches of one file, the table of many. Spark and `kwire.read_capture` stand on this."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kwire.capture.extras import require_pyarrow
from kwire.capture.schemas import Column, Kind, arrow_schema, columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from kwire.capture.options import Options
    from kwire.capture.source import Source

ROWS_PER_BATCH = 4096

schema = arrow_schema


def batches(path: Source, level: str = "messages", options: Options | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of one capture as record batches of `schema(level)`, read as a stream."""
    from kwire.capture.pipeline import rows

    pending: list[dict[str, object]] = []
    for row in rows(path, level, options):
        pending.append(row)
        if len(pending) == ROWS_PER_BATCH:
            yield record_batch(pending, level)
            pending = []
    if pending:
        yield record_batch(pending, level)


def record_batch(rows: Sequence[dict[str, object]], level: str) -> pa.RecordBatch:
    """One record batch of the given rows."""
    pa = require_pyarrow()
    layout = arrow_schema(level)
    arrays = [
        pa.array(_values(rows, column), type=field.type) for column, field in zip(columns(level), layout, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)


def table(paths: Iterable[Source], level: str = "messages", options: Options | None = None) -> pa.Table:
    """The rows of all the captures in one table."""
    pa = require_pyarrow()
    parts = [batch for path in paths for batch in batches(path, level, options)]
    return pa.Table.from_batches(parts, schema=arrow_schema(level))


def _values(rows: Sequence[dict[str, object]], column: Column) -> list[object]:
    """A column's values; times come in nanoseconds and leave in microseconds, rounded down."""
    name = column.name
    if column.kind is Kind.TIME:
        times = [cast("int | None", row[name]) for row in rows]
        return [None if ts is None else ts // 1000 for ts in times]
    return [row[name] for row in rows]
