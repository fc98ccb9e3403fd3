"""Findings: the most important facts of a report, as sentences for the top of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kwire.report import formats
from kwire.report.model import Report

# Limit of share groups with findings, so that the list stays short.
GROUPS_MAX = 3
# Limit of kinds of errors that are named in one sentence.
ERRORS_MAX = 2
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
        sentence = (
            "The only request was read completely, with its response."
            if report.requests == 1
            else f"All {formats.count(report.requests)} requests were read completely, each with its response."
        )
        yield Finding("good", sentence)
    else:
        counts = [f"{formats.count(count)} {status.replace('_', ' ')}" for status, count in sorted(incomplete.items())]
        kind = "bad" if incomplete.keys() & {"undecodable", "gap", "truncated"} else "note"
        yield Finding(kind, f"Not every exchange is complete: {', '.join(counts)}.", "capture")


def _latency_findings(report: Report) -> Iterator[Finding]:
    rows = [row for row in report.latency if not row.is_long_poll]
    # Where there are enough requests for p99, the slowest of all is an outlier.
    frequent = [row for row in rows if row.shown_percentiles["p99"] is not None]
    if frequent:
        slow = max(frequent, key=lambda row: (row.p99_us, row.api))
        details = f"p50 {formats.span(slow.p50_us)}, {formats.plural(slow.requests, 'request')}"
        sentence = f"Slowest at p99, without long polls: {slow.api} with {formats.span(slow.p99_us)} ({details})."
        yield Finding("note", sentence, "latency")
    elif rows:
        slow = max(rows, key=lambda row: (row.max_us, row.api))
        count = formats.plural(slow.requests, "request")
        sentence = f"Slowest request, without long polls: {slow.api} with {formats.span(slow.max_us)} ({count})."
        yield Finding("note", sentence, "latency")


def _error_findings(report: Report) -> Iterator[Finding]:
    if not report.requests:
        return
    if not report.error_responses:
        yield Finding("good", "No response carries an error.")
        return
    carry = formats.number_form(report.error_responses, "carries", "carry")
    responses = f"{formats.plural(report.error_responses, 'response')} to {formats.plural(report.requests, 'request')}"
    counts = Counter[tuple[str, str]]()
    for row in report.error_rows:
        counts[row.error_name or "?", row.api_name] += row.failures
    kinds = [f"{error} to {api} ({formats.count(count)})" for (error, api), count in counts.most_common(ERRORS_MAX)]
    more = f" and {formats.plural(len(counts) - ERRORS_MAX, 'other kind')}" if len(counts) > ERRORS_MAX else ""
    listed = f"; counted by partition: {', '.join(kinds)}{more}" if kinds else ""
    yield Finding("bad", f"{responses} {carry} an error{listed}.", "time")


def _delivery_findings(report: Report) -> Iterator[Finding]:
    for row in report.groups[:GROUPS_MAX]:
        group = f"Share group {formats.name(row.group)}"
        records = formats.plural(row.records, "record")
        summary = f"{group}: {records} in {formats.plural(row.acquisitions, 'delivery', 'deliveries')}"
        if row.redelivered:
            redelivered = formats.plural(row.redelivered, "record was", "records were")
            highest = f"the highest delivery count is {formats.count(row.delivery_count_max)}"
            yield Finding("note", f"{summary}; {redelivered} redelivered, {highest}.", "share-groups")
        else:
            yield Finding("good", f"{summary}, none redelivered.")
        outcomes = report.outcomes.get(row.group, {})
        names = [name for name in ("rejected", "exhausted") if outcomes.get(name)]
        if names:
            archived = ", ".join(f"{formats.count(outcomes[name])} {name}" for name in names)
            yield Finding("bad", f"{group}: records archived without being accepted: {archived}.", "share-groups")


def _refusal_findings(report: Report) -> Iterator[Finding]:
    if report.refused_acks:
        records = formats.plural(report.refused_acks, "record")
        yield Finding("bad", f"The broker refused acknowledgements, of {records} by their offsets.", "locks")


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
    for field, description in (
        ("retransmits", "retransmitted packets"),
        ("zero_windows", "a full receive window (zero window)"),
    ):
        if sums.get(field):
            connections, packets = (
                formats.plural(sums[f"with_{field}"], "connection"),
                formats.plural(sums[field], "packet"),
            )
            yield Finding("note", f"{connections} with {description}: {packets}.", "connections")
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
        more = f", and {formats.plural(rest, 'breach', 'breaches')} of other rules" if rest else ""
        breaches = formats.plural(worst.breaches, "breach", "breaches")
        yield Finding("bad", f"Rules of the protocol were broken: {worst.rule}, {breaches}{more}.", "conformance")
