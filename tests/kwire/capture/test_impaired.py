"""Impaired copies of all real captures: what is read is pinned, nothing is made up, and tshark matches less."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwire.capture.rows import Row
from tests import needs
from tests.kwire.capture import impaired
from tests.kwire.capture.impaired import CLEAR, FILES, WAYS

PINNED = json.loads(impaired.PINNED.read_text("utf-8"))
#: At least so many of 100 exchanges are still matched, in all captures together.
LEAST = {"whole": 100, "lossy": 90, "reordered": 100, "doubled": 100, "snaplen": 99, "midstream": 65, "split": 95}


def matched(way: str) -> int:
    return sum(impaired.counted(impaired.read(name, way))["matched"] for name in CLEAR)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("way", WAYS)
def test_the_counts_of_an_impaired_copy_are_as_pinned(way: str, name: str) -> None:
    assert impaired.counted(impaired.read(name, way)) == PINNED["ours"][way][name]


@pytest.mark.parametrize("way", WAYS)
def test_nearly_all_exchanges_are_still_matched_and_at_least_as_many_as_by_tshark(way: str, tmp_path: Path) -> None:
    tshark = needs.tool("tshark")
    theirs = impaired.tshark_matched(tshark, way, tmp_path)
    if impaired.tshark_version(tshark) == PINNED["tshark"]["version"]:
        assert theirs == PINNED["tshark"]["matched"][way]

    ours = matched(way)
    assert ours >= theirs
    assert 100 * ours >= LEAST[way] * matched("whole")


@pytest.mark.parametrize("name", FILES)
def test_an_impaired_copy_tells_no_exchange_that_the_whole_one_does_not(name: str) -> None:
    known = {_exchange(row) for row in impaired.read(name, "whole")}

    for way in WAYS:
        good = [row for row in impaired.read(name, way) if row["status"] == "ok"]
        assert {_exchange(row) for row in good} <= known
        assert len(good) == len({_exchange(row) for row in good})


def _exchange(row: Row) -> tuple[object, ...]:
    return (row["conn_id"], row["correlation_id"], row["api_name"], row["body_request"], row["body_response"])
