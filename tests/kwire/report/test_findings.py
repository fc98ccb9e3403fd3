"""Findings of a report, in order of severity."""

from __future__ import annotations

from dataclasses import replace

from kwire.report.findings import build_findings
from tests.support.spark.sample_report import report


def test_findings_cover_problems_and_good_results() -> None:
    sentences = [(finding.kind, finding.sentence) for finding in build_findings(report())]

    assert ("bad", "Not every exchange is complete: 4 no response, 1 undecodable.") in sentences
    deliveries = "1,840 records acquired 1,950 times; 74 more than once, up to delivery 4"
    assert ("note", f"Share group orders: {deliveries}.") in sentences
    assert ("bad", "Share group orders: archived without being accepted: 26 rejected, 5 exhausted.") in sentences

    assert [kind for kind, _ in sentences] == sorted((kind for kind, _ in sentences), key=["bad", "note", "good"].index)
    assert ("bad", "1 member acknowledged too late: the lock on 30 records had expired.") in sentences
    assert ("note", "2 connections with retransmitted packets, 14 times.") in sentences
    assert ("note", "1 connection ended by a reset.") in sentences
    assert ("bad", "Brokers throttle clients for up to 200 ms.") in sentences
    assert ("note", "1 error while members joined, synced or sent heartbeats, in orders.") in sentences
    assert ("bad", "Protocol rules were broken 3 times: response out of order, and 1 of other kinds.") in sentences

    whole = replace(report(), statuses={"ok": 1_502}, error_responses=0, error_rows=[], groups=[], refused_acks=0)
    without_problems = replace(whole, lock_use=[], rules=[], requests_in_flight=[])
    assert {finding.kind for finding in build_findings(without_problems)} == {"good", "note"}
