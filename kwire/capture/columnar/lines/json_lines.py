"""Format rows of messages as JSON lines, column by column: the lines of `rows.json_lines.format_json_line`.

The rows are those of valid exchanges, which have no issues, or of incomplete ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kwire.capture.columnar import json_columns
from kwire.capture.columnar.header_columns import NO_TIME
from kwire.capture.model import RowIssue
from kwire.capture.rows.columns import ColumnKind, level_columns
from kwire.capture.rows.json_lines import format_second
from kwire.capture.rows.message_rows import OK
from kwire.json_text import escape_text

if TYPE_CHECKING:
    from kwire.capture.index.arrays import Bools, Bytes, Ints

_NULL = pa.scalar("null")
_TEXTS = {"stream_epoch": "0", "tls": "false", "status": f'"{OK}"', "issues": "[]"}
_ISSUE = "{" + ",".join(f'"{name}":%s' for name in RowIssue._fields) + "}"
# 2026-01-02T03:04:05.123456789Z
_SECOND_SIZE, _TIME_SIZE = 19, 30
_MICROSECONDS_END = _SECOND_SIZE + 7
# In quotes: hours to nanoseconds.
_TIME_OF_DAY = slice(12, _TIME_SIZE)


class LineSource(NamedTuple):
    """The rows to format.

    times: returns the times of a column in nanoseconds. bodies: a column of JSON, as it is inside a JSON string.
    array: the values of any other column. damages: return the status and the issues of incomplete exchanges.
    """

    row_count: int
    file: str
    times: Callable[[str], Ints]
    bodies: Callable[[str], list[str | None]]
    array: Callable[[str], pa.Array]
    damages: tuple[Callable[[], list[str]], Callable[[], list[list[RowIssue]]]] | None = None


def format_lines(source: LineSource, names: Sequence[str]) -> list[str]:
    """The lines with these columns of `messages`."""
    kinds = {column.name: column.kind for column in level_columns("messages")}
    # Bodies are large: they are not copied into Arrow.
    pieces: list[Iterable[str]] = []
    parts: list[Any] = []
    literal = "{"
    for number, name in enumerate(names):
        literal += f'{"," if number else ""}"{name}":'
        if name in json_columns.COLUMNS:
            pieces += [_join([*parts, literal]), _quote(source.bodies(name))]
            parts, literal = [], ""
        elif name == "file":
            literal += _escape(source.file)
        elif name in {"status", "issues"} and source.damages is not None:
            statuses, issues = source.damages
            texts_of = _short_texts(pa.array(statuses())) if name == "status" else _issue_texts(issues())
            parts, literal = [*parts, literal, texts_of], ""
        elif name in _TEXTS:
            literal += _TEXTS[name]
        else:
            parts += [literal, _column_texts(source, name, kinds[name])]
            literal = ""
    pieces.append(_join([*parts, literal + "}"]))
    return ["".join(texts) for _, *texts in zip(range(source.row_count), *pieces, strict=False)]


def _join(parts: list[Any]) -> Iterable[str]:
    """The texts of columns and the literals between them, by row."""
    if len(parts) == 1:
        return repeat(parts[0])
    texts: list[str] = pc.binary_join_element_wise(*parts, "").to_pylist()
    return texts


def _quote(texts: list[str | None]) -> list[str]:
    """Texts as they are inside a JSON string, or null, as JSON."""
    return ["null" if text is None else f'"{text}"' for text in texts]


def _column_texts(source: LineSource, name: str, kind: ColumnKind) -> pa.Array:
    """The JSON texts of a column."""
    if kind is ColumnKind.TIME:
        return time_texts(source.times(name))
    values = source.array(name)
    if kind is ColumnKind.STRING:
        return _short_texts(values)
    if kind is ColumnKind.BOOL:
        return pc.fill_null(pc.if_else(values, "true", "false"), _NULL)
    return pc.fill_null(pc.cast(values, pa.string()), _NULL)


def _issue_texts(issues_of_rows: list[list[RowIssue]]) -> pa.Array:
    """The texts of the issues of each row."""
    texts = []
    for issues in issues_of_rows:
        values = ",".join(
            [
                _ISSUE % (_escape(kind), _escape(side), _escape(path), "null" if at is None else at, _escape(detail))
                for kind, side, path, at, detail in issues
            ]
        )
        texts.append(f"[{values}]")
    return pa.array(texts, type=pa.string())


def _short_texts(values: pa.Array) -> pa.Array:
    """The texts of strings, of which most occur in many rows."""
    encoded = values.dictionary_encode()
    texts = pa.array([*map(_escape, encoded.dictionary.to_pylist()), "null"], type=pa.string())
    return texts.take(pc.fill_null(encoded.indices, len(texts) - 1))


def _escape(text: str | None) -> str:
    """A string or null as JSON, in ASCII without control characters."""
    return "null" if text is None else f'"{escape_text(text)}"'


def time_texts(times: Ints) -> pa.Array:
    """The texts of times, as `format_timestamp` has them, in quotes."""
    is_known = times != NO_TIME
    characters, is_whole = _time_characters(np.where(is_known, times, 0))
    is_used = np.ones(characters.shape, dtype=np.bool_)
    is_used[is_whole, _MICROSECONDS_END + 1 : _SECOND_SIZE + 11] = False
    offsets = np.zeros(len(times) + 1, dtype=np.int32)
    np.cumsum(is_used.sum(axis=1), out=offsets[1:])
    flat = characters if bool(is_used.all()) else characters[is_used]
    texts = pa.StringArray.from_buffers(len(times), pa.py_buffer(offsets.tobytes()), pa.py_buffer(flat.tobytes()))
    return texts if bool(is_known.all()) else pc.if_else(pa.array(is_known), texts, _NULL)


def times_of_day(times: Ints) -> list[str]:
    """The same from hours on, without quotes and zone; all times must be known."""
    characters, is_whole = _time_characters(times)
    # Zeros at the end of a text of fixed size do not count.
    characters[is_whole, _MICROSECONDS_END + 1 : _SECOND_SIZE + 11] = 0
    day = characters[:, _TIME_OF_DAY].copy()
    texts: list[str] = day.view(f"S{day.shape[1]}")[:, 0].astype(np.str_).tolist()
    return texts


def _time_characters(times: Ints) -> tuple[Bytes, Bools]:
    """The characters of each time with nanoseconds, in quotes, one row each, and which are of whole microseconds."""
    seconds, fraction = np.divmod(times, 1_000_000_000)
    known_seconds, which = np.unique(seconds, return_inverse=True)
    second_texts = "".join(map(format_second, known_seconds.tolist())).encode("ascii")
    characters = np.empty((len(times), _TIME_SIZE + 2), dtype=np.uint8)
    characters[:, 0] = characters[:, -1] = ord('"')
    characters[:, 1 : _SECOND_SIZE + 1] = np.frombuffer(second_texts, dtype=np.uint8).reshape(-1, _SECOND_SIZE)[which]
    characters[:, _SECOND_SIZE + 1] = ord(".")
    rest = fraction
    for digit in range(9):
        rest, remainder = np.divmod(rest, 10)
        characters[:, _SECOND_SIZE + 10 - digit] = remainder + ord("0")
    characters[:, _TIME_SIZE] = ord("Z")
    return characters, fraction % 1000 == 0
