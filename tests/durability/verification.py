"""The records of topics after all kills, compared with what clients were promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tests.durability.copying import TransactionalCopier
from tests.durability.producing import IdempotentProducer

K = TypeVar("K")
V = TypeVar("V")
#: Longer than the timeout of a transaction that was left open, behind which nothing is read.
_QUIET_S = 90.0
_NAMED_MAX = 5


class Record(NamedTuple):
    """A record as a consumer gets it."""

    partition: int
    offset: int
    value: bytes


def read_topic(bootstrap_servers: str, topic: str, partition_count: int, *, isolation: str) -> list[Record]:
    """All records of a topic. Raises: TimeoutError if a partition does not reach its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "verification",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partition_count)])
        return list(_read_to_ends(consumer, topic, partition_count))
    finally:
        consumer.close()


def _read_to_ends(consumer: Consumer, topic: str, partition_count: int) -> Iterator[Record]:
    ended: set[int] = set()
    while len(ended) < partition_count:
        message = consumer.poll(_QUIET_S)
        if message is None:
            raise TimeoutError(f"{topic}: within {_QUIET_S:.0f} s no record, and only partitions {ended} have ended")
        error, record = message.error(), _to_record(message)
        if record is not None:
            yield record
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition() or 0)


def _to_record(message: Message) -> Record | None:
    partition, offset = message.partition(), message.offset()
    if message.error() is not None or partition is None or offset is None:
        return None
    return Record(partition, offset, message.value() or b"")


def find_lost_records(producer: IdempotentProducer, records: list[Record]) -> Iterator[str]:
    """Acknowledged records that are not where they were acknowledged, and values that occur twice."""
    stored = {(record.partition, record.offset): record.value for record in records}
    missing = {place: value for place, value in producer.acknowledged.items() if stored.get(place) != value}
    yield from _named(f"{producer.topic}: acknowledged at (partition, offset), and not there", missing)
    counts = Counter(record.value for record in records)
    doubled = {value: count for value, count in counts.items() if count > 1}
    yield from _named(f"{producer.topic}: stored more than once", doubled)


def find_broken_transactions(copier: TransactionalCopier, records: list[Record]) -> Iterator[str]:
    """Copies of aborted transactions, incomplete transactions, and records that were copied twice.

    records: of the copy, read with read_committed.
    """
    attempts: Counter[int] = Counter()
    values: Counter[bytes] = Counter()
    for record in records:
        attempt, _, value = record.value.partition(b":")
        attempts[int(attempt)] += 1
        values[value] += 1
    aborted = {attempt: count for attempt, count in attempts.items() if attempt in copier.aborted}
    yield from _named(f"{copier.topic}: records of aborted transactions were read", aborted)
    partial = {attempt: count for attempt, count in copier.committed.items() if attempts[attempt] != count}
    yield from _named(f"{copier.topic}: committed transactions that lack records", partial)
    torn = {attempt: count for attempt, count in copier.unknown.items() if attempts[attempt] not in (0, count)}
    yield from _named(f"{copier.topic}: transactions that are there in part", torn)
    doubled = {value: count for value, count in values.items() if count > 1}
    yield from _named(f"{copier.topic}: copied more than once", doubled)


def find_uncopied_records(
    copier: TransactionalCopier, source: list[Record], copies: list[Record], positions: Mapping[int, int]
) -> Iterator[str]:
    """Records before the committed positions of the copier that have no copy: offsets and copies end together."""
    copied = {(record.partition, record.value.partition(b":")[2]) for record in copies}
    missing = {
        (record.partition, record.offset): record.value
        for record in source
        if record.offset < positions.get(record.partition, 0) and (record.partition, record.value) not in copied
    }
    yield from _named(f"{copier.topic}: offsets are committed, and there is no copy", missing)


def _named(problem: str, found: Mapping[K, V]) -> Iterator[str]:
    if found:
        first = ", ".join(f"{key!r}: {value!r}" for key, value in list(found.items())[:_NAMED_MAX])
        yield f"{problem}: {len(found)}, as {first}"
