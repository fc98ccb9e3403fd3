"""A transactional copier: consumes a topic, writes each record and its own offsets in one transaction, aborts some."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.durability.worker import Worker

_TIMEOUT_S = 30.0
#: One that a client has left open is aborted then, and no longer keeps readers waiting.
_TRANSACTION_TIMEOUT_MS = 30_000
_RETRIES_S = 60.0
#: How long a call with a timeout of `_TIMEOUT_S` may take.
_CALL_LIMIT_S = 45.0
_BATCH_SIZE = 50
_ABORTED_SHARE = 0.2


class StuckCallError(Exception):
    """A call of the client has not ended within its timeout."""


class TransactionalCopier(Worker):
    """Copies `source` to `topic`; the value of a copy names the attempt that wrote it.

    committed, aborted: attempts whose end was acknowledged. In `unknown` are those whose end was not. committed and
    unknown have the number of records of each. abandoned: producers that were replaced as a call of theirs did not end.
    """

    def __init__(self, bootstrap_servers: str, topic: str, source: str, *, partition_count: int, seed: int) -> None:
        super().__init__(bootstrap_servers, topic)
        self.group = f"{topic}-copier"
        self.committed: Counter[int] = Counter()
        self.aborted: set[int] = set()
        self.unknown: Counter[int] = Counter()
        self.source = source
        self._partition_count = partition_count
        self._random = random.Random(seed)
        self._attempt = 0
        self._doing = "nothing"
        self.abandoned: list[Producer] = []

    def run(self) -> None:
        """Copy until stopped; new clients replace those that a fatal error has ended."""
        while not self.is_stopping:
            consumer, producer = self._create_clients()
            try:
                self._doing = "init"
                producer.init_transactions(_TIMEOUT_S)
                self._doing = "nothing"
                self._seek_to_committed(consumer)
                while not self.is_stopping:
                    self._copy_batch(consumer, producer)
            except KafkaException as error:
                self._doing = f"{self._doing}, ended by {error}"
                if not error.args[0].fatal():
                    self.pause(0.05)
            except StuckCallError:
                self.abandoned.append(producer)
            finally:
                consumer.close()

    def _create_clients(self) -> tuple[Consumer, Producer]:
        consumer = Consumer(
            {
                **self._settings,
                "group.id": self.group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        settings = {"transactional.id": self.group, "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS, "linger.ms": 1}
        before = len(self.abandoned)

        def on_error(error: KafkaError) -> None:
            if len(self.abandoned) == before:  # Otherwise the next producer has fenced this one.
                self._on_error(error)

        return consumer, Producer({**self._settings, **settings, "error_cb": on_error})

    def _seek_to_committed(self, consumer: Consumer) -> None:
        """Go on where the last committed transaction has ended."""
        wanted = [TopicPartition(self.source, index) for index in range(self._partition_count)]
        found = consumer.committed(wanted, timeout=_TIMEOUT_S)
        for position in found:
            if position.error is not None:
                raise KafkaException(position.error)
        consumer.assign([TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in found])

    def _copy_batch(self, consumer: Consumer, producer: Producer) -> None:
        messages = [message for message in consumer.consume(_BATCH_SIZE, timeout=0.2) if message.error() is None]
        if not messages:
            return
        attempt = self._attempt
        self._attempt += 1
        producer.begin_transaction()
        self.unknown[attempt] = len(messages)
        try:
            for message in messages:
                self._copy(producer, message, attempt)
            if self._random.random() < _ABORTED_SHARE:
                producer.flush(_TIMEOUT_S)
                self._abort(producer, attempt)
                self._seek_to_committed(consumer)
                return
            offsets = _offsets_after(messages)
            group = consumer.consumer_group_metadata()
            send = partial(producer.send_offsets_to_transaction, offsets, group, _TIMEOUT_S)
            self._retry("send offsets", lambda: run_with_limit(send, _CALL_LIMIT_S))
            self._retry("commit", lambda: producer.commit_transaction(_TIMEOUT_S))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._abort(producer, attempt)
            self._seek_to_committed(consumer)
            return
        del self.unknown[attempt]
        self.committed[attempt] = len(messages)

    def _copy(self, producer: Producer, message: Message, attempt: int) -> None:
        value = b"%d:%b" % (attempt, message.value() or b"")
        producer.produce(self.topic, value, partition=message.partition() or 0)
        producer.poll(0)

    def _abort(self, producer: Producer, attempt: int) -> None:
        self._retry("abort", lambda: producer.abort_transaction(_TIMEOUT_S))
        del self.unknown[attempt]
        self.aborted.add(attempt)

    def _retry(self, name: str, call: Callable[[], object]) -> None:
        """Repeat a call whose error says that this is safe, for a limited time."""
        end_s = time.monotonic() + _RETRIES_S
        self._doing = name
        while True:
            try:
                call()
            except KafkaException as error:
                self._doing = f"{name}, after {error}"
                if not error.args[0].retriable() or time.monotonic() > end_s:
                    raise
            else:
                self._doing = "nothing"
                return

    def committed_positions(self) -> dict[int, int]:
        """The offsets of its group, which are committed with the copies. Raises: KafkaException."""
        consumer = Consumer({**self._settings, "group.id": self.group})
        try:
            wanted = [TopicPartition(self.source, index) for index in range(self._partition_count)]
            found = consumer.committed(wanted, timeout=_TIMEOUT_S)
        finally:
            consumer.close()
        for position in found:
            if position.error is not None:
                raise KafkaException(position.error)
        return {position.partition: max(position.offset, 0) for position in found}

    @property
    def has_promises(self) -> bool:
        """See `Worker`."""
        return bool(self.committed) and bool(self.aborted)

    def progress(self) -> str:
        """The transactions by their end, and the call that is repeated."""
        counts = (
            f"{len(self.committed)} transactions committed, {len(self.aborted)} aborted, {len(self.unknown)} unknown"
        )
        counts += f", {len(self.abandoned)} producers abandoned" if self.abandoned else ""
        return counts if self._doing == "nothing" else f"{counts}, last call: {self._doing}"


def run_with_limit(call: Callable[[], object], limit_s: float) -> None:
    """Run a call in a thread of its own, which is left behind if it does not end. Raises: StuckCallError, or its error.

    librdkafka 2.16 can wait for a group's coordinator without end, whatever the timeout of the call is (its issues 5456
    and 5511): when the broker ends while the coordinator is looked for.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # Raised again below.
            failures.append(error)

    thread = threading.Thread(target=run, name="call of a client", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise StuckCallError(f"a call has not ended within {limit_s:.0f} s")
    if failures:
        raise failures[0]


def _offsets_after(messages: list[Message]) -> list[TopicPartition]:
    after: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        after[topic, partition] = offset + 1
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in after.items()]
