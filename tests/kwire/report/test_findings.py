"""Findings of a report, in order of severity."""

from __future__ import annotations

import re
from dataclasses import replace

from kwire.report.findings import build_findings
from kwire.report.model import Report
from kwire.report.row_types import ErrorRow, GroupRow
from tests.support.spark.sample_report import report


def test_findings_cover_problems_and_good_results() -> None:
    sentences = [(finding.kind, finding.sentence) for finding in build_findings(report())]

    assert ("bad", "Not every exchange is complete: 4 no response, 1 undecodable.") in sentences
    deliveries = "1,840 records in 1,950 deliveries; 74 records were redelivered, the highest delivery count is 4"
    assert ("note", f"Share group orders: {deliveries}.") in sentences
    assert (
        "bad",
        "Share group orders: records archived without being accepted: 26 rejected, 5 exhausted.",
    ) in sentences

    assert [kind for kind, _ in sentences] == sorted((kind for kind, _ in sentences), key=["bad", "note", "good"].index)
    assert ("bad", "1 member acknowledged too late: the lock on 30 records had expired.") in sentences
    assert ("note", "2 connections with retransmitted packets: 14 packets.") in sentences
    assert ("note", "1 connection ended by a reset.") in sentences
    assert ("bad", "Brokers throttle clients for up to 200 ms.") in sentences
    assert ("note", "1 error while members joined, synced or sent heartbeats, in orders.") in sentences
    rules = "Rules of the protocol were broken: response out of order, 3 breaches, and 1 breach of other rules."
    assert ("bad", rules) in sentences

    whole = replace(report(), statuses={"ok": 1_502}, error_responses=0, error_rows=[], groups=[], refused_acks=0)
    without_problems = replace(whole, lock_use=[], rules=[], requests_in_flight=[])
    assert {finding.kind for finding in build_findings(without_problems)} == {"good", "note"}


def sentences_of(whole: Report) -> list[str]:
    return [finding.sentence for finding in build_findings(whole)]


def test_the_slowest_api_is_named_by_p99_only_if_there_are_enough_requests() -> None:
    rows = report().latency
    few = [replace(row, requests=99) for row in rows if row.api != "CreateTopics"]

    assert "Slowest at p99, without long polls: Produce with 12.9 ms (p50 850 µs, 260 requests)." in sentences_of(
        report()
    )
    few_report = replace(report(), latency=few)
    assert "Slowest request, without long polls: Produce with 48.2 ms (99 requests)." in sentences_of(few_report)
    one_report = replace(report(), latency=[replace(rows[3], requests=1)])
    assert "Slowest request, without long polls: CreateTopics with 21 ms (1 request)." in sentences_of(one_report)


def test_sentences_about_one_thing_are_singular() -> None:
    problems = {"with_retransmits": 1, "retransmits": 1, "with_zero_windows": 1, "zero_windows": 1}
    one = replace(
        report(),
        files=[replace(report().files[0], requests=1, ok=1)],
        statuses={"ok": 1},
        error_responses=1,
        error_rows=[replace(report().error_rows[0], failures=1)],
        groups=[GroupRow("g", 2, 1, 1, 2)],
        connection_problems=problems,
        rules=[replace(report().rules[0], breaches=1)],
        refused_acks=1,
    )

    sentences = sentences_of(one)

    for sentence in (
        "The only request was read completely, with its response.",
        "Share group g: 1 record in 2 deliveries; 1 record was redelivered, the highest delivery count is 2.",
        "1 connection with retransmitted packets: 1 packet.",
        "1 connection with a full receive window (zero window): 1 packet.",
        "Rules of the protocol were broken: response out of order, 1 breach.",
    ):
        assert sentence in sentences
    error = (
        "1 response to 1 request carries an error; counted by partition: INVALID_RECORD_STATE to ShareAcknowledge (1)."
    )
    assert error in sentences
    assert [sentence for sentence in sentences if re.search(r"\b1 \w+s\b", sentence)] == []


def test_errors_are_counted_by_kind_over_all_partitions() -> None:
    rows = [
        ErrorRow("Produce", "NOT_LEADER_OR_FOLLOWER", "t", index, 2, 1, None, None, "f", None, None) for index in (0, 1)
    ]
    rows += [ErrorRow(api, "UNKNOWN_TOPIC_ID", "t", 0, 1, 1, None, None, "f", None, None) for api in ("A", "B", "C")]

    (sentence,) = [text for text in sentences_of(replace(report(), error_rows=rows)) if "carry an error" in text]

    assert sentence.endswith("NOT_LEADER_OR_FOLLOWER to Produce (4), UNKNOWN_TOPIC_ID to A (1) and 2 other kinds.")
