"""The parts of the report: numbers as text, spans of time, places of marks, markup."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kwire.spark import formats, timeplot
from kwire.spark.findings import findings
from kwire.spark.gather import BINS, time_bins
from kwire.spark.markup import data_island, tag
from kwire.spark.model import Timeline
from kwire.spark.row_types import FileRow
from kwire.spark.rowplots import latency, mix
from tests.kwire.spark.samples import report

DAY_US = 86_400_000_000


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
def test_a_span_is_told_in_the_unit_that_fits(us: int, text: str) -> None:
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
def test_a_share_is_never_rounded_to_nothing_or_to_all(part: int, whole: int, text: str) -> None:
    assert formats.share(part, whole) == text


def test_ordinals_are_english() -> None:
    assert [formats.ordinal(value) for value in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th")
    ]


def test_a_time_beyond_the_calendar_stays_a_number() -> None:
    assert formats.moment(2**62) == f"{2**62} µs"
    assert formats.moment(0) == "1970-01-01 00:00:00 UTC"


@pytest.mark.parametrize("length_us", [0, 1, 47, 48, 5_000, 47_300_000, 3_600_000_000, 40 * DAY_US, 30_000 * DAY_US])
def test_the_time_axis_covers_every_capture_in_a_bearable_number_of_steps(length_us: int) -> None:
    first = 1_795_257_723_456_789

    start, step, bins = time_bins([FileRow("a", 1, 1, 1, first, first + length_us), FileRow("b", 0, 0, 0, None, None)])

    assert start <= first
    assert start + bins * step > first + length_us
    assert bins <= BINS + 2


def test_the_axis_of_counts_ends_above_the_highest_column() -> None:
    assert [timeplot.nice_ceiling(value) for value in (0, 1, 2, 3, 5, 7, 9, 11, 70, 101, 999)] == [
        *(1, 1, 2, 4, 6, 8, 10, 20, 80, 200, 1000)
    ]


def test_small_series_are_drawn_together_and_nothing_is_lost() -> None:
    data = Timeline(0, 1, 2, {f"api{index}": [index, 1] for index in range(9, 0, -1)})

    shown = timeplot.grouped(data)

    assert len(shown) == timeplot.SERIES_MAX
    assert sum(map(sum, shown.values())) == data.total


def test_text_and_attributes_are_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b>&", tag("b", "x"), title='"<') == '<p title="&quot;&lt;">&lt;b&gt;&amp;<b>x</b></p>'


def test_embedded_data_cannot_end_its_element_and_reads_back_the_same() -> None:
    tree = {"</script><!--": ["\u2028", "&amp;", "\ud800"]}

    written = data_island(tree)

    assert not set("<>&\u2028") & set(written)
    assert json.loads(written) == tree


def test_bars_by_kind_fill_their_width() -> None:
    drawn = mix([("g", {"accept": 1, "reject": 3})], {"accept": "a", "release": "r", "reject": "j"})

    assert 'class="mark a" x="0%" y="4" width="25%"' in drawn
    assert 'class="mark j" x="25%" y="4" width="75%"' in drawn
    assert "release" not in drawn


def test_a_latency_of_zero_has_a_place_on_the_logarithmic_axis() -> None:
    row = replace(report().latency[1], p50_us=0, p95_us=0, p99_us=0, max_us=0)

    assert 'cx="1.5%"' in latency([row])


def test_findings_name_what_is_wrong_and_what_is_well() -> None:
    told = [(each.kind, each.sentence) for each in findings(report())]

    assert ("bad", "Not every exchange is complete: 4 no response, 1 undecodable.") in told
    assert (
        "note",
        "Share group orders: 1,840 records handed out 1,950 times; 74 more than once, up to delivery 4.",
    ) in told
    assert ("bad", "Share group orders: given up without being accepted: 26 rejected, 5 exhausted.") in told

    assert [kind for kind, _ in told] == sorted((kind for kind, _ in told), key=["bad", "note", "good"].index)
    assert ("bad", "1 member spoke too late: the lock on 30 records had run out.") in told
    assert ("note", "2 connections with packets that were sent again, 14 times.") in told
    assert ("note", "1 connection ended by a reset.") in told
    assert ("bad", "Brokers throttle: for 200 ms at most.") in told
    assert ("note", "1 error while members joined, synchronised or beat, in orders.") in told
    assert ("bad", "The protocol's rules were broken 3 times: response out of order, and 1 of other kinds.") in told

    calm = replace(report(), statuses={"ok": 1_502}, error_responses=0, error_rows=[], groups=[], refused_acks=0)
    calm = replace(calm, lock_use=[], rules=[], depth=[])
    assert {each.kind for each in findings(calm)} == {"good", "note"}
