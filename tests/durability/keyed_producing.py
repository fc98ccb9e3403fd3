"""A producer to a compacted topic: the last value of each key that was acknowledged, or a later one, stays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from confluent_kafka import KafkaError, Message, Producer

from tests.durability.verification import Record
from tests.durability.worker import FLUSH_S, PRODUCER, Worker

_KEY_COUNT = 20
_IN_FLIGHT_MAX = 100
_PADDING = b"x" * 200


class KeyedProducer(Worker):
    """Produces increasing numbers for a few keys; `acknowledged` has the largest one of each key."""

    def __init__(self, bootstrap_servers: str, topic: str, *, partition_count: int) -> None:
        super().__init__(bootstrap_servers, topic)
        self.acknowledged: dict[int, int] = {}
        self._partition_count = partition_count
        self._sent = 0

    def run(self) -> None:
        """Produce until stopped, then wait for all acknowledgements."""
        producer = Producer({**self._settings, **PRODUCER, "acks": "all"})
        while not self.is_stopping:
            if len(producer) < _IN_FLIGHT_MAX:
                for _ in range(10):
                    self._send(producer)
            producer.poll(0.005)
        if producer.flush(FLUSH_S):
            self.violations.append(f"{len(producer)} records of {self.topic} were never acknowledged")

    def _send(self, producer: Producer) -> None:
        number, self._sent = self._sent, self._sent + 1
        key = number % _KEY_COUNT
        producer.produce(
            self.topic,
            b"%d:%d:%s" % (key, number, _PADDING),
            key=b"%d" % key,
            partition=key % self._partition_count,
            on_delivery=self._on_delivery,
        )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        key, number = map(int, (message.value() or b"").split(b":")[:2])
        if error is not None:
            self.violations.append(f"record {number} of {self.topic} was refused: {error}")
        else:
            self.acknowledged[key] = max(number, self.acknowledged.get(key, -1))

    def find_lost(self, records: Iterable[Record]) -> Iterator[str]:
        """Keys whose last value is older than the last one that was acknowledged, and values out of order."""
        last: dict[int, int] = {}
        for record in records:
            key, number = map(int, record.value.split(b":")[:2])
            if number <= last.get(key, -1):
                yield f"{self.topic}: key {key} has {number} after {last[key]}"
            last[key] = number
        for key, number in self.acknowledged.items():
            if last.get(key, -1) < number:
                yield f"{self.topic}: key {key} has {last.get(key)}, and {number} was acknowledged"

    @property
    def has_promises(self) -> bool:
        """See `Worker`."""
        return bool(self.acknowledged)

    def progress(self) -> str:
        """The numbers that were acknowledged."""
        return f"{len(self.acknowledged)} keys of {self._sent} records acknowledged"
