"""Exchanges in columns, which formatters make the output of: rows, lines or record batches.

The reader decides which exchanges are formatted together; a formatter is a function of them and knows no reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from kwire.capture.columnar import json_columns
from kwire.capture.columnar.header_columns import NO_TIME
from kwire.capture.rows.column import ColumnKind
from kwire.capture.rows.columns import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa

    from kwire.capture.columnar.damaged_rows import DamagedRows
    from kwire.capture.columnar.span_data import SpanData
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.fetch_sessions import FetchSession
    from kwire.capture.options import Options

Formatted_co = TypeVar("Formatted_co", covariant=True)

TIME_COLUMNS = frozenset(column.name for column in MESSAGES if column.kind is ColumnKind.TIME)


class ExchangeRows(NamedTuple):
    """Exchanges with valid bodies and without issues, or incomplete ones.

    span: has their frames. sessions: of each exchange. build_column: builds any column that depends neither on sessions
    nor on whole bodies. damaged: the exchanges, if they are incomplete.
    """

    exchanges: ExchangeColumns
    span: SpanData
    sessions: list[FetchSession | None]
    build_column: Callable[[str], pa.Array]
    damaged: DamagedRows | None = None

    def json_texts(self, name: str, options: Options, *, is_escaped: bool = False) -> list[str | None]:
        """One of the columns of bodies as JSON. Args: is_escaped: as for `json_columns.json_texts`."""
        if self.damaged is not None:
            return self.damaged.json_texts(name, options, is_escaped=is_escaped)
        return json_columns.json_texts(name, self.span, self.exchanges, options, is_escaped=is_escaped)

    def times(self, name: str) -> Ints:
        """One of `TIME_COLUMNS` in nanoseconds, `NO_TIME` where the frame is missing."""
        side, _, when = name.partition("_")
        frame = self.exchanges.request.frame if side == "req" else self.exchanges.response.frame
        return np.where(frame.size < 0, NO_TIME, getattr(frame, when))


class Formatter(Protocol[Formatted_co]):
    """Formats many exchanges at once; implementations are rows, JSON lines, lines of the table, and record batches.

    columns: those of `messages` that it builds. formats_damaged: whether it can format incomplete exchanges.
    """

    columns: Collection[str]
    formats_damaged: bool

    def format_rows(self, rows: ExchangeRows) -> Formatted_co:
        """The output of these exchanges, one item for each, in their order."""
