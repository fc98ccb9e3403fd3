"""The schedule of the log cleaner: one timer for all logs of a cluster, not set while there is nothing to clean.

Kafka checks every log each `log.retention.check.interval.ms` (those that are not compacted) and whenever its cleaner
wakes from `log.cleaner.backoff.ms` (those that are). Logs are cleaned at the same times here, but without the checks
that find nothing. Source: Kafka's LogManager.cleanupLogs and LogCleaner.CleanerThread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.settings import read_int
from mockbroker.state.storage import log_cleaner
from mockbroker.state.storage.log_config import CleanerRules, TopicConfigs
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.timers import UNKNOWN_MS, EarliestDeadline

_NO_LOGS: tuple[TopicPartitionKey, ...] = ()


class _PeriodicCheck(msgspec.Struct):
    """One of the two periodic checks: every `interval_ms` from `first_ms` on, of the logs that have a due time."""

    first_ms: int
    interval_ms: int
    due_ms_by_log: dict[TopicPartitionKey, int]
    next_ms: int | None = None
    last_ms: int = -1

    def set_due(self, key: TopicPartitionKey, due_ms: int | None, now_ms: int) -> None:
        """Set the time when a log is due, 0 for the next check, or None.

        A check that is no longer needed still runs, and finds nothing to do.
        """
        if due_ms is None:
            self.due_ms_by_log.pop(key, None)
            return
        self.due_ms_by_log[key] = due_ms
        at_ms = self._next_check_at(max(due_ms, now_ms, self.last_ms + 1))
        self.next_ms = at_ms if self.next_ms is None else min(self.next_ms, at_ms)

    def take_due_logs(self, now_ms: int) -> Sequence[TopicPartitionKey]:
        """Return the logs that are due, if it is time for a check."""
        if self.next_ms is None or self.next_ms > now_ms:
            return _NO_LOGS
        self.next_ms, self.last_ms = None, now_ms
        due_logs = [key for key, due_ms in self.due_ms_by_log.items() if due_ms <= now_ms]
        next_due_ms = min((due_ms for due_ms in self.due_ms_by_log.values() if due_ms > now_ms), default=None)
        if next_due_ms is not None:
            self.next_ms = self._next_check_at(next_due_ms)
        return due_logs

    def _next_check_at(self, time_ms: int) -> int:
        visits = -((self.first_ms - time_ms) // self.interval_ms)
        return self.first_ms + max(0, visits) * self.interval_ms


class _LogShape(NamedTuple):
    """A log with its start and its number of segments at one time."""

    log: PartitionLog
    start_offset: int
    segment_count: int

    def is_unchanged(self) -> bool:
        """Whether it has both still."""
        return self.log.start_offset == self.start_offset and len(self.log.segments) == self.segment_count


#: Finds the topic name and the log of a partition; None when the topic is deleted.
FindLog = Callable[[TopicPartitionKey], tuple[str, PartitionLog] | None]


class CleanerSchedule:
    """Cleans the logs that `mark_changed` names. started_ms: the start of the brokers. earliest: of the cluster."""

    def __init__(
        self, configs: TopicConfigs, log_of: FindLog, *, started_ms: int, earliest: EarliestDeadline | None = None
    ) -> None:
        self._earliest = EarliestDeadline() if earliest is None else earliest
        self._configs = configs
        self._log_of = log_of
        self._started_ms = started_ms
        self._changed_logs: dict[TopicPartitionKey, None] = {}
        # The topic of each log that is scheduled, and its logs.
        self._known_logs: dict[TopicPartitionKey, str] = {}
        self._logs_by_topic: dict[str, dict[TopicPartitionKey, None]] = {}
        self._rules: dict[str, CleanerRules] = {}
        # Logs whose cleaning appends can only postpone.
        self._postponed: dict[TopicPartitionKey, _LogShape] = {}
        self._generation = -1
        self._deletion = _PeriodicCheck(0, 1, {})
        self._compaction = _PeriodicCheck(0, 1, {})

    def mark_changed(self, key: TopicPartitionKey) -> None:
        """Records were appended to a log, or deleted from it."""
        shape = self._postponed.get(key)
        if shape is None or not shape.is_unchanged():
            self._changed_logs[key] = None
            self._earliest.ms = UNKNOWN_MS

    def forget_log(self, key: TopicPartitionKey) -> None:
        """A log was deleted with its topic."""
        self._postponed.pop(key, None)
        self._changed_logs[key] = None
        self._earliest.ms = UNKNOWN_MS

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """When the next log may have to be cleaned, or None."""
        if self._changed_logs or self._generation != self._configs.generation:
            self._refresh(now_ms)
        deletion_ms, compaction_ms = self._deletion.next_ms, self._compaction.next_ms
        if deletion_ms is None or compaction_ms is None:
            return compaction_ms if deletion_ms is None else deletion_ms
        return deletion_ms if deletion_ms < compaction_ms else compaction_ms

    def expire(self, *, now_ms: int) -> None:
        """Clean the logs that are due."""
        due_ms = self.next_deadline_ms(now_ms=now_ms)
        if due_ms is None or due_ms > now_ms:
            return
        for key in self._deletion.take_due_logs(now_ms):
            self._clean_log(key, now_ms, log_cleaner.delete_old_segments)
            self._postponed.pop(key, None)
            self._changed_logs[key] = None
        keys = self._compaction.take_due_logs(now_ms)
        for key in keys:
            self._clean_log(key, now_ms, _compact)
        for key in keys:
            self._clean_log(key, now_ms, log_cleaner.delete_old_segments)
            self._changed_logs[key] = None

    def _clean_log(self, key: TopicPartitionKey, now_ms: int, clean: Callable[..., None]) -> None:
        named_log = self._log_of(key)
        if named_log is not None:
            # Files that cannot be read or written have been reported; the next check tries again.
            with suppress(KafkaError):
                clean(named_log[1], self._rules_for(named_log[0]), now_ms=now_ms)

    def _refresh(self, now_ms: int) -> None:
        if self._generation != self._configs.generation:
            changed = self._configs.resources_changed_since(self._generation)
            self._generation = self._configs.generation
            if changed is None or any(resource.is_broker for resource in changed):
                self._refresh_all()
            else:
                self._refresh_topics(resource.name for resource in changed if resource.is_topic)
        if not self._changed_logs:
            return
        keys, self._changed_logs = self._changed_logs, {}
        for key in keys:
            if not self._is_postponed(key):
                self._schedule_log(key, self._log_of(key), now_ms)

    def _refresh_all(self) -> None:
        """The configuration of every topic may have changed, and that of the checks."""
        self._rules.clear()
        self._postponed.clear()
        self._changed_logs.update(dict.fromkeys(self._known_logs))
        brokers = self._configs.brokers()
        first_ms = self._started_ms + read_int(brokers, "log.initial.task.delay.ms")
        self._deletion = _PeriodicCheck(first_ms, read_int(brokers, "log.retention.check.interval.ms"), {})
        backoff_ms = max(1, read_int(brokers, "log.cleaner.backoff.ms"))
        self._compaction = _PeriodicCheck(self._started_ms, backoff_ms, {})

    def _refresh_topics(self, names: Iterable[str]) -> None:
        """Only these topics have changed: their cost does not depend on how many others there are."""
        for name in names:
            self._rules.pop(name, None)
            for key in self._logs_by_topic.get(name, ()):
                self._postponed.pop(key, None)
                self._changed_logs[key] = None

    def _is_postponed(self, key: TopicPartitionKey) -> bool:
        shape = self._postponed.get(key)
        return shape is not None and shape.is_unchanged()

    def _schedule_log(self, key: TopicPartitionKey, named_log: tuple[str, PartitionLog] | None, now_ms: int) -> None:
        self._postponed.pop(key, None)
        if named_log is None:
            for check in (self._deletion, self._compaction):
                check.set_due(key, None, now_ms)
            former = self._known_logs.pop(key, None)
            if former is not None:
                self._logs_by_topic[former].pop(key)
                if not self._logs_by_topic[former]:
                    del self._logs_by_topic[former]
            return
        name, log = named_log
        self._known_logs[key] = name
        self._logs_by_topic.setdefault(name, {})[key] = None
        rules = self._rules_for(name)
        deletion_ms = log_cleaner.deletion_due_ms(log, rules)
        if not rules.compacts:
            self._deletion.set_due(key, deletion_ms, now_ms)
            self._compaction.set_due(key, None, now_ms)
            is_unlimited = rules.retention_ms < 0
            if rules.retention_bytes < 0 and (is_unlimited or (deletion_ms and log.segments[0].max_timestamp >= 0)):
                # A check at the time that is set now finds nothing to do, and sets the next one. Without any limit,
                # only deleted records, which move the log start, make something due.
                self._postponed[key] = _LogShape(log, log.start_offset, len(log.segments))
            return
        self._deletion.set_due(key, None, now_ms)
        dues = [deletion_ms, log_cleaner.compaction_due_ms(log, rules, now_ms=now_ms)] if self._is_enabled() else []
        self._compaction.set_due(key, min((due for due in dues if due is not None), default=None), now_ms)
        if len(log.segments) == 1 and not rules.deletes:
            # The active segment is not compacted, so that there is nothing to do before the next one.
            self._postponed[key] = _LogShape(log, log.start_offset, len(log.segments))

    def _is_enabled(self) -> bool:
        return bool(self._configs.brokers()["log.cleaner.enable"])

    def _rules_for(self, topic_name: str) -> CleanerRules:
        rules = self._rules.get(topic_name)
        if rules is None:
            rules = self._rules[topic_name] = CleanerRules.from_config(self._configs.topic(topic_name))
        return rules


def _compact(log: PartitionLog, rules: CleanerRules, *, now_ms: int) -> None:
    cleanable = log_cleaner.find_cleanable_range(log, rules, now_ms=now_ms)
    if cleanable is not None:
        log_cleaner.compact_log(log, cleanable, rules, now_ms=now_ms)
