"""JSON lines that are made by columns are those of the rows."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from kwire.capture.columnar.formats.exchange_rows import ExchangeRows
from kwire.capture.columnar.formats.json_lines import JsonLineFormatter, time_texts, times_of_day
from kwire.capture.columnar.span_data import NO_DATA
from kwire.capture.index.flows.frame_columns import FrameColumns
from kwire.capture.index.flows.message_columns import ExchangeColumns, missing_requests, missing_responses
from kwire.capture.kafka.fetch_sessions import FetchSession
from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.rows.column import ColumnKind
from kwire.capture.rows.columns import arrow_schema, level_columns
from kwire.capture.rows.json_lines import format_json_line
from kwire.json_text import escape_text

ALL = [column.name for column in level_columns("messages")]
KINDS = {column.name: column.kind for column in level_columns("messages")}
FILE = "a \udcff'\"\\\x7f.pcap"
FIXED: Row = {"file": FILE, "stream_epoch": 0, "tls": False, "status": "ok", "issues": [], "session_partitions": None}
TEXTS = ("plain", None, 'a "quote" \\', "line\nend\x00\x7f", "ä€😀", "plain")
TIMES = (1_700_000_000_123_456_789, None, 1_700_000_000_123_456_000, 0, 999, 9_223_372_036_854_775_807)
INTEGERS = (0, None, -7)
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
            row[name] = BODIES[number] if name.startswith("body_") else values.get(KINDS[name], INTEGERS[number % 3])
        made.append(row)
    return made


class MadeRows(ExchangeRows):
    """Exchanges that have the values of rows; sessions have no partitions."""

    def json_texts(self, name: str, options: Options, *, is_escaped: bool = False) -> list[str | None]:
        assert is_escaped
        return [None if body is None else escape_text(body) for body in BODIES[: len(self.sessions)]]


def rows_of(made: list[Row]) -> ExchangeRows:
    def build_column(name: str) -> pa.Array:
        return pa.array([row[name] for row in made], type=arrow_schema("messages").field(name).type)

    # Both frames of each exchange begin and end at one time.
    times = TIMES[: len(made)]
    ts = np.array([0 if time is None else time for time in times], dtype=np.int64)
    size = np.array([-1 if time is None else 0 for time in times], dtype=np.int64)
    frame = FrameColumns(*[np.zeros_like(ts)] * len(FrameColumns._fields))._replace(ts=ts, end_ts=ts, size=size)
    request, response = missing_requests(ts)._replace(frame=frame), missing_responses(len(made))._replace(frame=frame)
    numbers = [INTEGERS[row % 3] for row in range(len(made))]
    sessions = [None if number is None else FetchSession(number, number, None) for number in numbers]
    return MadeRows(ExchangeColumns(request, response, ts), NO_DATA, sessions, build_column)


def format_lines(made: list[Row], names: list[str]) -> list[str]:
    return JsonLineFormatter(names, Options(), FILE).format_rows(rows_of(made))


@pytest.mark.parametrize("names", [ALL, [*reversed(ALL)], ["tls"], ["file", "status"], ["body_request"], ["req_ts"]])
def test_lines_are_those_of_the_rows(names: list[str]) -> None:
    made = rows()
    lines = format_lines(made, names)

    assert lines == [format_json_line(row, "messages", names) for row in made]
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert [list(json.loads(line)) for line in lines] == [names] * len(made)


def test_no_rows_have_no_lines() -> None:
    assert format_lines([], ALL) == []
    assert format_lines([], ["tls"]) == []


def test_times_of_day_are_those_of_the_times() -> None:
    known = np.array([ts for ts in TIMES if ts is not None], dtype=np.int64)

    assert times_of_day(known) == [text[12:-2] for text in time_texts(known).to_pylist()]
    assert times_of_day(known[1:3]) == ["22:13:20.123456", "00:00:00.000000"]
    assert times_of_day(known[:0]) == []
