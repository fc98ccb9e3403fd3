"""Comparison of two reports: latency shifts, error rates, clients and versions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kwire.report.diff import compare_reports
from kwire.report.model import Timeline
from tests.support.spark.sample_report import START_US, changed_report, report


def test_a_latency_shift_is_significant_if_it_is_large_and_frequent() -> None:
    changes = compare_reports(report(), changed_report())

    by_api = {row.api: row for row in changes.latency}
    assert [row.api for row in changes.latency if row.is_shift] == ["Produce"]
    assert changes.latency[0].api == "Produce"
    assert by_api["Produce"].ratio == pytest.approx(3.0)
    assert (by_api["CreateTopics"].after, by_api["DeleteTopics"].before) == (None, None)

    infrequent = [replace(row, requests=19) for row in changed_report().latency]
    rare_changes = compare_reports(report(), replace(changed_report(), latency=infrequent))
    assert not any(row.is_shift for row in rare_changes.latency)


def test_errors_are_new_gone_more_or_fewer_by_their_rate() -> None:
    changes = compare_reports(report(), changed_report())

    assert {(row.name, row.change, row.before, row.after) for row in changes.errors} == {
        (("NOT_LEADER_OR_FOLLOWER", "Produce"), "new", 0, 40),
        (("INVALID_RECORD_STATE", "ShareAcknowledge"), "more", 14, 90),
        (("SHARE_SESSION_NOT_FOUND", "ShareFetch"), "gone", 2, 0),
    }
    assert [row.change for row in changes.rules] == ["more", "gone"]

    # Ten times as many requests with ten times as many errors are no worse.
    large = replace(
        report(),
        files=[replace(report().files[0], requests=15_020)],
        error_rows=[replace(row, failures=row.failures * 10) for row in report().error_rows],
    )
    assert {row.change for row in compare_reports(report(), large).errors} == {"same"}


def test_rates_are_computed_for_captures_of_a_second_and_longer() -> None:
    short = replace(report(), files=[replace(report().files[0], last_us=START_US + 10)])
    timeline = Timeline(START_US, 1, 1, {"Fetch": [473]})

    requests = compare_reports(replace(short, traffic=timeline), replace(report(), traffic=timeline)).requests

    assert requests[0].rate_before is None
    assert requests[0].rate_after == pytest.approx(10.0)


def test_clients_and_versions_that_differ_are_named() -> None:
    changes = compare_reports(report(), changed_report())

    assert [(row.name, row.change, row.before, row.after) for row in changes.clients] == [
        (("x",), "new", (), ("-",)),
        (("(no client id)",), "gone", ("-",), ()),
        (("loader",), "gone", ("librdkafka 2.16.0",), ()),
        (("orders",), "changed", ("apache-kafka-java 4.3.0",), ("other 1.0",)),
    ]
    (versions,) = changes.versions
    assert (versions.name, versions.before, versions.after) == (("orders", "ShareFetch"), ("v1", "v2"), ("v2",))
