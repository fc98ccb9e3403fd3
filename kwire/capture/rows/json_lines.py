"""Formats rows as JSON lines that are safe on any terminal, and timestamps as RFC 3339 text."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kwire.capture.rows.column import ColumnKind
from kwire.capture.rows.columns import level_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.capture.model import Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_timestamp(ts: int) -> str:
    """A time in nanoseconds as RFC 3339 text with microseconds, or with nanoseconds if they are not 0."""
    seconds, fraction = divmod(ts, 1_000_000_000)
    digits = f"{fraction:09d}"
    return f"{format_second(seconds)}.{digits if fraction % 1000 else digits[:6]}Z"


@lru_cache(maxsize=1024)
def format_second(seconds: int) -> str:
    """A time in seconds as RFC 3339 text without its zone: 19 characters."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def format_json_line(row: Row, level: str, names: Sequence[str] = ()) -> str:
    """The row as one line of JSON, with the columns of the level in their order, or the named ones in theirs.

    The line is ASCII: control characters are escaped.
    """
    values = {name: row[name] for name in names or [column.name for column in level_columns(level)]}
    for name, kind in _converted_columns(level):
        value = values.get(name)
        if kind is ColumnKind.TIME and isinstance(value, int):
            values[name] = format_timestamp(value)
        elif kind is ColumnKind.BINARY and isinstance(value, bytes):
            values[name] = b64encode(value).decode()
    # DEL is the only control character that JSON does not escape.
    return _encode(values).replace("\x7f", "\\u007f")


_encode = json.JSONEncoder(separators=(",", ":")).encode


@cache
def _converted_columns(level: str) -> list[tuple[str, ColumnKind]]:
    """The columns of a level with a kind that JSON does not have."""
    kinds = {ColumnKind.TIME, ColumnKind.BINARY}
    return [(column.name, column.kind) for column in level_columns(level) if column.kind in kinds]
