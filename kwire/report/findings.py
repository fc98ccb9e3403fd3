"""Findings: the most important facts of a report, as sentences for the top of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kwire.report import formats
from kwire.report.model import Report

# Limit of share groups with findings, so that the list stays short.
GROUPS_MAX = 3
# Producers with fewer requests are not judged by their request sizes.
TINY_REQUESTS_MIN = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence; `kind` is good, note or bad, `anchor` the section with the details."""

    kind: str
    sentence: str
    anchor: str = ""


def build_findings(report: Report) -> list[Finding]:
    """The findings about a report, those of kind bad first."""
    topics = (
        *(_completeness_findings, _latency_findings, _error_findings, _delivery_findings, _refusal_findings),
        *(_lock_findings, _producer_findings, _connection_findings, _group_findings, _rule_findings),
    )
    return sort_by_kind(finding for find in topics for finding in find(report))


def sort_by_kind(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, those of kind bad first."""
    return sorted(findings, key=lambda finding: ("bad", "note", "good").index(finding.kind))


def _completeness_findings(report: Report) -> Iterator[Finding]:
    incomplete = {status: count for status, count in report.statuses.items() if status != "ok" and count}
    if not report.requests:
        yield Finding("bad", "No Kafka request was found in these captures.")
    elif not incomplete:
        requests = formats.plural(report.requests, "request")
        yield Finding("good", f"All {requests} were read completely, each with its response.")
    else:
        counts = [f"{formats.count(count)} {status.replace('_', ' ')}" for status, count in sorted(incomplete.items())]
        kind = "bad" if incomplete.keys() & {"undecodable", "gap", "truncated"} else "note"
        yield Finding(kind, f"Not every exchange is complete: {', '.join(counts)}.", "capture")


def _latency_findings(report: Report) -> Iterator[Finding]:
    rows = [row for row in report.latency if not row.is_long_poll]
    if rows:
        slow = max(rows, key=lambda row: (row.p99_us, row.api))
        details = f"p50 {formats.span(slow.p50_us)}, {formats.plural(slow.requests, 'request')}"
        sentence = f"Slowest at p99, without long polls: {slow.api} with {formats.span(slow.p99_us)} ({details})."
        yield Finding("note", sentence, "latency")


def _error_findings(report: Report) -> Iterator[Finding]:
    if not report.requests:
        return
    if not report.error_responses:
        yield Finding("good", "No response carries an error.")
        return
    first = max(report.error_rows, key=lambda row: row.failures)
    responses = f"{formats.plural(report.error_responses, 'response')} of {formats.count(report.requests)}"
    most_frequent = f"{first.error_name} to {first.api_name} ({formats.count(first.failures)})"
    yield Finding("bad", f"{responses} carry an error; most often {most_frequent}.", "time")


def _delivery_findings(report: Report) -> Iterator[Finding]:
    for row in report.groups[:GROUPS_MAX]:
        group = f"Share group {formats.name(row.group)}"
        records, times = formats.plural(row.records, "record"), formats.plural(row.acquisitions, "time")
        summary = f"{group}: {records} acquired {times}"
        if row.redelivered:
            redelivered = f"{formats.count(row.redelivered)} more than once, up to delivery {row.delivery_count_max}"
            yield Finding("note", f"{summary}; {redelivered}.", "share-groups")
        else:
            yield Finding("good", f"{summary}, none more than once.")
        outcomes = report.outcomes.get(row.group, {})
        names = [name for name in ("rejected", "exhausted") if outcomes.get(name)]
        if names:
            archived = ", ".join(f"{formats.count(outcomes[name])} {name}" for name in names)
            yield Finding("bad", f"{group}: archived without being accepted: {archived}.", "share-groups")


def _refusal_findings(report: Report) -> Iterator[Finding]:
    if report.refused_acks:
        records = formats.plural(report.refused_acks, "record")
        yield Finding("bad", f"The broker refused acknowledgements of {records}.", "locks")


def _lock_findings(report: Report) -> Iterator[Finding]:
    late = [row for row in report.lock_use if row.late]
    if late:
        records = formats.plural(sum(row.late for row in late), "record")
        members = formats.plural(len(late), "member")
        yield Finding("bad", f"{members} acknowledged too late: the lock on {records} had expired.", "locks")


def _producer_findings(report: Report) -> Iterator[Finding]:
    produced = (row for row in report.batches if row.api_name == "Produce")
    worst = max(produced, key=lambda row: row.tiny, default=None)
    if worst is not None and worst.requests >= TINY_REQUESTS_MIN and worst.tiny > worst.requests / 2:
        producer, part = formats.name(worst.client_id or ""), formats.share(worst.tiny, worst.requests)
        sentence = f"Producer {producer} sends small requests: {part} of them carry less than 1 KiB of records."
        yield Finding("note", sentence, "clients")


def _connection_findings(report: Report) -> Iterator[Finding]:
    sums = report.connection_problems
    for field, description in (("retransmits", "retransmitted packets"), ("zero_windows", "a full receive window")):
        if sums.get(field):
            connections, times = formats.plural(sums[f"with_{field}"], "connection"), formats.count(sums[field])
            yield Finding("note", f"{connections} with {description}, {times} times.", "connections")
    endings = {"resets": "ended by a reset", "idle_closes": "closed after being idle for a minute or more"}
    for field, description in endings.items():
        if sums.get(field):
            yield Finding("note", f"{formats.plural(sums[field], 'connection')} {description}.", "connections")
    throttled_ms = max((row.throttle_ms_max for row in report.requests_in_flight), default=0)
    if throttled_ms:
        yield Finding("bad", f"Brokers throttle clients for up to {formats.span_ms(throttled_ms)}.", "connections")


def _group_findings(report: Report) -> Iterator[Finding]:
    failed = [row for row in report.rebalances if row.errors]
    if failed:
        names = ", ".join(formats.name(row.group_id or "") for row in failed[:3])
        errors = formats.plural(sum(row.errors for row in failed), "error")
        more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        yield Finding("note", f"{errors} while members joined, synced or sent heartbeats, in {names}{more}.", "groups")


def _rule_findings(report: Report) -> Iterator[Finding]:
    if report.rules:
        worst = report.rules[0]
        rest = sum(row.breaches for row in report.rules[1:])
        more = f", and {formats.count(rest)} of other kinds" if rest else ""
        times = formats.plural(worst.breaches, "time")
        yield Finding("bad", f"Protocol rules were broken {times}: {worst.rule}{more}.", "conformance")
