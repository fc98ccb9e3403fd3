"""The generated error codes."""

from __future__ import annotations

import csv
from pathlib import Path

from kwire.error_codes import ErrorCode, is_retriable, name_of

TABLE = Path(__file__).parents[2] / "tools" / "generate" / "errors.tsv"


def test_error_codes_match_the_table() -> None:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))

    assert {code.name: code.value for code in ErrorCode} == {row["name"]: int(row["code"]) for row in rows}
    assert {code.name for code in ErrorCode if is_retriable(code)} == {
        row["name"] for row in rows if row["retriable"] == "true"
    }


def test_an_unknown_error_code_has_a_name_too() -> None:
    assert name_of(0) == "NONE"
    assert name_of(4711) == "UNKNOWN(4711)"
    assert not is_retriable(4711)
