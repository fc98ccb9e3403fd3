"""Format exchanges in columns as record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kwire.capture.columnar import json_columns, session_columns
from kwire.capture.columnar.batch_merge import RowBatch
from kwire.capture.rows.columns import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kwire.capture.columnar.formats.exchange_rows import ExchangeRows
    from kwire.capture.options import Options


class ArrowFormatter:
    """Formats exchanges as a record batch; columns that the options leave empty are null."""

    def __init__(self, columns: Sequence[str], options: Options) -> None:
        self.columns: Collection[str] = columns
        self.has_bodies = options.bodies and not json_columns.COLUMNS.isdisjoint(columns)
        self.formats_damaged = not self.has_bodies
        self._options = options
        self._empty = {
            *(() if options.bodies else json_columns.COLUMNS),
            *(() if options.sessions else session_columns.COLUMNS),
        }
        self._schema = pa.schema([arrow_schema("messages").field(name) for name in columns])

    def format_rows(self, rows: ExchangeRows) -> RowBatch:
        """The columns of these exchanges."""
        frame = rows.exchanges.request.frame
        arrays = [self._build_array(field, rows) for field in self._schema]
        return RowBatch(pa.RecordBatch.from_arrays(arrays, schema=self._schema), frame.ts, frame.offset)

    def _build_array(self, field: pa.Field, rows: ExchangeRows) -> pa.Array:
        if field.name in self._empty:
            return pa.nulls(len(rows.exchanges), field.type)
        if field.name in json_columns.COLUMNS:
            return pa.array(rows.json_texts(field.name, self._options), type=field.type)
        return rows.build_column(field.name)
