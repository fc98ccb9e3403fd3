"""Times, and rows as JSON lines that are safe on any terminal."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from kwire.capture.schemas import Kind, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.capture.rows import Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(ts: int) -> str:
    """A time in nanoseconds as RFC 3339 text: microseconds, or nanoseconds where there are any."""
    seconds, fraction = divmod(ts, 1_000_000_000)
    digits = f"{fraction:09d}"
    return f"{_second(seconds)}.{digits if fraction % 1000 else digits[:6]}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def json_line(row: Row, level: str, names: Sequence[str] = ()) -> str:
    """The row as one line of JSON, its keys in the order of the level's columns, or those named in theirs.

    All of it is ASCII: characters that could act on a terminal are escapes.
    """
    shown = {name: row[name] for name in names} if names else {each.name: row[each.name] for each in columns(level)}
    for name, kind in _told_otherwise(level):
        value = shown.get(name)
        if kind is Kind.TIME and isinstance(value, int):
            shown[name] = instant(value)
        elif kind is Kind.BINARY and isinstance(value, bytes):
            shown[name] = b64encode(value).decode()
    # DEL is the one control character that JSON leaves as it is.
    return _encode(shown).replace("\x7f", "\\u007f")


_encode = json.JSONEncoder(separators=(",", ":")).encode


@cache
def _told_otherwise(level: str) -> list[tuple[str, Kind]]:
    """The columns of a level that JSON has no kind for."""
    return [(each.name, each.kind) for each in columns(level) if each.kind in {Kind.TIME, Kind.BINARY}]
