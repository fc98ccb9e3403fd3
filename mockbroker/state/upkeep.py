"""When the logs of a cluster are cleaned: one timer for all, which stands still while there is nothing to clean.

Kafka looks at every log each `log.retention.check.interval.ms` (those that are not compacted) and whenever its cleaner
wakes from `log.cleaner.backoff.ms` (those that are). The same moments are kept here, without the visits in vain.
Source: Kafka's LogManager.cleanupLogs and LogCleaner.CleanerThread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from mockbroker.state import cleaning
from mockbroker.state.batch_rules import roll_rules
from mockbroker.state.cleaning import CleaningRules
from mockbroker.state.log import PartitionLog

Place = tuple[bytes, int]


class Configs(Protocol):
    """What the upkeep needs of the cluster's configuration."""

    generation: int

    def topic(self, name: str) -> Mapping[str, object]:
        """A topic's configuration in force."""

    def brokers(self) -> Mapping[str, object]:
        """The configuration in force of all brokers."""


class _Round(msgspec.Struct):
    """One of the two regular visits: every `interval_ms` from `first_ms` on, to the logs that have a due time."""

    first_ms: int
    interval_ms: int
    due: dict[Place, int]
    next_ms: int | None = None
    last_ms: int = -1

    def set(self, place: Place, due_ms: int | None, now_ms: int) -> None:
        """A log wants a visit at this time, 0 for the next one, or none.

        A visit that nobody wants any more is made all the same, and finds nothing to do.
        """
        if due_ms is None:
            self.due.pop(place, None)
            return
        self.due[place] = due_ms
        at_ms = self._visit_at(max(due_ms, now_ms, self.last_ms + 1))
        self.next_ms = at_ms if self.next_ms is None else min(self.next_ms, at_ms)

    def visit(self, now_ms: int) -> list[Place]:
        """Who is due, when it is time for a visit."""
        if self.next_ms is None or self.next_ms > now_ms:
            return []
        self.next_ms, self.last_ms = None, now_ms
        places = [place for place, due_ms in self.due.items() if due_ms <= now_ms]
        later = min((due_ms for due_ms in self.due.values() if due_ms > now_ms), default=None)
        if later is not None:
            self.next_ms = self._visit_at(later)
        return places

    def _visit_at(self, time_ms: int) -> int:
        visits = -((self.first_ms - time_ms) // self.interval_ms)
        return self.first_ms + max(0, visits) * self.interval_ms


class Upkeep:
    """Cleans the logs that are told to it by `touched`.

    log_of: the log of a place and its topic's name, None when the topic is gone. started_ms: when the brokers started.
    """

    def __init__(
        self, configs: Configs, log_of: Callable[[Place], tuple[str, PartitionLog] | None], *, started_ms: int
    ) -> None:
        self._configs = configs
        self._log_of = log_of
        self._started_ms = started_ms
        self._touched: dict[Place, None] = {}
        self._known: dict[Place, None] = {}
        self._rules: dict[str, CleaningRules] = {}
        self._generation = -1
        self._deletion = _Round(0, 1, {})
        self._compaction = _Round(0, 1, {})

    def touched(self, place: Place) -> None:
        """Something was appended to a log, or has gone from it."""
        self._touched[place] = None

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """When the next log may have to be cleaned, or None."""
        self._refresh(now_ms)
        times = [one.next_ms for one in (self._deletion, self._compaction) if one.next_ms is not None]
        return min(times, default=None)

    def expire(self, *, now_ms: int) -> None:
        """Clean what is due."""
        self._refresh(now_ms)
        for place in self._deletion.visit(now_ms):
            self._clean(place, now_ms, cleaning.delete_old)
            self._touched[place] = None
        places = self._compaction.visit(now_ms)
        for place in places:
            self._clean(place, now_ms, _compact)
        for place in places:
            self._clean(place, now_ms, cleaning.delete_old)
            self._touched[place] = None

    def _clean(self, place: Place, now_ms: int, act: Callable[..., None]) -> None:
        found = self._log_of(place)
        if found is not None:
            act(found[1], self._rules_of(found[0]), now_ms=now_ms)

    def _refresh(self, now_ms: int) -> None:
        if self._generation != self._configs.generation:
            self._generation = self._configs.generation
            self._rules.clear()
            self._touched.update(self._known)
            brokers = self._configs.brokers()
            first_ms = self._started_ms + _number(brokers, "log.initial.task.delay.ms")
            self._deletion = _Round(first_ms, _number(brokers, "log.retention.check.interval.ms"), {})
            backoff_ms = max(1, _number(brokers, "log.cleaner.backoff.ms"))
            self._compaction = _Round(self._started_ms, backoff_ms, {})
        if not self._touched:
            return
        places, self._touched = self._touched, {}
        for place in places:
            self._schedule(place, now_ms)

    def _schedule(self, place: Place, now_ms: int) -> None:
        found = self._log_of(place)
        if found is None:
            for one in (self._deletion, self._compaction):
                one.set(place, None, now_ms)
            self._known.pop(place, None)
            return
        self._known[place] = None
        name, log = found
        rules = self._rules_of(name)
        deletion_ms = cleaning.deletion_due_ms(log, rules)
        if not rules.compacts:
            self._deletion.set(place, deletion_ms, now_ms)
            self._compaction.set(place, None, now_ms)
            return
        self._deletion.set(place, None, now_ms)
        dues = [deletion_ms, cleaning.compaction_due_ms(log, rules, now_ms=now_ms)] if self._is_enabled() else []
        self._compaction.set(place, min((due for due in dues if due is not None), default=None), now_ms)

    def _is_enabled(self) -> bool:
        return bool(self._configs.brokers()["log.cleaner.enable"])

    def _rules_of(self, topic_name: str) -> CleaningRules:
        rules = self._rules.get(topic_name)
        if rules is None:
            rules = self._rules[topic_name] = _rules(self._configs.topic(topic_name))
        return rules


def _compact(log: PartitionLog, rules: CleaningRules, *, now_ms: int) -> None:
    found = cleaning.dirt(log, rules, now_ms=now_ms)
    if found is not None:
        cleaning.compact(log, found, rules, now_ms=now_ms)


def _rules(config: Mapping[str, object]) -> CleaningRules:
    policy, ratio = config["cleanup.policy"], config["min.cleanable.dirty.ratio"]
    assert isinstance(policy, list)
    assert isinstance(ratio, (int, float))
    return CleaningRules(
        compacts="compact" in policy,
        deletes="delete" in policy,
        retention_ms=_number(config, "retention.ms"),
        retention_bytes=_number(config, "retention.bytes"),
        dirty_ratio_min=float(ratio),
        lag_min_ms=_number(config, "min.compaction.lag.ms"),
        lag_max_ms=_number(config, "max.compaction.lag.ms"),
        tombstones_ms=_number(config, "delete.retention.ms"),
        roll=roll_rules(config),
    )


def _number(config: Mapping[str, object], name: str) -> int:
    value = config[name]
    assert isinstance(value, int)
    return value
