"""What changed between two captures: found, told and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.spark import changepage
from kwire.spark.changes import compare
from kwire.spark.model import Report, Timeline
from kwire.spark.row_types import ClientRow, ErrorRow, LatencyRow, RuleRow
from tests.kwire.spark.browser import Browser
from tests.kwire.spark.samples import HOSTILE, START_US, at, file, report
from tests.kwire.spark.sights import Reader, assert_all_is_seen


def later(name: str = "orders") -> Report:
    """The same captures after something went wrong: slower, with new errors, another client and another version."""
    before = report(name)
    latency = [replace(row, p95_us=row.p95_us * 3) if row.api == "Produce" else row for row in before.latency]
    latency = [row for row in latency if row.api != "CreateTopics"]
    latency.append(LatencyRow("DeleteTopics", "v6", 1, 9_000, 9_000, 9_000, 9_000))
    newer = replace(before.versions[0], versions=[2])
    return replace(
        before,
        latency=latency,
        error_rows=[
            ErrorRow("Produce", "NOT_LEADER_OR_FOLLOWER", name, 3, 40, 1, *at(1, 2), file(name), 4, 9),
            replace(before.error_rows[0], failures=90),
        ],
        client_rows=[replace(before.client_rows[0], software="other 1.0"), ClientRow("x", "", 1, 1, 1, 0, 1, 1, None)],
        versions=[newer, *before.versions[1:]],
        rules=[RuleRow("response out of order", 30, 1, *at(4, 9))],
    )


def test_a_shift_counts_where_it_is_far_and_often_seen() -> None:
    changes = compare(report(), later())

    by_api = {row.api: row for row in changes.latency}
    assert [row.api for row in changes.latency if row.is_shift] == ["Produce"]
    assert changes.latency[0].api == "Produce"
    assert by_api["Produce"].ratio == pytest.approx(3.0)
    assert (by_api["CreateTopics"].after, by_api["DeleteTopics"].before) == (None, None)

    seldom = [replace(row, requests=19) for row in later().latency]
    assert not any(row.is_shift for row in compare(report(), replace(later(), latency=seldom)).latency)


def test_errors_are_new_gone_more_or_fewer_by_their_rate() -> None:
    changes = compare(report(), later())

    assert {(row.name, row.word, row.before, row.after) for row in changes.errors} == {
        (("NOT_LEADER_OR_FOLLOWER", "Produce"), "new", 0, 40),
        (("INVALID_RECORD_STATE", "ShareAcknowledge"), "more", 14, 90),
        (("SHARE_SESSION_NOT_FOUND", "ShareFetch"), "gone", 2, 0),
    }
    assert [row.word for row in changes.rules] == ["more", "gone"]

    # Ten times as many requests with ten times as many errors are no worse.
    large = replace(
        report(),
        files=[replace(report().files[0], requests=15_020)],
        error_rows=[replace(row, failures=row.failures * 10) for row in report().error_rows],
    )
    assert {row.word for row in compare(report(), large).errors} == {"same"}


def test_rates_are_told_for_captures_of_a_second_and_longer() -> None:
    short = replace(report(), files=[replace(report().files[0], last_us=START_US + 10)])
    one = Timeline(START_US, 1, 1, {"Fetch": [473]})

    changed = compare(replace(short, traffic=one), replace(report(), traffic=one)).requests

    assert changed[0].rate_before is None
    assert changed[0].rate_after == pytest.approx(10.0)


def test_clients_and_versions_that_differ_are_named() -> None:
    changes = compare(report(), later())

    assert [(row.name, row.word, row.before, row.after) for row in changes.clients] == [
        (("x",), "new", (), ("-",)),
        (("(no client id)",), "gone", ("-",), ()),
        (("loader",), "gone", ("librdkafka 2.16.0",), ()),
        (("orders",), "changed", ("apache-kafka-java 4.3.0",), ("other 1.0",)),
    ]
    assert [(row.name, row.before, row.after) for row in changes.versions] == [
        (("orders", "ShareFetch"), ("v1", "v2"), ("v2",))
    ]


def test_what_is_the_same_is_told_as_such() -> None:
    told = changepage.findings(compare(report(), report()))

    assert [(each.kind, each.sentence) for each in told] == [
        ("good", "Nothing of note changed: no API became slower or faster, no error is new.")
    ]


def test_the_worst_changes_are_told_first() -> None:
    told = [(each.kind, each.sentence) for each in changepage.findings(compare(report(), later()))]

    assert told[0] == ("bad", "Produce takes 3 times as long: from 4.3 ms to 12.9 ms at p95.")
    assert ("bad", "New: NOT_LEADER_OR_FOLLOWER to Produce, 40 times.") in told
    assert ("bad", "More often: INVALID_RECORD_STATE to ShareAcknowledge, 14 before, 90 after.") in told
    assert ("note", "Clients with other software: orders.") in told


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["orders", HOSTILE, "w" * 400])
def test_a_browser_shows_the_changes_and_nothing_breaks_out(
    chromium: Browser, tmp_path: Path, width: int, name: str
) -> None:
    page = tmp_path / "changes.html"
    page.write_text(changepage.render(compare(report(name), later(name))), encoding="utf-8")
    reader = Reader(page.read_text(encoding="utf-8"))

    chromium.open(page, width=width)

    assert_all_is_seen(chromium, plots_min=7)
    assert "img" not in reader.tags
    assert json.loads(reader.data)["latency"][0]["api"] == "Produce"
