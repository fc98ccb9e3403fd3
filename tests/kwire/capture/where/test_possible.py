"""What a condition may say of a row of which only some columns and a span of time are known."""

from __future__ import annotations

from itertools import product

import pytest

from kwire.capture.schemas import columns
from kwire.capture.where.possible import Known
from kwire.capture.where.where import Where

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
def test_what_cannot_pass_is_known_beforehand(text: str, may_pass: bool) -> None:
    assert Where(text).may_pass(Known(ENDS, FIRST, LAST)) is may_pass


TEXTS = [
    f"{negation}({one} {word} {negation}{other})"
    for one, other in product(
        ("time {sign} 2026-03-01T12:00:05", "req_ts = null", "client_port {sign} 5000"),
        ("resp_ts {sign} 2026-03-01T12:00:00", "time {sign} 12:00:10", "conn ~ '^10'", "status = ok"),
    )
    for word, negation in product(("and", "or"), ("", "not "))
]


@pytest.mark.parametrize("sign", ["<", "<=", "=", "!=", ">", ">="])
def test_no_row_passes_that_could_not(sign: str) -> None:
    """Every row of a few times and values that passes was said to be possible, of the narrowest span around it."""
    empty: dict[str, object] = {column.name: None for column in columns("messages")}
    moments = (None, FIRST - 1, FIRST, FIRST + 5 * SECOND, LAST, LAST + 1)
    for text in TEXTS:
        where = Where(text.format(sign=sign))
        for asked, answered in product(moments, moments):
            times = [each for each in (asked, answered) if each is not None] or [FIRST]
            row = {**empty, **ENDS, "status": "ok", "req_ts": asked, "resp_ts": answered}
            if where.passes(row):
                assert where.may_pass(Known(ENDS, min(times), max(times))), (text, row)
