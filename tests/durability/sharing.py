"""A share consumer with explicit acknowledgements: an accepted record is never delivered again."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.durability.worker import FLUSH_S, PRODUCER, Worker

_TIMEOUT_S = 30.0
_RELEASED_EVERY = 7
#: Longer than an acquisition lock, by which the records of a killed client are held.
_DRAIN_S = 90.0


class ShareReader(Worker):
    """Produces to its topic, accepts most records and releases some, and commits each poll.

    accepted: offsets whose acceptance the broker has confirmed. delivered: those that it has received at least once.
    produced: those of its records that were acknowledged.
    """

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        super().__init__(bootstrap_servers, topic)
        self.group = f"{topic}-sharers"
        self.accepted: set[tuple[int, int]] = set()
        self.delivered: set[tuple[int, int]] = set()
        self.produced: set[tuple[int, int]] = set()
        self.deliveries = 0
        self._produced = 0

    def run(self) -> None:
        """Produce, consume, acknowledge until stopped."""
        self._start_from_earliest()
        producer = Producer({**self._settings, **PRODUCER})
        consumer = self._create_consumer()
        try:
            while not self.is_stopping:
                if len(producer) < 100:
                    for _ in range(10):
                        producer.produce(self.topic, b"%d" % self._produced, on_delivery=self._on_produced)
                        self._produced += 1
                producer.poll(0)
                self._consume(consumer)
        finally:
            consumer.close()
            producer.flush(FLUSH_S)

    def verify(self) -> Iterator[str]:
        """Receive what is left, with a new client: nothing that was accepted, and all that was produced."""
        consumer = self._create_consumer()
        found = len(self.violations)
        try:
            end_s = time.monotonic() + _DRAIN_S
            while not self.produced <= self.delivered and time.monotonic() < end_s:
                self._consume(consumer)
            self._consume(consumer)
        finally:
            consumer.close()
        new, self.violations = self.violations[found:], self.violations[:found]
        yield from new
        missing = sorted(self.produced - self.delivered)
        if missing:
            yield f"{self.topic}: never delivered within {_DRAIN_S:.0f} s: {len(missing)}, as {missing[:5]}"

    def _create_consumer(self) -> ShareConsumer:
        settings = {"group.id": self.group, "share.acknowledgement.mode": "explicit"}
        consumer = ShareConsumer({**self._settings, **settings})
        consumer.subscribe([self.topic])
        return consumer

    def _on_produced(self, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            self.produced.add((partition, offset))

    def _start_from_earliest(self) -> None:
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=[entry])
        admin = AdminClient(self._settings)
        while not self.is_stopping:
            try:
                for future in admin.incremental_alter_configs([resource]).values():
                    future.result(_TIMEOUT_S)
            except KafkaException:
                self.pause(0.05)
            else:
                return

    def _consume(self, consumer: ShareConsumer) -> None:
        accepting: set[tuple[int, int]] = set()
        for message in consumer.poll(0.2):
            if message.error() is None:
                self._acknowledge(consumer, message, accepting)
        if not accepting:
            return
        try:
            confirmed = consumer.commit_sync(_TIMEOUT_S)
        except KafkaException:
            return  # Whether they were accepted is not known.
        partitions = {each.partition for each, error in confirmed.items() if error is None}
        self.accepted |= {place for place in accepting if place[0] in partitions}

    def _acknowledge(self, consumer: ShareConsumer, message: Message, accepting: set[tuple[int, int]]) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.deliveries += 1
        self.delivered.add((partition, offset))
        if (partition, offset) in self.accepted:
            self.violations.append(f"{self.topic}-{partition}, offset {offset}: delivered again after it was accepted")
        if self.deliveries % _RELEASED_EVERY:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            accepting.add((partition, offset))
        else:
            consumer.acknowledge(message, AcknowledgeType.RELEASE)

    @property
    def has_promises(self) -> bool:
        """See `Worker`."""
        return bool(self.accepted)

    def progress(self) -> str:
        """The records that were accepted."""
        return f"{len(self.accepted)} records accepted of {self.deliveries} deliveries"
