"""Partial evaluation of filters, with some known columns and a known range of times."""

from __future__ import annotations

from itertools import product

import pytest

from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.display_filter.partial_evaluation import PartialRow
from kwire.capture.rows.columns import level_columns

SECOND = 10**9
# 2026-03-01T12:00:00Z to 12:00:10Z.
FIRST, LAST = 1_772_366_400 * SECOND, 1_772_366_410 * SECOND
ENDS = {"conn_id": "10.0.0.1:5000>10.0.0.2:9092", "client_ip": "10.0.0.1", "client_port": 5000}


@pytest.mark.parametrize(
    ("text", "may_pass"),
    [
        ("time >= 2026-03-01T12:00:05", True),
        ("time > '2026-03-01T12:00:10'", False),
        ("time >= '2026-03-01T12:00:10'", True),
        ("time < 2026-03-01T12:00:00", False),
        ("time <= 2026-03-01T12:00:00", True),
        ("time = 2026-03-01T12:00:03", True),
        ("time = 2026-03-01T11:59:59", False),
        ("time in (2026-03-01, 2026-03-02)", False),
        ("time != 2026-03-01", True),
        ("not time < 2026-03-02", True),
        ("not time >= 2026-03-01", True),
        ("time >= 2026-03-02 or api = Fetch", True),
        ("time >= 2026-03-02 and api = Fetch", False),
        ("time >= 12:00:04 and time < 12:00:05", True),
        ("time >= 12:01", False),
        ("resp_ts > 2026-03-02", False),
        ("resp_ts = null", True),
        ("conn = 10.0.0.1", True),
        ("conn = 10.0.0.9", False),
        ("not conn = 10.0.0.1", False),
        ("client_port != 5000 or time < 2026-01-01", False),
        ("client_port = 5000 and group = orders", True),
        ("latency > 1s and client_ip = 10.0.0.2", False),
    ],
)
def test_a_filter_that_cannot_match_is_recognized(text: str, may_pass: bool) -> None:
    assert DisplayFilter(text).may_match(PartialRow(ENDS, FIRST, LAST)) is may_pass


TEXTS = [
    f"{negation}({one} {word} {negation}{other})"
    for one, other in product(
        ("time {sign} 2026-03-01T12:00:05", "req_ts = null", "client_port {sign} 5000"),
        ("resp_ts {sign} 2026-03-01T12:00:00", "time {sign} 12:00:10", "conn ~ '^10'", "status = ok"),
    )
    for word, negation in product(("and", "or"), ("", "not "))
]


@pytest.mark.parametrize("sign", ["<", "<=", "=", "!=", ">", ">="])
def test_every_matching_row_was_possible(sign: str) -> None:
    """Every matching row of some times and values is possible for the smallest range of its times."""
    empty: dict[str, object] = {column.name: None for column in level_columns("messages")}
    moments = (None, FIRST - 1, FIRST, FIRST + 5 * SECOND, LAST, LAST + 1)
    for text in TEXTS:
        where = DisplayFilter(text.format(sign=sign))
        for request_ts, response_ts in product(moments, moments):
            times = [each for each in (request_ts, response_ts) if each is not None] or [FIRST]
            row = {**empty, **ENDS, "status": "ok", "req_ts": request_ts, "resp_ts": response_ts}
            if where.matches(row):
                assert where.may_match(PartialRow(ENDS, min(times), max(times))), (text, row)
