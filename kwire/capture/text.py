"""Times, and rows as JSON lines that are safe on any terminal."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kwire.capture.schemas import Kind, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.capture.rows import Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(ts: int) -> str:
    """A time in nanoseconds as RFC 3339 text: microseconds, or nanoseconds where there are any."""
    seconds, fraction = divmod(ts, 1_000_000_000)
    whole = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}"
    return f"{whole}.{digits if fraction % 1000 else digits[:6]}Z"


def json_line(row: Row, level: str, names: Sequence[str] = ()) -> str:
    """The row as one line of JSON, its keys in the order of the level's columns, or those named in theirs.

    All of it is ASCII: characters that could act on a terminal are escapes.
    """
    there = columns(level)
    if names:
        by_name = {column.name: column for column in there}
        there = tuple(by_name[name] for name in names)
    shown = {column.name: row[column.name] for column in there}
    for column in there:
        value = shown[column.name]
        if column.kind is Kind.TIME and isinstance(value, int):
            shown[column.name] = instant(value)
        elif column.kind is Kind.BINARY and isinstance(value, bytes):
            shown[column.name] = b64encode(value).decode()
    # DEL is the one control character that JSON leaves as it is.
    return json.dumps(shown, separators=(",", ":")).replace("\x7f", "\\u007f")
