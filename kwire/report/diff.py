"""Comparison of two captures by their reports: latency, rates, errors, versions, clients, rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kwire.report import percentiles
from kwire.report.model import Report
from kwire.report.row_types import LatencyRow

K = TypeVar("K")
V = TypeVar("V")

# Smaller shifts are not significant.
SHIFT_RATIO = 1.25
SHIFT_US = 100

NO_CLIENT = "(no client id)"


@dataclass(frozen=True, slots=True)
class LatencyChange:
    """Latency of one API in both captures; None where a capture has no response of it."""

    api: str
    before: LatencyRow | None
    after: LatencyRow | None

    @property
    def ratio(self) -> float | None:
        """Latency at p95 after, divided by that before; None unless both captures have enough requests for it."""
        if self.before is None or self.after is None:
            return None
        if not percentiles.is_meaningful(95, min(self.before.requests, self.after.requests)):
            return None
        return max(self.after.p95_us, 1) / max(self.before.p95_us, 1)

    @property
    def is_shift(self) -> bool:
        """Whether there are enough requests for p95, and its change is large enough to be significant."""
        if self.before is None or self.after is None or self.ratio is None:
            return False
        is_large = abs(self.after.p95_us - self.before.p95_us) >= SHIFT_US
        return is_large and not 1 / SHIFT_RATIO < self.ratio < SHIFT_RATIO


@dataclass(frozen=True, slots=True)
class CountChange:
    """A count in both captures; rates are per thousand requests, or per second for counts of requests."""

    name: tuple[str, ...]
    before: int
    after: int
    rate_before: float | None
    rate_after: float | None

    @property
    def change(self) -> str:
        """New, gone, more, fewer, or same."""
        if not self.before or not self.after:
            return "new" if self.after else "gone"
        before = self.before if self.rate_before is None else self.rate_before
        after = self.after if self.rate_after is None else self.rate_after
        if abs(after - before) <= 0.1 * before:
            return "same"
        return "more" if after > before else "fewer"


@dataclass(frozen=True, slots=True)
class SetChange:
    """A set of values in each capture, as the versions that a client uses of an API; empty where it does not occur."""

    name: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def change(self) -> str:
        """New, gone or changed."""
        if not self.before or not self.after:
            return "new" if self.after else "gone"
        return "changed"


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything on the page that compares two captures."""

    before: Report
    after: Report
    latency: list[LatencyChange]
    requests: list[CountChange]
    errors: list[CountChange]
    rules: list[CountChange]
    clients: list[SetChange]
    versions: list[SetChange]


def compare_reports(before: Report, after: Report) -> Changes:
    """The changes from one report to the other."""
    reports = before, after
    seconds = [_seconds(report) for report in reports]
    thousands = [report.requests / 1000 or None for report in reports]
    return Changes(
        before,
        after,
        latency=_latency_changes(before, after),
        requests=_count_changes([_request_counts(report) for report in reports], seconds),
        errors=_count_changes([_error_counts(report) for report in reports], thousands),
        rules=_count_changes([{(row.rule,): row.breaches for row in report.rules} for report in reports], thousands),
        clients=_set_changes([_client_software(report) for report in reports]),
        versions=_set_changes([_client_versions(report) for report in reports]),
    )


def _latency_changes(before: Report, after: Report) -> list[LatencyChange]:
    rows = [{row.api: row for row in report.latency} for report in (before, after)]
    changes = [LatencyChange(api, rows[0].get(api), rows[1].get(api)) for api in dict.fromkeys([*rows[1], *rows[0]])]
    return sorted(changes, key=lambda row: (not row.is_shift, -(row.ratio or 0), row.api))


def _seconds(report: Report) -> float | None:
    span = report.span_us
    return (span[1] - span[0]) / 1e6 if span is not None and span[1] - span[0] >= 1_000_000 else None


def _request_counts(report: Report) -> dict[tuple[str, ...], int]:
    return {(api,): sum(counts) for api, counts in report.traffic.series.items()}


def _error_counts(report: Report) -> dict[tuple[str, ...], int]:
    counts = Counter[tuple[str, ...]]()
    for row in report.error_rows:
        counts[row.error_name or "?", row.api_name] += row.failures
    return dict(counts)


def _client_software(report: Report) -> dict[tuple[str, ...], set[str]]:
    software: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in report.client_rows:
        software[row.client_id or NO_CLIENT,].add(row.software or "-")
    return software


def _client_versions(report: Report) -> dict[tuple[str, ...], set[str]]:
    return {
        (row.client_id or NO_CLIENT, row.api_name): {f"v{version}" for version in row.versions}
        for row in report.versions
    }


def _count_changes(counts: Sequence[Mapping[tuple[str, ...], int]], units: Sequence[float | None]) -> list[CountChange]:
    changes = [
        CountChange(name, before, after, _rate(before, units[0]), _rate(after, units[1]))
        for name, before, after in _join_by_name(counts, 0)
    ]
    order = ("new", "more", "gone", "fewer", "same")
    return sorted(changes, key=lambda row: (order.index(row.change), -row.after, -row.before, row.name))


def _set_changes(sets: Sequence[Mapping[tuple[str, ...], set[str]]]) -> list[SetChange]:
    def in_order(values: Iterable[str]) -> tuple[str, ...]:
        """Short values first, so that v2 precedes v10."""
        return tuple(sorted(values, key=lambda value: (len(value), value)))

    empty: set[str] = set()
    pairs = [pair for pair in _join_by_name(sets, empty) if pair[1] != pair[2]]
    changed = [SetChange(name, in_order(before), in_order(after)) for name, before, after in pairs]
    return sorted(changed, key=lambda row: (("new", "gone", "changed").index(row.change), row.name))


def _join_by_name(values: Sequence[Mapping[K, V]], missing: V) -> Iterable[tuple[K, V, V]]:
    names = dict.fromkeys([*values[0], *values[1]])
    return [(name, values[0].get(name, missing), values[1].get(name, missing)) for name in names]


def _rate(count: int, unit: float | None) -> float | None:
    return None if unit is None else count / unit
