"""A consumer that commits its offsets: none of those that were acknowledged may be lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.durability.worker import Worker

_TIMEOUT_S = 10.0


class OffsetCommitter(Worker):
    """Commits synchronously after each batch. `acknowledged`: the largest such offset of each partition."""

    def __init__(self, bootstrap_servers: str, topic: str, *, partition_count: int) -> None:
        super().__init__(bootstrap_servers, topic)
        self.group = f"{topic}-readers"
        self.acknowledged: dict[int, int] = {}
        self._attempted: dict[int, int] = {}
        self._partitions = [TopicPartition(topic, index) for index in range(partition_count)]

    def run(self) -> None:
        """Consume and commit, and now and then ask for what is committed."""
        settings = {"group.id": self.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({**self._settings, **settings})
        try:
            consumer.assign([TopicPartition(each.topic, each.partition, 0) for each in self._partitions])
            while not self.is_stopping:
                self._commit_batch(consumer)
                self.check(consumer)
        finally:
            consumer.close()

    def _commit_batch(self, consumer: Consumer) -> None:
        positions = dict[int, int]()
        for message in consumer.consume(100, timeout=0.2):
            partition, offset = message.partition(), message.offset()
            if message.error() is None and partition is not None and offset is not None:
                positions[partition] = offset + 1
        if not positions:
            return
        self._attempted.update(positions)
        wanted = [TopicPartition(self.topic, partition, offset) for partition, offset in positions.items()]
        try:
            committed = consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return  # Whether it was committed is not known.
        for each in committed or ():
            if each.error is None:
                self.acknowledged[each.partition] = each.offset

    def check(self, consumer: Consumer) -> None:
        """Compare what is committed with what was acknowledged, if the broker answers."""
        with suppress(KafkaException):  # The broker is down.
            self.violations += self._find_lost(consumer)

    def verify(self) -> Iterator[str]:
        """The same with a new client, while the broker runs. Raises: KafkaException if it does not answer."""
        consumer = Consumer({**self._settings, "group.id": self.group})
        try:
            yield from self._find_lost(consumer)
        finally:
            consumer.close()

    def _find_lost(self, consumer: Consumer) -> Iterator[str]:
        for each in consumer.committed(self._partitions, timeout=_TIMEOUT_S):
            if each.error is not None:
                raise KafkaException(each.error)
            acknowledged, attempted = self.acknowledged.get(each.partition, -1), self._attempted.get(each.partition, -1)
            if not acknowledged <= max(each.offset, -1) <= attempted:
                yield (
                    f"{self.topic}-{each.partition}: offset {each.offset} is committed, "
                    f"{acknowledged} was acknowledged, {attempted} attempted"
                )

    @property
    def has_promises(self) -> bool:
        """See `Worker`."""
        return bool(self.acknowledged)

    def progress(self) -> str:
        """The committed offsets."""
        return f"offsets {self.acknowledged} committed"
