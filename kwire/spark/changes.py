"""What changed between two captures, from their two reports: latency, rates, errors, versions, clients, rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kwire.spark.model import Report
from kwire.spark.row_types import LatencyRow

K = TypeVar("K")
V = TypeVar("V")

# A shift below these says more about chance than about the broker.
SHIFT_RATIO = 1.25
SHIFT_US = 100
SHIFT_REQUESTS_MIN = 20

NO_CLIENT = "(no client id)"


@dataclass(frozen=True, slots=True)
class LatencyChange:
    """One API in both captures; None where one of them has no answer to it."""

    api: str
    before: LatencyRow | None
    after: LatencyRow | None

    @property
    def ratio(self) -> float | None:
        """How many times as long as before it takes at p95."""
        if self.before is None or self.after is None:
            return None
        return max(self.after.p95_us, 1) / max(self.before.p95_us, 1)

    @property
    def is_shift(self) -> bool:
        """Whether the change at p95 is large enough, and seen often enough, to be told."""
        if self.before is None or self.after is None or self.ratio is None:
            return False
        often = min(self.before.requests, self.after.requests) >= SHIFT_REQUESTS_MIN
        far = abs(self.after.p95_us - self.before.p95_us) >= SHIFT_US
        return often and far and not 1 / SHIFT_RATIO < self.ratio < SHIFT_RATIO


@dataclass(frozen=True, slots=True)
class CountChange:
    """How often something happened; the rates are per thousand requests, or per second where it is requests."""

    name: tuple[str, ...]
    before: int
    after: int
    rate_before: float | None
    rate_after: float | None

    @property
    def word(self) -> str:
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
    """What a thing has in each capture, as the versions that a client uses of an API; empty where it is not there."""

    name: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def word(self) -> str:
        """New, gone or changed."""
        if not self.before or not self.after:
            return "new" if self.after else "gone"
        return "changed"


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything on the page of two captures."""

    before: Report
    after: Report
    latency: list[LatencyChange]
    requests: list[CountChange]
    errors: list[CountChange]
    rules: list[CountChange]
    clients: list[SetChange]
    versions: list[SetChange]


def compare(before: Report, after: Report) -> Changes:
    """What changed from one capture to the other."""
    reports = before, after
    seconds = [_seconds(report) for report in reports]
    thousands = [report.requests / 1000 or None for report in reports]
    return Changes(
        before,
        after,
        latency=_latency(before, after),
        requests=_counts([_requests(report) for report in reports], seconds),
        errors=_counts([_errors(report) for report in reports], thousands),
        rules=_counts([{(row.rule,): row.breaches for row in report.rules} for report in reports], thousands),
        clients=_sets([_clients(report) for report in reports]),
        versions=_sets([_versions(report) for report in reports]),
    )


def _latency(before: Report, after: Report) -> list[LatencyChange]:
    rows = [{row.api: row for row in report.latency} for report in (before, after)]
    found = [LatencyChange(api, rows[0].get(api), rows[1].get(api)) for api in dict.fromkeys([*rows[1], *rows[0]])]
    return sorted(found, key=lambda row: (not row.is_shift, -(row.ratio or 0), row.api))


def _seconds(report: Report) -> float | None:
    span = report.span_us
    return (span[1] - span[0]) / 1e6 if span is not None and span[1] - span[0] >= 1_000_000 else None


def _requests(report: Report) -> dict[tuple[str, ...], int]:
    return {(api,): sum(counts) for api, counts in report.traffic.series.items()}


def _errors(report: Report) -> dict[tuple[str, ...], int]:
    found = Counter[tuple[str, ...]]()
    for row in report.error_rows:
        found[row.error_name or "?", row.api_name] += row.failures
    return dict(found)


def _clients(report: Report) -> dict[tuple[str, ...], set[str]]:
    found: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in report.client_rows:
        found[row.client_id or NO_CLIENT,].add(row.software or "-")
    return found


def _versions(report: Report) -> dict[tuple[str, ...], set[str]]:
    return {
        (row.client_id or NO_CLIENT, row.api_name): {f"v{each}" for each in row.versions} for row in report.versions
    }


def _counts(found: Sequence[Mapping[tuple[str, ...], int]], units: Sequence[float | None]) -> list[CountChange]:
    changes = [
        CountChange(name, before, after, _rate(before, units[0]), _rate(after, units[1]))
        for name, before, after in _both(found, 0)
    ]
    order = ("new", "more", "gone", "fewer", "same")
    return sorted(changes, key=lambda row: (order.index(row.word), -row.after, -row.before, row.name))


def _sets(found: Sequence[Mapping[tuple[str, ...], set[str]]]) -> list[SetChange]:
    def told(values: Iterable[str]) -> tuple[str, ...]:
        """In the order in which people count."""
        return tuple(sorted(values, key=lambda value: (len(value), value)))

    empty: set[str] = set()
    changed = [
        SetChange(name, told(before), told(after)) for name, before, after in _both(found, empty) if before != after
    ]
    return sorted(changed, key=lambda row: (("new", "gone", "changed").index(row.word), row.name))


def _both(found: Sequence[Mapping[K, V]], missing: V) -> Iterable[tuple[K, V, V]]:
    names = dict.fromkeys([*found[0], *found[1]])
    return [(name, found[0].get(name, missing), found[1].get(name, missing)) for name in names]


def _rate(count: int, unit: float | None) -> float | None:
    return None if unit is None else count / unit
