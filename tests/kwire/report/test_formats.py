"""Formatting of durations, percentages, plurals, ordinals and times."""

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
        (3_600_000_000, "1 h"),
        (3_660_000_000, "61 min"),
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (formats.plural(1, "time"), "1 time"),
        (formats.plural(0, "time"), "0 times"),
        (formats.plural(1_200, "time"), "1,200 times"),
        (formats.plural(1, "delivery", "deliveries"), "1 delivery"),
        (formats.plural(2, "delivery", "deliveries"), "2 deliveries"),
        (formats.number_form(1, "carries", "carry"), "carries"),
        (formats.number_form(2, "carries", "carry"), "carry"),
    ],
)
def test_nouns_and_verbs_agree_with_their_number(text: str, expected: str) -> None:
    assert text == expected


def test_times_of_day_are_exact_to_the_millisecond() -> None:
    assert formats.clock(1_234_567) == "00:00:01.234"
    assert formats.clock(None) == "-"
    assert formats.clock(2**62) == str(2**62)


@pytest.mark.parametrize(
    ("step_us", "text"),
    [
        (1, "00:00:01.234567"),
        (200, "00:00:01.2345"),
        (50_000, "00:00:01.23"),
        (100_000, "00:00:01.2"),
        (1_000_000, "00:00:01"),
        (60_000_000, "00:00"),
        (3_600_000_000, "01 Jan 00:00"),
        (86_400_000_000, "01 Jan"),
    ],
)
def test_the_time_of_a_step_is_as_exact_as_the_step(step_us: int, text: str) -> None:
    assert formats.step_time(1_234_567, step_us=step_us) == text
