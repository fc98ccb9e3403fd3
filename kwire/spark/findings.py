"""What stands out in a report, as sentences for its top: the reader should not have to find it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kwire.spark import formats
from kwire.spark.model import Report

# Findings have to stay few to be read.
GROUPS_MAX = 3
# Below this many requests a producer has no habit yet.
TINY_REQUESTS_MIN = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence; `kind` is good, note or bad, `anchor` the section that shows more."""

    kind: str
    sentence: str
    anchor: str = ""


def findings(report: Report) -> list[Finding]:
    """What a colleague would say about this capture, the bad news first."""
    found = [
        *_completeness(report),
        *_latency(report),
        *_errors(report),
        *_deliveries(report),
        *_refusals(report),
        *_locks(report),
        *_producers(report),
        *_connections(report),
        *_groups(report),
        *_rules(report),
    ]
    return sorted(found, key=lambda each: ("bad", "note", "good").index(each.kind))


def _completeness(report: Report) -> Iterator[Finding]:
    lost = {status: count for status, count in report.statuses.items() if status != "ok" and count}
    if not report.requests:
        yield Finding("bad", "No Kafka request was found in these captures.")
    elif not lost:
        yield Finding(
            "good", f"All {formats.plural(report.requests, 'request')} were read whole, each with its answer."
        )
    else:
        told = ", ".join(f"{formats.count(count)} {status.replace('_', ' ')}" for status, count in sorted(lost.items()))
        broken = lost.keys() & {"undecodable", "gap", "truncated"}
        yield Finding("bad" if broken else "note", f"Not every exchange is complete: {told}.", "capture")


def _latency(report: Report) -> Iterator[Finding]:
    rows = [row for row in report.latency if not row.is_long_poll]
    if rows:
        slow = max(rows, key=lambda row: (row.p99_us, row.api))
        yield Finding(
            "note",
            f"Slowest at p99, long polls apart: {slow.api} with {formats.span(slow.p99_us)} "
            f"(p50 {formats.span(slow.p50_us)}, {formats.plural(slow.requests, 'request')}).",
            "latency",
        )


def _errors(report: Report) -> Iterator[Finding]:
    if not report.requests:
        return
    if not report.error_responses:
        yield Finding("good", "No response carries an error.")
        return
    first = max(report.error_rows, key=lambda row: row.failures)
    yield Finding(
        "bad",
        f"{formats.plural(report.error_responses, 'response')} of {formats.count(report.requests)} carry an error; "
        f"most often {first.error_name} to {first.api_name} ({formats.count(first.failures)}).",
        "time",
    )


def _deliveries(report: Report) -> Iterator[Finding]:
    for row in report.groups[:GROUPS_MAX]:
        named = f"Share group {formats.name(row.group)}"
        records, times = formats.plural(row.records, "record"), formats.plural(row.acquisitions, "time")
        told = f"{named}: {records} handed out {times}"
        if row.redelivered:
            again = formats.count(row.redelivered)
            yield Finding(
                "note", f"{told}; {again} more than once, up to delivery {row.delivery_count_max}.", "share-groups"
            )
        else:
            yield Finding("good", f"{told}, none more than once.")
        fates = report.outcomes.get(row.group, {})
        lost = [f"{formats.count(fates[fate])} {fate}" for fate in ("rejected", "exhausted") if fates.get(fate)]
        if lost:
            yield Finding("bad", f"{named}: given up without being accepted: {', '.join(lost)}.", "share-groups")


def _refusals(report: Report) -> Iterator[Finding]:
    if report.refused_acks:
        yield Finding(
            "bad", f"The broker refused acknowledgements of {formats.plural(report.refused_acks, 'record')}.", "locks"
        )


def _locks(report: Report) -> Iterator[Finding]:
    late = [row for row in report.lock_use if row.late]
    if late:
        records = formats.plural(sum(row.late for row in late), "record")
        members = formats.plural(len(late), "member")
        yield Finding("bad", f"{members} spoke too late: the lock on {records} had run out.", "locks")


def _producers(report: Report) -> Iterator[Finding]:
    sent = [row for row in report.batches if row.api_name == "Produce"]
    worst = max(sent, key=lambda row: row.tiny, default=None)
    if worst is not None and worst.requests >= TINY_REQUESTS_MIN and worst.tiny > worst.requests / 2:
        part = formats.share(worst.tiny, worst.requests)
        yield Finding(
            "note",
            f"Producer {formats.name(worst.client_id or '')} sends little at a time: {part} of its requests carry less "
            "than 1 KiB of records.",
            "clients",
        )


def _connections(report: Report) -> Iterator[Finding]:
    found = report.troubles
    for field, told in (("retransmits", "packets that were sent again"), ("zero_windows", "a full receive window")):
        if found.get(field):
            those = formats.plural(found[f"with_{field}"], "connection")
            yield Finding("note", f"{those} with {told}, {formats.count(found[field])} times.", "connections")
    for field, told in (("resets", "ended by a reset"), ("idle_closes", "closed after a minute or more of silence")):
        if found.get(field):
            yield Finding("note", f"{formats.plural(found[field], 'connection')} {told}.", "connections")
    throttled = max((row.throttle_ms_max for row in report.depth), default=0)
    if throttled:
        yield Finding("bad", f"Brokers throttle: for {formats.span(throttled * 1000)} at most.", "connections")


def _groups(report: Report) -> Iterator[Finding]:
    failed = [row for row in report.rebalances if row.errors]
    if failed:
        names = ", ".join(formats.name(row.group_id or "") for row in failed[:3])
        errors = formats.plural(sum(row.errors for row in failed), "error")
        more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        yield Finding("note", f"{errors} while members joined, synchronised or beat, in {names}{more}.", "groups")


def _rules(report: Report) -> Iterator[Finding]:
    if report.rules:
        worst = report.rules[0]
        rest = sum(row.breaches for row in report.rules[1:])
        more = f", and {formats.count(rest)} of other kinds" if rest else ""
        yield Finding(
            "bad",
            f"The protocol's rules were broken {formats.plural(worst.breaches, 'time')}: {worst.rule}{more}.",
            "conformance",
        )
