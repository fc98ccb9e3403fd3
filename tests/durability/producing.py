"""An idempotent producer with acks=all: the offset of each record that was acknowledged."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message, Producer

from tests.durability.worker import FLUSH_S, PRODUCER, Worker

_IN_FLIGHT_MAX = 200
_BATCH_SIZE = 20
_PAUSE_S = 0.01


class IdempotentProducer(Worker):
    """Produces 0, 1, 2 and so on as values; `acknowledged` has them by partition and offset."""

    def __init__(self, bootstrap_servers: str, topic: str, *, partition_count: int) -> None:
        super().__init__(bootstrap_servers, topic)
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.refused: list[bytes] = []
        self._partition_count = partition_count
        self._sent_count = 0

    def run(self) -> None:
        """Produce until stopped, then wait for all acknowledgements."""
        producer = Producer({**self._settings, **PRODUCER, "acks": "all"})
        while not self.is_stopping:
            while len(producer) < _IN_FLIGHT_MAX and not self.is_stopping:
                for _ in range(_BATCH_SIZE):
                    self._send(producer)
                producer.poll(0)
                self.pause(_PAUSE_S)
            producer.poll(0.05)
        if producer.flush(FLUSH_S):
            self.violations.append(f"{len(producer)} records of {self.topic} were never acknowledged")

    def _send(self, producer: Producer) -> None:
        value = b"%d" % self._sent_count
        partition = self._sent_count % self._partition_count
        producer.produce(self.topic, value, partition=partition, on_delivery=self._on_delivery)
        self._sent_count += 1

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value = message.value() or b""
        if error is not None:
            self.refused.append(value)
            self.violations.append(f"record {value!r} of {self.topic} was refused: {error}")
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.acknowledged[partition, offset] = value

    @property
    def has_promises(self) -> bool:
        """See `Worker`."""
        return bool(self.acknowledged)

    def progress(self) -> str:
        """The acknowledged records."""
        return f"{len(self.acknowledged)} records acknowledged"
