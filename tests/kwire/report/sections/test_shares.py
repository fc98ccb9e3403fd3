"""The section on share groups: omitted rows and groups, and contents of records."""

from __future__ import annotations

from dataclasses import replace

from kwire.report import page
from kwire.report.row_types import DeadLetterRow
from tests.support.spark.report_page import Reader
from tests.support.spark.sample_report import HOSTILE, report


def test_omitted_rows_are_counted() -> None:
    whole = report()
    groups = [replace(whole.groups[0], group=f"g{index}") for index in range(40)]
    texts = Reader(page.render_report(replace(whole, groups=groups, omitted={"acknowledgements": 7}))).texts

    assert "and 7 rows more" in texts
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
