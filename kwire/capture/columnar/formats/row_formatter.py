"""Format exchanges in columns as rows: dicts of the values of some columns, as row builders make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.capture.columnar import json_columns, session_columns
from kwire.capture.columnar.formats.exchange_rows import TIME_COLUMNS
from kwire.capture.columnar.header_columns import NO_TIME
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.rows.reorder_buffer import PrebuiltRow
from kwire.capture.rows.session_values import session_value

if TYPE_CHECKING:
    from collections.abc import Collection

    from kwire.capture.columnar.formats.exchange_rows import ExchangeRows
    from kwire.capture.options import Options


class RowFormatter:
    """Formats complete exchanges as rows of these columns."""

    formats_damaged = False

    def __init__(self, columns: Collection[str], options: Options, file: str) -> None:
        """Args: options: with the names of all topics. file: the value of the column of that name."""
        self.columns = columns
        self._options = options
        self._file = file
        self._names = TopicNames(options.topics)

    def format_rows(self, rows: ExchangeRows) -> list[PrebuiltRow]:
        """The rows, each with the time and the stream offset of its request."""
        names, frame = list(self.columns), rows.exchanges.request.frame
        columns = [self._column_values(name, rows) for name in names]
        keyed = zip(frame.ts.tolist(), frame.offset.tolist(), *columns, strict=True)
        return [PrebuiltRow(ts, offset, dict(zip(names, row, strict=True))) for ts, offset, *row in keyed]

    def _column_values(self, name: str, rows: ExchangeRows) -> list[Any]:
        if name in json_columns.COLUMNS:
            return rows.json_texts(name, self._options)
        if name in session_columns.COLUMNS:
            return [session_value(name, session, self._names) for session in rows.sessions]
        if name == "issues":
            return [[] for _ in rows.sessions]
        if name == "file":
            # Arrow cannot represent a file name that is not valid UTF-8.
            return [self._file] * len(rows.sessions)
        if name in TIME_COLUMNS:
            return [None if ts == NO_TIME else ts for ts in rows.times(name).tolist()]
        values: list[Any] = rows.build_column(name).to_pylist()
        return values
