"""The schedule of the log cleaners: one timer for all logs of a cluster, not set while there is nothing to clean.

Kafka checks every log each `log.retention.check.interval.ms` (those that are not compacted) and whenever its cleaner
wakes from `log.cleaner.backoff.ms` (those that are). Logs are cleaned at the same times here, but without the checks
that find nothing. Source: Kafka's LogManager.cleanupLogs and LogCleaner.CleanerThread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.settings import read_int
from mockbroker.state.storage import log_cleaner
from mockbroker.state.storage.log_config import CleanerRules, TopicConfigs
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.schedules.log_checks import FindLog, FoundLog, PeriodicCheck
from mockbroker.state.timers import UNKNOWN_MS, EarliestDeadline


class _LogShape(NamedTuple):
    """A log with its start and its number of segments at one time."""

    log: PartitionLog
    start_offset: int
    segment_count: int

    def is_unchanged(self) -> bool:
        """Whether it has both still."""
        return self.log.start_offset == self.start_offset and len(self.log.segments) == self.segment_count


class _NodeChecks(NamedTuple):
    """The two periodic checks of a broker: of logs that are not compacted, and of those that are."""

    deletion: PeriodicCheck
    compaction: PeriodicCheck


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
        # The topic of each log that is scheduled, with the broker whose settings apply; and the logs of each topic.
        self._known_logs: dict[TopicPartitionKey, tuple[str, int | None]] = {}
        self._logs_by_topic: dict[str, dict[TopicPartitionKey, None]] = {}
        self._rules: dict[tuple[str, int | None], CleanerRules] = {}
        # Logs whose cleaning appends can only postpone.
        self._postponed: dict[TopicPartitionKey, _LogShape] = {}
        self._generation = -1
        self._checks: dict[int | None, _NodeChecks] = {}

    def mark_changed(self, key: TopicPartitionKey) -> None:
        """Records were appended to a log, or deleted from it."""
        shape = self._postponed.get(key)
        if shape is None or not shape.is_unchanged():
            self._changed_logs[key] = None
            self._earliest.ms = UNKNOWN_MS

    def reschedule_log(self, key: TopicPartitionKey) -> None:
        """A log was deleted with its topic, or is led by another broker."""
        self._postponed.pop(key, None)
        self._changed_logs[key] = None
        self._earliest.ms = UNKNOWN_MS

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """When the next log may have to be cleaned, or None."""
        if self._changed_logs or self._generation != self._configs.generation:
            self._refresh(now_ms)
        due_ms = None
        for checks in self._checks.values():
            for check in checks:
                if check.next_ms is not None and (due_ms is None or check.next_ms < due_ms):
                    due_ms = check.next_ms
        return due_ms

    def expire(self, *, now_ms: int) -> None:
        """Clean the logs that are due."""
        due_ms = self.next_deadline_ms(now_ms=now_ms)
        if due_ms is None or due_ms > now_ms:
            return
        for checks in self._checks.values():
            for key in checks.deletion.take_due_logs(now_ms):
                self._clean_log(key, now_ms, log_cleaner.delete_old_segments)
                self._postponed.pop(key, None)
                self._changed_logs[key] = None
            keys = checks.compaction.take_due_logs(now_ms)
            for key in keys:
                self._clean_log(key, now_ms, _compact)
            for key in keys:
                self._clean_log(key, now_ms, log_cleaner.delete_old_segments)
                self._changed_logs[key] = None

    def _clean_log(self, key: TopicPartitionKey, now_ms: int, clean: Callable[..., None]) -> None:
        found = self._log_of(key)
        if found is not None:
            # Files that cannot be read or written have been reported; the next check tries again.
            with suppress(KafkaError):
                clean(found.log, self._rules_for(found), now_ms=now_ms)

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
        self._checks.clear()

    def _refresh_topics(self, names: Iterable[str]) -> None:
        """Only these topics have changed: their cost does not depend on how many others there are."""
        for name in names:
            for node_id in self._checks:
                self._rules.pop((name, node_id), None)
            for key in self._logs_by_topic.get(name, ()):
                self._postponed.pop(key, None)
                self._changed_logs[key] = None

    def _checks_of(self, node_id: int | None) -> _NodeChecks:
        checks = self._checks.get(node_id)
        if checks is None:
            config = self._config_of(node_id)
            first_ms = self._started_ms + read_int(config, "log.initial.task.delay.ms")
            backoff_ms = max(1, read_int(config, "log.cleaner.backoff.ms"))
            checks = self._checks[node_id] = _NodeChecks(
                PeriodicCheck(first_ms, read_int(config, "log.retention.check.interval.ms"), {}),
                PeriodicCheck(self._started_ms, backoff_ms, {}),
            )
        return checks

    def _config_of(self, node_id: int | None) -> Mapping[str, object]:
        return self._configs.brokers() if node_id is None else self._configs.broker(node_id)

    def _is_postponed(self, key: TopicPartitionKey) -> bool:
        shape = self._postponed.get(key)
        return shape is not None and shape.is_unchanged()

    def _unschedule_log(self, key: TopicPartitionKey, now_ms: int) -> None:
        known = self._known_logs.pop(key, None)
        if known is None:
            return
        name, node_id = known
        for check in self._checks.get(node_id, ()):
            check.set_due(key, None, now_ms)
        self._logs_by_topic[name].pop(key)
        if not self._logs_by_topic[name]:
            del self._logs_by_topic[name]

    def _schedule_log(self, key: TopicPartitionKey, found: FoundLog | None, now_ms: int) -> None:
        self._postponed.pop(key, None)
        place = None if found is None else (found.topic_name, found.node_id)
        if self._known_logs.get(key) != place:
            self._unschedule_log(key, now_ms)
        if found is None:
            return
        self._known_logs[key] = found.topic_name, found.node_id
        self._logs_by_topic.setdefault(found.topic_name, {})[key] = None
        log, checks, rules = found.log, self._checks_of(found.node_id), self._rules_for(found)
        deletion_ms = log_cleaner.deletion_due_ms(log, rules)
        if not rules.compacts:
            checks.deletion.set_due(key, deletion_ms, now_ms)
            checks.compaction.set_due(key, None, now_ms)
            is_unlimited = rules.retention_ms < 0
            if rules.retention_bytes < 0 and (is_unlimited or (deletion_ms and log.segments[0].max_timestamp >= 0)):
                # A check at the time that is set now finds nothing to do, and sets the next one. Without any limit,
                # only deleted records, which move the log start, make something due.
                self._postponed[key] = _LogShape(log, log.start_offset, len(log.segments))
            return
        checks.deletion.set_due(key, None, now_ms)
        is_enabled = bool(self._config_of(found.node_id)["log.cleaner.enable"])
        dues = [deletion_ms, log_cleaner.compaction_due_ms(log, rules, now_ms=now_ms)] if is_enabled else []
        checks.compaction.set_due(key, min((due for due in dues if due is not None), default=None), now_ms)
        if len(log.segments) == 1 and not rules.deletes:
            # The active segment is not compacted, so that there is nothing to do before the next one.
            self._postponed[key] = _LogShape(log, log.start_offset, len(log.segments))

    def _rules_for(self, found: FoundLog) -> CleanerRules:
        key = (found.topic_name, found.node_id)
        rules = self._rules.get(key)
        if rules is None:
            rules = self._rules[key] = CleanerRules.from_config(self._configs.topic(*key))
        return rules


def _compact(log: PartitionLog, rules: CleanerRules, *, now_ms: int) -> None:
    cleanable = log_cleaner.find_cleanable_range(log, rules, now_ms=now_ms)
    if cleanable is not None:
        log_cleaner.compact_log(log, cleanable, rules, now_ms=now_ms)
