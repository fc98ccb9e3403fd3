"""`ProducerExpiration`: when idle producers are removed from logs, which accept any sequence of them afterwards.

Each log is checked every `producer.id.expiration.check.interval.ms`; a producer without an open transaction is removed
when its last batch, by the timestamp of its records, is `producer.id.expiration.ms` old. Checks that find nothing are
left out. Source: Kafka's UnifiedLog.removeExpiredProducers and ProducerStateManager.
"""

from __future__ import annotations

from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.settings import read_int
from mockbroker.state.storage.log_config import TopicConfigs
from mockbroker.state.storage.schedules.log_checks import FindLog, FoundLog, PeriodicCheck
from mockbroker.state.timers import NEVER_MS, UNKNOWN_MS, EarliestDeadline

EXPIRATION_MS = "producer.id.expiration.ms"
CHECK_INTERVAL_MS = "producer.id.expiration.check.interval.ms"


class ProducerExpiration:
    """Removes the idle producers of the logs that `mark_changed` names.

    started_ms: the start of the brokers, which the checks are counted from; in Kafka each log counts from its own
    creation. earliest: of the cluster.
    """

    def __init__(
        self, configs: TopicConfigs, log_of: FindLog, *, started_ms: int, earliest: EarliestDeadline | None = None
    ) -> None:
        self._earliest = EarliestDeadline() if earliest is None else earliest
        self._configs = configs
        self._log_of = log_of
        self._started_ms = started_ms
        self._changed_logs: dict[TopicPartitionKey, None] = {}
        self._known_logs: dict[TopicPartitionKey, None] = {}
        self._generation = -1
        self._check: PeriodicCheck | None = None

    def mark_changed(self, key: TopicPartitionKey) -> None:
        """A log has a producer that expires earlier than the others, is led by another broker, or was deleted."""
        self._changed_logs[key] = None
        self._earliest.ms = UNKNOWN_MS

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """When the next producer may have expired, or None."""
        if self._generation != self._configs.generation:
            self._generation = self._configs.generation
            self._changed_logs.update(self._known_logs)
        if self._changed_logs:
            keys, self._changed_logs = self._changed_logs, {}
            for key in keys:
                self._schedule_log(key, self._log_of(key), now_ms)
        return None if self._check is None else self._check.next_ms

    def expire(self, *, now_ms: int) -> None:
        """Remove the producers that have expired, if it is time for a check."""
        due_ms = self.next_deadline_ms(now_ms=now_ms)
        if self._check is None or due_ms is None or due_ms > now_ms:
            return
        for key in self._check.take_due_logs(now_ms):
            found = self._log_of(key)
            if found is not None:
                until_ms = now_ms - self._expiration_ms(found)
                found.log.producers.remove_idle(until_ms)
                found.log.verifications.remove_until(until_ms)
            self._changed_logs[key] = None

    def _schedule_log(self, key: TopicPartitionKey, found: FoundLog | None, now_ms: int) -> None:
        if self._check is None:
            interval_ms = read_int(self._configs.brokers(), CHECK_INTERVAL_MS)
            self._check = PeriodicCheck(self._started_ms, interval_ms, {})
        idle_since_ms = NEVER_MS if found is None else _idle_since(found)
        if found is None or idle_since_ms == NEVER_MS:
            self._known_logs.pop(key, None)
            self._check.set_due(key, None, now_ms)
            return
        self._known_logs[key] = None
        self._check.set_due(key, idle_since_ms + self._expiration_ms(found), now_ms)

    def _expiration_ms(self, found: FoundLog) -> int:
        config = self._configs.brokers() if found.node_id is None else self._configs.broker(found.node_id)
        return read_int(config, EXPIRATION_MS)


def _idle_since(found: FoundLog) -> int:
    """No producer, and no verification, of a log that can expire is older; NEVER_MS without any."""
    return min(found.log.producers.idle_since_ms, found.log.verifications.oldest_ms)
