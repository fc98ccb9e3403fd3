"""Ranges of versions in the notation of schemas."""

from __future__ import annotations

import pytest

from kwire.schema import Versions
from kwire.schema.versions import HIGHEST, NONE


@pytest.mark.parametrize(
    ("text", "low", "high"), [("0-4", 0, 4), ("3+", 3, HIGHEST), ("5", 5, 5), (" 0+ ", 0, HIGHEST)]
)
def test_a_range_is_read_and_written(text: str, low: int, high: int) -> None:
    versions = Versions.parse(text)

    assert versions == Versions(low, high)
    assert str(versions) == text.strip()
    assert low in versions
    assert low - 1 not in versions
    assert high + 1 not in versions


def test_none_has_no_version() -> None:
    assert Versions.parse("none") is NONE
    assert not NONE
    assert 0 not in NONE
    assert str(NONE) == "none"
    assert list(NONE.to_range()) == []


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "+", "3-1", "40000", "1-2+", "1,2", "1 - 2"])
def test_an_invalid_range_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="range of versions"):
        Versions.parse(text)


def test_ranges_intersect_and_cover() -> None:
    assert Versions(0, 5).intersect(Versions(3, HIGHEST)) == Versions(3, 5)
    assert Versions(0, 2).intersect(Versions(3, 4)) == NONE
    assert Versions(0, 5).covers(Versions(2, 5))
    assert Versions(0, 5).covers(NONE)
    assert not Versions(0, 5).covers(Versions(2, 6))
    assert "3" not in Versions(0, 5)
