"""Arrow record batches made of rows, with all or some columns of a level."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kwire.capture.optional_dependencies import require_pyarrow
from kwire.capture.rows.column import ColumnKind
from kwire.capture.rows.columns import arrow_schema, level_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from kwire.capture.model import Row

ROWS_PER_BATCH = 4096


def selected_columns(level: str, columns: Sequence[str] | None) -> list[str]:
    """The names of the selected columns of a level; all of them if `columns` is None.

    Raises: ValueError for an unknown column, and for an empty selection: rows without columns cannot be counted.
    """
    known = [column.name for column in level_columns(level)]
    if columns is not None and not len(columns):
        raise ValueError(f"no column is chosen; level {level} has {', '.join(known)}")
    for name in columns or ():
        if name not in known:
            raise ValueError(f"level {level} has no column {name!r}; it has {', '.join(known)}")
    return known if columns is None else list(columns)


def to_record_batches(rows: Iterable[Row], level: str, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Record batches of at most `ROWS_PER_BATCH` rows, in the order of the rows."""
    pending: list[Row] = []
    for row in rows:
        pending.append(row)
        if len(pending) == ROWS_PER_BATCH:
            yield make_record_batch(pending, level, names)
            pending = []
    if pending:
        yield make_record_batch(pending, level, names)


def make_record_batch(rows: Sequence[Row], level: str, names: Sequence[str] | None = None) -> pa.RecordBatch:
    """One record batch of the rows, with the named columns."""
    pa = require_pyarrow()
    layout = arrow_schema(level)
    kinds = {column.name: column.kind for column in level_columns(level)}
    fields = [layout.field(name) for name in selected_columns(level, names)]
    arrays = [pa.array(_column_values(rows, field.name, kinds[field.name]), type=field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _column_values(rows: Sequence[Row], name: str, kind: ColumnKind) -> list[object]:
    """The values of a column. Times are nanoseconds in rows and microseconds in Arrow, rounded down."""
    if kind is ColumnKind.TIME:
        times = [cast("int | None", row[name]) for row in rows]
        return [None if ts is None else ts // 1000 for ts in times]
    return [row[name] for row in rows]
