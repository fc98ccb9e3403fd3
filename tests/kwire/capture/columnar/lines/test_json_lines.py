"""JSON lines that are made by columns are those of the rows."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from kwire.capture.columnar.header_columns import NO_TIME
from kwire.capture.columnar.lines.json_lines import LineSource, format_lines, time_texts, times_of_day
from kwire.capture.model import Row
from kwire.capture.rows.columns import ColumnKind, arrow_schema, level_columns
from kwire.capture.rows.json_lines import format_json_line
from kwire.json_text import escape_text

ALL = [column.name for column in level_columns("messages")]
KINDS = {column.name: column.kind for column in level_columns("messages")}
FIXED: Row = {"file": "a \udcff'\"\\\x7f.pcap", "stream_epoch": 0, "tls": False, "status": "ok", "issues": []}
TEXTS = ("plain", None, 'a "quote" \\', "line\nend\x00\x7f", "ä€😀", "plain")
TIMES = (1_700_000_000_123_456_789, None, 1_700_000_000_123_456_000, 0, 999, 9_223_372_036_854_775_807)
BODIES = ('{"a":"b\\"c"}', None, '{"n":[1,2]}', '{"name":"ä\x7f"}', "{}", "{}")


def rows() -> list[Row]:
    """Rows with every kind of value in every column."""
    made = []
    for number in range(len(TEXTS)):
        row = dict(FIXED)
        for name in ALL:
            if name in FIXED:
                continue
            values: dict[ColumnKind, object] = {
                ColumnKind.STRING: TEXTS[number],
                ColumnKind.BOOL: (True, None, False)[number % 3],
                ColumnKind.TIME: TIMES[number],
            }
            row[name] = (
                BODIES[number] if name.startswith("body_") else values.get(KINDS[name], (0, None, -7)[number % 3])
            )
        made.append(row)
    return made


def source_of(made: list[Row]) -> LineSource:
    def times(name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([NO_TIME if row[name] is None else row[name] for row in made], dtype=np.int64)

    def bodies(name: str) -> list[str | None]:
        return [None if row[name] is None else escape_text(str(row[name])) for row in made]

    def array(name: str) -> pa.Array:
        return pa.array([row[name] for row in made], type=arrow_schema("messages").field(name).type)

    return LineSource(len(made), str(FIXED["file"]), times, bodies, array)


@pytest.mark.parametrize("names", [ALL, [*reversed(ALL)], ["tls"], ["file", "status"], ["body_request"], ["req_ts"]])
def test_lines_are_those_of_the_rows(names: list[str]) -> None:
    made = rows()
    lines = format_lines(source_of(made), names)

    assert lines == [format_json_line(row, "messages", names) for row in made]
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert [list(json.loads(line)) for line in lines] == [names] * len(made)


def test_no_rows_have_no_lines() -> None:
    assert format_lines(source_of([]), ALL) == []
    assert format_lines(source_of([]), ["tls"]) == []


def test_times_of_day_are_those_of_the_times() -> None:
    known = np.array([ts for ts in TIMES if ts is not None], dtype=np.int64)

    assert times_of_day(known) == [text[12:-2] for text in time_texts(known).to_pylist()]
    assert times_of_day(known[1:3]) == ["22:13:20.123456", "00:00:00.000000"]
    assert times_of_day(known[:0]) == []
