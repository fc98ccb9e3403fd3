"""Format exchanges in columns as JSON lines: the lines of `rows.json_lines.format_json_line`."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kwire.capture.columnar import json_columns, session_columns
from kwire.capture.columnar.header_columns import NO_TIME
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.model import RowIssue
from kwire.capture.rows.column import ColumnKind
from kwire.capture.rows.columns import arrow_schema, level_columns
from kwire.capture.rows.json_lines import format_second
from kwire.capture.rows.message_rows import OK
from kwire.capture.rows.session_values import session_value
from kwire.json_text import escape_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kwire.capture.columnar.formats.exchange_rows import ExchangeRows
    from kwire.capture.index.arrays import Bools, Bytes, Ints
    from kwire.capture.options import Options

_NULL = pa.scalar("null")
_TEXTS = {"status": f'"{OK}"', "issues": "[]"}
_ISSUE = "{" + ",".join(f'"{name}":%s' for name in RowIssue._fields) + "}"
# 2026-01-02T03:04:05.123456789Z
_SECOND_SIZE, _TIME_SIZE = 19, 30
_MICROSECONDS_END = _SECOND_SIZE + 7
# In quotes: hours to nanoseconds.
_TIME_OF_DAY = slice(12, _TIME_SIZE)


class JsonLineFormatter:
    """Formats exchanges as JSON with these columns of `messages`."""

    formats_damaged = True

    def __init__(self, names: Sequence[str], options: Options, file: str) -> None:
        """Args: options: with the names of all topics. file: the value of the column of that name."""
        # Lines with an error are counted.
        self.columns: Collection[str] = {*names, "error_code"}
        self._line_names = names
        self._options = options
        self._file = file
        self._names = TopicNames(options.topics)
        self._kinds = {column.name: column.kind for column in level_columns("messages")}

    def format_rows(self, rows: ExchangeRows) -> list[str]:
        """The lines of these exchanges."""
        # Bodies are large: they are not copied into Arrow.
        pieces: list[Iterable[str]] = []
        parts: list[Any] = []
        literal = "{"
        for number, name in enumerate(self._line_names):
            literal += f'{"," if number else ""}"{name}":'
            if name in json_columns.COLUMNS:
                pieces += [_join([*parts, literal]), _quote(rows.json_texts(name, self._options, is_escaped=True))]
                parts, literal = [], ""
            elif name == "file":
                literal += _escape(self._file)
            elif name in _TEXTS and (rows.damaged is None or name not in {"status", "issues"}):
                literal += _TEXTS[name]
            else:
                parts += [literal, self._column_texts(name, rows)]
                literal = ""
        pieces.append(_join([*parts, literal + "}"]))
        return ["".join(texts) for _, *texts in zip(range(len(rows.exchanges)), *pieces, strict=False)]

    def _column_texts(self, name: str, rows: ExchangeRows) -> pa.Array:
        """The JSON texts of a column."""
        kind = self._kinds[name]
        if kind is ColumnKind.TIME:
            return time_texts(rows.times(name))
        if name == "issues":
            assert rows.damaged is not None
            return _issue_texts(rows.damaged.issues())
        if name in session_columns.COLUMNS:
            values = pa.array(
                [session_value(name, session, self._names) for session in rows.sessions],
                type=arrow_schema("messages").field(name).type,
            )
        else:
            values = rows.build_column(name)
        if kind is ColumnKind.STRING:
            return _short_texts(values)
        if kind is ColumnKind.BOOL:
            return pc.fill_null(pc.if_else(values, "true", "false"), _NULL)
        return pc.fill_null(pc.cast(values, pa.string()), _NULL)


def _join(parts: list[Any]) -> Iterable[str]:
    """The texts of columns and the literals between them, by row."""
    if len(parts) == 1:
        return repeat(parts[0])
    texts: list[str] = pc.binary_join_element_wise(*parts, "").to_pylist()
    return texts


def _quote(texts: list[str | None]) -> list[str]:
    """Texts as they are inside a JSON string, or null, as JSON."""
    return ["null" if text is None else f'"{text}"' for text in texts]


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
