"""One common client, confluent-kafka, driven the same way against any broker: produce, consume, share-consume."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

_PATIENCE_S = 120.0
_QUIET = {"log_level": 0}


class Rates(NamedTuple):
    """Messages per second of each step."""

    produce: float
    consume: float


def rates(bootstrap: str, *, count: int, size: int) -> Rates:
    """Produce `count` messages of `size` bytes to one partition with acks=all, then read them from the start."""
    topic = _topic(bootstrap)
    produce_s = fill(bootstrap, topic, count, size)
    return Rates(count / produce_s, count / _drain(bootstrap, topic, count))


def first_share_record_s(bootstrap: str) -> float:
    """From subscribe to the first record of a share consumer whose group starts at earliest, seconds."""
    topic = _topic(bootstrap)
    fill(bootstrap, topic, 10, 100)
    with closing(_share_consumer(bootstrap)) as consumer:
        began = time.perf_counter()
        consumer.subscribe([topic])
        _until(lambda: any(message.error() is None for message in consumer.poll(0.05)), "a share record")
        return time.perf_counter() - began


def share_rate(bootstrap: str, *, count: int, size: int, explicit: bool) -> float:
    """Messages per second of one share consumer that has its partition already and `count` messages before it.

    explicit: every message is acknowledged by itself, and each poll's are committed before the next; otherwise the next
    poll acknowledges.
    """
    topic = _topic(bootstrap)
    fill(bootstrap, topic, 1, size)
    seen = 0

    def take() -> bool:
        nonlocal seen
        messages = consumer.poll(0.5)
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            if explicit:
                consumer.acknowledge(message)
        seen += len(messages)
        if explicit and messages:
            consumer.commit_sync(_PATIENCE_S)
        return seen > count

    with closing(_share_consumer(bootstrap, explicit=explicit)) as consumer:
        consumer.subscribe([topic])
        _until(lambda: take() or seen > 0, "the first share record")
        fill(bootstrap, topic, count, size)
        began = time.perf_counter()
        _until(take, f"{count} messages")
        return count / (time.perf_counter() - began)


def _share_consumer(bootstrap: str, *, explicit: bool = False) -> ShareConsumer:
    """A consumer in a group of its own that starts at the earliest record."""
    group = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_PATIENCE_S)
    mode = "explicit" if explicit else "implicit"
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode}
    return ShareConsumer({**settings, **_QUIET})


def fill(bootstrap: str, topic: str, count: int, size: int) -> float:
    """Produce, and wait for every delivery report; seconds."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "compression.type": "none",
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
            **_QUIET,
        }
    )
    producer.list_topics(topic, timeout=_PATIENCE_S)
    value = os.urandom(size)
    began = time.perf_counter()
    for number in range(count):
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
        if number % 1024 == 0:
            producer.poll(0)
    left = producer.flush(_PATIENCE_S)
    if left or failures:
        raise RuntimeError(f"{left} messages left, {len(failures)} failed: {failures[:1]}")
    return time.perf_counter() - began


def _drain(bootstrap: str, topic: str, count: int) -> float:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_048_576,
            **_QUIET,
        }
    )
    got = 0

    def take() -> bool:
        nonlocal got
        for message in consumer.consume(10_000, 0.5):
            if message.error() is not None:
                raise KafkaException(message.error())
            got += 1
        return got >= count

    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        began = time.perf_counter()
        _until(take, f"{count} messages")
        return time.perf_counter() - began


def _topic(bootstrap: str) -> str:
    name = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(_PATIENCE_S)

    def led() -> bool:
        topic = admin.list_topics(name, timeout=_PATIENCE_S).topics[name]
        return topic.error is None and all(partition.leader >= 0 for partition in topic.partitions.values())

    _until(led, f"a leader of {name}")
    return name


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {_PATIENCE_S:g} s in vain for {what}")
