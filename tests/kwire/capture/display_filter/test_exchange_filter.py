"""Exchange filters exclude the same exchanges as the same condition on rows; topic names are still learned."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.display_filter.exchange_filter import COLUMNS, condition_holds, exchange_conditions
from kwire.capture.options import ExchangeCondition, ExchangeFilter, Options
from kwire.capture.reader import read_rows
from kwire.capture.rows.columns import level_columns

pytestmark = pytest.mark.slow

CAPTURES = Path(__file__).parents[3] / "captures"
FILE = str(CAPTURES / "small_share.pcap")
SOME = read_rows(FILE)
FIRST = next(row for row in SOME if row["api_name"] == "ShareFetch")


@pytest.mark.parametrize("column", sorted(COLUMNS))
@pytest.mark.parametrize("test", ["=", "<", ">=", "in", "null"])
@pytest.mark.parametrize("is_negated", [False, True])
def test_a_condition_selects_the_same_rows_as_on_all_rows(column: str, test: str, is_negated: bool) -> None:
    value = FIRST[column]
    assert value is not None
    if column.endswith("_ts"):
        assert isinstance(value, int)
        value //= 1000
    condition = ExchangeCondition(column, test, (value,) if test == "in" else value, is_negated)

    found = list(read_rows(FILE, options=Options(exchange_filter=ExchangeFilter((condition,)))))

    def of(row: dict[str, object]) -> object:
        value = row[column]
        return value // 1000 if column.endswith("_ts") and isinstance(value, int) else value

    assert [row for row in found if condition_holds(condition, of(row))] == [
        row for row in read_rows(FILE) if condition_holds(condition, of(row))
    ]
    assert all(condition_holds(condition, of(row)) or row["status"] not in ("ok", "no_response") for row in found)


def test_topic_names_are_learned_from_excluded_exchanges() -> None:
    only = ExchangeFilter((ExchangeCondition("api_name", "=", "ShareFetch"),))

    found = list(read_rows(FILE, "share_acquired", Options(exchange_filter=only)))

    assert found == list(read_rows(FILE, "share_acquired"))
    assert {row["topic"] for row in found} != {None}


def test_an_unknown_result_excludes_also_if_negated() -> None:
    assert not condition_holds(ExchangeCondition("client_id", "=", "a"), None)
    assert not condition_holds(ExchangeCondition("client_id", "=", "a", is_negated=True), None)
    assert condition_holds(ExchangeCondition("client_id", "null"), None)
    assert not condition_holds(ExchangeCondition("client_id", "null", is_negated=True), None)


def test_shares_together_have_every_exchange_once() -> None:
    shares = [ExchangeCondition("req_packet", "share", span) for span in ((0, 5), (5, 9), (9, 1 << 62))]

    for value in (None, 1, 5, 8, 9, 10**9):
        assert [condition_holds(share, value) for share in shares].count(True) == 1


def test_every_condition_column_is_a_column_of_messages() -> None:
    assert {column.name for column in level_columns("messages")} >= COLUMNS


@pytest.mark.parametrize("text", ["api_key = 999", "api = 999", "api > 900", "api != Fetch", "api = null"])
def test_a_filter_on_an_unknown_api_keeps_its_rows(text: str) -> None:
    data = bytearray(Path(FILE).read_bytes())
    beat = next(row for row in read_rows(FILE) if row["api_name"] == "ShareGroupHeartbeat")
    head = data.find(struct.pack(">hhi", 76, beat["api_version"], beat["correlation_id"]))
    data[head : head + 2] = struct.pack(">h", 999)
    damaged = bytes(data)
    everything = list(read_rows(damaged))
    assert [row["api_key"] for row in everything].count(999) == 1

    conditions = ExchangeFilter(exchange_conditions(text, "messages"))
    found = list(read_rows(damaged, options=Options(exchange_filter=conditions)))

    where = DisplayFilter(text, "messages")
    assert [row for row in found if where.matches(row)] == [row for row in everything if where.matches(row)]
