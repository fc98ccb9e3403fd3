"""The section on share groups: omitted rows and groups, contents of records, deliveries and their colours."""

from __future__ import annotations

import re
from dataclasses import replace

from kwire.report import page
from kwire.report.model import Timeline
from kwire.report.row_types import DeadLetterRow
from kwire.report.sections.shares import build_section
from tests.support.spark.report_page import Reader
from tests.support.spark.sample_report import HOSTILE, START_US, report


def test_omitted_rows_are_counted() -> None:
    whole = report()
    groups = [replace(whole.groups[0], group=f"g{index}") for index in range(40)]
    texts = Reader(page.render_report(replace(whole, groups=groups, omitted={"acknowledgements": 7}))).texts

    assert "and 7 more rows" in texts
    assert any("Plotted: the 12 of 40 groups with the most redeliveries." in text for text in texts)


def test_dead_letters_are_listed_with_their_reason() -> None:
    row = DeadLetterRow("g", "orders", HOSTILE, "dlq.orders", 3, 4, 9, 5)

    assert "Dead letters" not in Reader(page.render_report(report())).texts
    texts = Reader(page.render_report(replace(report(), dead_letters=[row]))).texts
    assert {"Dead letters", "dlq.orders", HOSTILE} <= set(texts)


def test_contents_of_records_are_columns_only_on_request() -> None:
    whole = report()
    asked = replace(whole, poison=[replace(whole.poison[0], key="null", value=HOSTILE)])

    assert "Value" not in Reader(page.render_report(whole)).texts
    assert {"Value", HOSTILE} <= set(Reader(page.render_report(asked)).texts)


def legends(plot: str) -> list[tuple[str, str]]:
    """The class and the name of each entry of a legend."""
    return re.findall(r'<rect class="(m-[\w-]+)"[^>]*/></svg><span>([^<]*)</span>', plot)


def test_delivery_counts_have_the_same_colours_in_both_plots() -> None:
    """Also where more records are delivered again than for the first time."""
    timeline = Timeline(START_US, 1_000_000, 2, {"3": [0, 40], "1": [9, 0], "2": [1, 8], "9": [0, 1], "7": [0, 2]})
    counts = {"orders": {1: 9, 2: 9, 3: 40, 7: 2, 9: 1}}
    figures = build_section(replace(report(), share_traffic=timeline, delivery_counts=counts)).figures
    by_title = {figure.title: figure for figure in figures}

    bars, columns = (legends(str(by_title[title].plot)) for title in ("Deliveries", "Deliveries over time"))

    assert bars == columns
    assert bars == [
        ("m-delivery-1", "1st delivery"),
        ("m-delivery-2", "2nd delivery"),
        ("m-delivery-3", "3rd delivery"),
        ("m-delivery-6", "later deliveries"),
    ]
    assert ("later deliveries", "3", "3") in by_title["Deliveries over time"].table.rows


def test_a_record_has_one_number_of_deliveries() -> None:
    """In the plot and in the table; the delivery count of the broker is a column of its own."""
    (figure,) = [figure for figure in build_section(report()).figures if figure.title.startswith("Poison")]
    row = dict(zip(figure.table.head, figure.table.rows[0], strict=True))

    assert (row["Deliveries"], row["Highest delivery count"]) == ("5", "6")
    assert "5 deliveries, exhausted" in str(figure.plot)


def test_a_lock_is_not_drawn_beyond_the_end_of_the_capture() -> None:
    whole = report()
    last_us = START_US + 31_000_000
    cut = replace(whole, files=[replace(whole.files[0], last_us=last_us)])
    plots = [
        str(figure.plot)
        for each in (whole, cut)
        for figure in build_section(each).figures
        if figure.title.startswith("Poison")
    ]

    # The last delivery begins after 30 s, and its lock has a timeout of 10 s.
    assert "5th delivery, to a-client: not acknowledged, 10 s" in plots[0]
    assert "5th delivery, to a-client: not acknowledged, 1 s" in plots[1]
