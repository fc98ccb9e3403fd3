"""What stands out in a report, as sentences for its top: the reader should not have to find it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kwire.spark import formats
from kwire.spark.model import Report

# Findings have to stay few to be read.
GROUPS_MAX = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence; `kind` is good, note or bad."""

    kind: str
    sentence: str


def findings(report: Report) -> list[Finding]:
    """What a colleague would say first about this capture."""
    return [*_completeness(report), *_latency(report), *_errors(report), *_deliveries(report), *_refusals(report)]


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
        yield Finding("bad" if broken else "note", f"Not every exchange is complete: {told}.")


def _latency(report: Report) -> Iterator[Finding]:
    rows = [row for row in report.latency if not row.is_long_poll]
    if rows:
        slow = max(rows, key=lambda row: (row.p99_us, row.api))
        yield Finding(
            "note",
            f"Slowest at p99, long polls apart: {slow.api} with {formats.span(slow.p99_us)} "
            f"(p50 {formats.span(slow.p50_us)}, {formats.plural(slow.requests, 'request')}).",
        )


def _errors(report: Report) -> Iterator[Finding]:
    if not report.requests:
        return
    if not report.error_responses:
        yield Finding("good", "No response carries an error.")
        return
    first = report.error_rows[0]
    yield Finding(
        "bad",
        f"{formats.plural(report.error_responses, 'response')} of {formats.count(report.requests)} carry an error; "
        f"most often {first.error} to {first.api} ({formats.count(first.responses)}).",
    )


def _deliveries(report: Report) -> Iterator[Finding]:
    for row in report.groups[:GROUPS_MAX]:
        named = f"Share group {formats.name(row.group)}"
        records, times = formats.plural(row.records, "record"), formats.plural(row.acquisitions, "time")
        told = f"{named}: {records} handed out {times}"
        if row.redelivered:
            again = formats.count(row.redelivered)
            yield Finding("note", f"{told}; {again} more than once, up to delivery {row.delivery_count_max}.")
        else:
            yield Finding("good", f"{told}, none more than once.")
        fates = report.outcomes.get(row.group, {})
        lost = [f"{formats.count(fates[fate])} {fate}" for fate in ("rejected", "exhausted") if fates.get(fate)]
        if lost:
            yield Finding("bad", f"{named}: given up without being accepted: {', '.join(lost)}.")


def _refusals(report: Report) -> Iterator[Finding]:
    if report.refused_acks:
        yield Finding("bad", f"The broker refused acknowledgements of {formats.plural(report.refused_acks, 'record')}.")
