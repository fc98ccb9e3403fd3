"""The page that compares two captures: its findings, and how a browser renders it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.report import diff_page
from kwire.report.diff import compare_reports
from tests.support.browser import Browser
from tests.support.spark.report_page import Reader, assert_page_is_rendered
from tests.support.spark.sample_report import HOSTILE, changed_report, report

pytestmark = pytest.mark.slow


def test_equal_reports_have_one_finding_of_kind_good() -> None:
    findings = diff_page.build_findings(compare_reports(report(), report()))

    assert [(finding.kind, finding.sentence) for finding in findings] == [
        ("good", "No significant change: no API became slower or faster, and there is no new error.")
    ]


def test_findings_of_kind_bad_come_first() -> None:
    findings = diff_page.build_findings(compare_reports(report(), changed_report()))

    sentences = [(finding.kind, finding.sentence) for finding in findings]
    assert sentences[0] == ("bad", "Produce takes 3 times as long: from 4.3 ms to 12.9 ms at p95.")
    assert ("bad", "New: NOT_LEADER_OR_FOLLOWER to Produce, 40 times.") in sentences
    assert ("bad", "More often: INVALID_RECORD_STATE to ShareAcknowledge, 14 before, 90 after.") in sentences
    assert ("note", "Client with other software: orders.") in sentences


def test_an_api_with_few_requests_is_compared_without_percentiles() -> None:
    few = replace(report(), latency=[replace(row, requests=4) for row in report().latency])

    texts = Reader(diff_page.render_changes(compare_reports(few, report()))).texts

    assert "too few requests for p95" in texts
    assert not [text for text in texts if text.endswith("at p95")]


def test_one_kind_of_error_occurs_no_longer() -> None:
    findings = diff_page.build_findings(compare_reports(report(), changed_report()))

    assert "1 kind of error no longer occurs." in [finding.sentence for finding in findings]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["orders", HOSTILE, "w" * 400])
def test_a_browser_renders_the_changes_without_overflow_or_injection(
    chromium: Browser, tmp_path: Path, width: int, name: str
) -> None:
    page = tmp_path / "changes.html"
    page.write_text(diff_page.render_changes(compare_reports(report(name), changed_report(name))), encoding="utf-8")
    reader = Reader(page.read_text(encoding="utf-8"))

    chromium.open(page, width=width)

    assert_page_is_rendered(chromium, plots_min=7)
    assert "img" not in reader.tags
    assert json.loads(reader.data)["latency"][0]["api"] == "Produce"
