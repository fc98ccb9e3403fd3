"""Formatting of durations, percentages, ordinals and times."""

from __future__ import annotations

import pytest

from kwire.report import formats


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1_000, "1 ms"),
        (12_345, "12.3 ms"),
        (999_499, "999 ms"),
        (999_500, "1 s"),
        (1_254_000, "1.25 s"),
        (119_999_999, "120 s"),
        (185_000_000, "3 min 5 s"),
        (7_800_000_000, "2 h 10 min"),
    ],
)
def test_a_duration_is_formatted_in_a_suitable_unit(us: int, text: str) -> None:
    assert formats.span(us) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10, "0 %"),
        (1, 3, "33.3 %"),
        (1, 100_000, "< 0.1 %"),
        (99_999, 100_000, "> 99.9 %"),
        (5, 5, "100 %"),
        (0, 0, "0 %"),
    ],
)
def test_a_percentage_is_never_rounded_to_0_or_100(part: int, whole: int, text: str) -> None:
    assert formats.share(part, whole) == text


def test_ordinals_are_english() -> None:
    assert [formats.ordinal(value) for value in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th")
    ]


def test_a_time_beyond_the_calendar_stays_a_number() -> None:
    assert formats.moment(2**62) == f"{2**62} µs"
    assert formats.moment(0) == "1970-01-01 00:00:00 UTC"
