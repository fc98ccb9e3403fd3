"""UUIDs, error codes, and the words of errors."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kwire import uuids
from kwire.error_codes import ErrorCode, is_retriable, name_of
from kwire.errors import InvalidValue, MissingExtra, SchemaError, Truncated, WireError

TABLE = Path(__file__).parents[2] / "tools" / "generate" / "errors.tsv"


def test_a_uuid_is_22_characters_of_base64url() -> None:
    assert uuids.to_text(uuids.ZERO) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuids.from_text("-_-_AAAAAAAAAAAAAAAAAA") == bytes.fromhex("fbffbf") + bytes(13)
    for value in (bytes(range(16)), b"\xff" * 16):
        assert uuids.from_text(uuids.to_text(value)) == value


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 21 + "!", "ä" * 22, "A" * 1000])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        uuids.from_text(text)
    with pytest.raises(InvalidValue):
        uuids.to_text(b"short")


def test_the_error_codes_are_those_of_the_table() -> None:
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


def test_errors_say_where_and_what() -> None:
    cut = Truncated("A.b[2].c", 41, 4, 3)

    assert (cut.path, cut.at, cut.need, cut.have) == ("A.b[2].c", 41, 4, 3)
    assert str(cut) == "A.b[2].c at byte 41: needs 4 bytes, but 3 are left"
    assert isinstance(cut, WireError)
    assert isinstance(cut, ValueError)
    assert str(SchemaError("f.json", "M", "A.B", "reason")) == "f.json: M.A.B: reason"
    assert "pip install 'kwire[spark]'" in str(MissingExtra("A report", "spark"))
