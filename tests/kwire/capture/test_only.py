"""Conditions on the heads of exchanges: they leave out what the same condition on rows would, and names stay learnt."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kwire.capture.only import COLUMNS, Condition, Only, of_filter
from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.schemas import columns
from kwire.capture.where.where import Where

CAPTURES = Path(__file__).parents[2] / "captures"
FILE = str(CAPTURES / "small_share.pcap")
SOME = rows(FILE)
FIRST = next(row for row in SOME if row["api_name"] == "ShareFetch")


@pytest.mark.parametrize("column", sorted(COLUMNS))
@pytest.mark.parametrize("test", ["=", "<", ">=", "in", "null"])
@pytest.mark.parametrize("is_negated", [False, True])
def test_what_is_left_is_what_the_condition_keeps_of_all_rows(column: str, test: str, is_negated: bool) -> None:
    value = FIRST[column]
    assert value is not None
    if column.endswith("_ts"):
        assert isinstance(value, int)
        value //= 1000
    condition = Condition(column, test, (value,) if test == "in" else value, is_negated)

    found = list(rows(FILE, options=Options(only=Only((condition,)))))

    def of(row: dict[str, object]) -> object:
        told = row[column]
        return told // 1000 if column.endswith("_ts") and isinstance(told, int) else told

    assert [row for row in found if condition.holds(of(row))] == [row for row in rows(FILE) if condition.holds(of(row))]
    assert all(condition.holds(of(row)) or row["status"] not in ("ok", "no_response") for row in found)


def test_exchanges_that_are_left_out_still_tell_the_names_of_topics() -> None:
    only = Only((Condition("api_name", "=", "ShareFetch"),))

    found = list(rows(FILE, "share_acquired", Options(only=only)))

    assert found == list(rows(FILE, "share_acquired"))
    assert {row["topic"] for row in found} != {None}


def test_unknown_is_left_out_negated_or_not() -> None:
    assert not Condition("client_id", "=", "a").holds(None)
    assert not Condition("client_id", "=", "a", is_negated=True).holds(None)
    assert Condition("client_id", "null").holds(None)
    assert not Condition("client_id", "null", is_negated=True).holds(None)


def test_shares_have_everything_once() -> None:
    shares = [Condition("req_packet", "share", span) for span in ((0, 5), (5, 9), (9, 1 << 62))]

    for value in (None, 1, 5, 8, 9, 10**9):
        assert [share.holds(value) for share in shares].count(True) == 1


def test_every_column_is_one_of_messages() -> None:
    assert {column.name for column in columns("messages")} >= COLUMNS


@pytest.mark.parametrize("text", ["api_key = 999", "api = 999", "api > 900", "api != Fetch", "api = null"])
def test_a_filter_on_an_unknown_api_keeps_its_rows(text: str) -> None:
    data = bytearray(Path(FILE).read_bytes())
    beat = next(row for row in rows(FILE) if row["api_name"] == "ShareGroupHeartbeat")
    head = data.find(struct.pack(">hhi", 76, beat["api_version"], beat["correlation_id"]))
    data[head : head + 2] = struct.pack(">h", 999)
    damaged = bytes(data)
    everything = list(rows(damaged))
    assert [row["api_key"] for row in everything].count(999) == 1

    found = list(rows(damaged, options=Options(only=Only(of_filter(text, "messages")))))

    where = Where(text, "messages")
    assert [row for row in found if where.passes(row)] == [row for row in everything if where.passes(row)]
