"""Impaired copies of all real captures: row counts are pinned, no row is false, and tshark matches fewer exchanges."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwire.capture.model import Row
from tests.support import needs
from tests.support.captures import impaired_captures
from tests.support.captures.impaired_captures import FILES, IMPAIRMENTS, UNENCRYPTED_FILES

pytestmark = pytest.mark.slow

PINNED = json.loads(impaired_captures.PINNED.read_text("utf-8"))
#: The percentage of exchanges that must still be matched, in all captures together.
MATCHED_PERCENT_MIN = {
    **dict.fromkeys(("whole", "reordered", "doubled", "mirrored"), 100),
    "one direction": 0,
    "lossy": 90,
    "snaplen": 99,
    "midstream": 65,
    "split": 95,
}


def count_matched(way: str) -> int:
    copies = (impaired_captures.read_impaired(name, way) for name in UNENCRYPTED_FILES)
    return sum(impaired_captures.count_rows(rows)["matched"] for rows in copies)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("way", IMPAIRMENTS)
def test_the_counts_of_an_impaired_copy_are_as_pinned(way: str, name: str) -> None:
    assert impaired_captures.count_rows(impaired_captures.read_impaired(name, way)) == PINNED["ours"][way][name]


@pytest.mark.parametrize("way", IMPAIRMENTS)
def test_nearly_all_exchanges_are_matched_and_at_least_as_many_as_by_tshark(way: str, tmp_path: Path) -> None:
    tshark = needs.tool("tshark")
    theirs = impaired_captures.count_tshark_matches(tshark, way, tmp_path)
    if impaired_captures.tshark_version(tshark) == PINNED["tshark"]["version"]:
        assert theirs == PINNED["tshark"]["matched"][way]

    ours = count_matched(way)
    assert ours >= theirs
    assert 100 * ours >= MATCHED_PERCENT_MIN[way] * count_matched("whole")


@pytest.mark.parametrize("name", FILES)
def test_an_impaired_copy_has_no_exchange_that_the_original_lacks(name: str) -> None:
    known = {_exchange(row) for row in impaired_captures.read_impaired(name, "whole")}

    for way in IMPAIRMENTS:
        rows = impaired_captures.read_impaired(name, way)
        # The row about packets that were captured twice has no connection.
        good = [row for row in rows if row["status"] == "ok" and row["conn_id"] is not None]
        assert {_exchange(row) for row in good} <= known
        assert len(good) == len({_exchange(row) for row in good})


def _exchange(row: Row) -> tuple[object, ...]:
    return (row["conn_id"], row["correlation_id"], row["api_name"], row["body_request"], row["body_response"])
