"""Workloads of confluent-kafka that run against any broker: produce, consume, share-consume."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

_TIMEOUT_S = 120.0
_NO_LOG = {"log_level": 0}


class Rates(NamedTuple):
    """Messages per second of each step."""

    produce: float
    consume: float


def measure_rates(bootstrap: str, *, count: int, size: int) -> Rates:
    """Produce `count` messages of `size` bytes to one partition with acks=all, then read them from the start."""
    topic = create_topic(bootstrap)
    produce_s = produce_messages(bootstrap, topic, count, size)
    return Rates(count / produce_s, count / consume_messages(bootstrap, topic, count))


def measure_first_share_record_s(bootstrap: str) -> float:
    """From subscribe to the first record of a share consumer whose group starts at earliest, seconds."""
    topic = create_topic(bootstrap)
    produce_messages(bootstrap, topic, 10, 100)
    with closing(_share_consumer(bootstrap)) as consumer:
        began = time.perf_counter()
        consumer.subscribe([topic])
        wait_until(lambda: any(message.error() is None for message in consumer.poll(0.05)), "a share record")
        return time.perf_counter() - began


def measure_share_rate(bootstrap: str, *, count: int, size: int, explicit: bool) -> float:
    """Messages per second of one share consumer with an assigned partition that holds `count` messages.

    explicit: every message is acknowledged separately, and those of a poll are committed before the next poll;
    otherwise the next poll acknowledges.
    """
    topic = create_topic(bootstrap)
    produce_messages(bootstrap, topic, 1, size)
    received_count = 0

    def poll_share_messages() -> bool:
        nonlocal received_count
        messages = consumer.poll(0.5)
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            if explicit:
                consumer.acknowledge(message)
        received_count += len(messages)
        if explicit and messages:
            consumer.commit_sync(_TIMEOUT_S)
        return received_count > count

    with closing(_share_consumer(bootstrap, explicit=explicit)) as consumer:
        consumer.subscribe([topic])
        wait_until(lambda: poll_share_messages() or received_count > 0, "the first share record")
        produce_messages(bootstrap, topic, count, size)
        began = time.perf_counter()
        wait_until(poll_share_messages, f"{count} messages")
        return count / (time.perf_counter() - began)


def start_at_earliest(bootstrap: str, group: str) -> None:
    """Let a share group start at the earliest offset."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_NO_LOG})
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_TIMEOUT_S)


def _share_consumer(bootstrap: str, *, explicit: bool = False) -> ShareConsumer:
    """A consumer in a new group that starts at the earliest record."""
    group = f"bench-{uuid.uuid4().hex[:8]}"
    start_at_earliest(bootstrap, group)
    mode = "explicit" if explicit else "implicit"
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": mode}
    return ShareConsumer({**settings, **_NO_LOG})


def produce_messages(bootstrap: str, topic: str, count: int, size: int) -> float:
    """Produce messages and wait for all delivery reports; returns seconds."""
    failures: list[object] = []
    settings = {"acks": "all", "compression.type": "none", "linger.ms": 5, **_NO_LOG}
    buffers = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1_048_576}
    producer = Producer({"bootstrap.servers": bootstrap, **settings, **buffers})
    producer.list_topics(topic, timeout=_TIMEOUT_S)
    value = os.urandom(size)
    began = time.perf_counter()
    for number in range(count):
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
        if number % 1024 == 0:
            producer.poll(0)
    left = producer.flush(_TIMEOUT_S)
    if left or failures:
        raise RuntimeError(f"{left} messages left, {len(failures)} failed: {failures[:1]}")
    return time.perf_counter() - began


def consume_messages(bootstrap: str, topic: str, count: int) -> float:
    """Read so many messages of a partition from its start; returns seconds."""
    settings = {"group.id": "bench", "enable.auto.commit": False, "auto.offset.reset": "earliest", **_NO_LOG}
    buffers = {"queued.min.messages": 1_000_000, "queued.max.messages.kbytes": 1_048_576}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **buffers})
    received_count = 0

    def poll_messages() -> bool:
        nonlocal received_count
        for message in consumer.consume(10_000, 0.5):
            if message.error() is not None:
                raise KafkaException(message.error())
            received_count += 1
        return received_count >= count

    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        began = time.perf_counter()
        wait_until(poll_messages, f"{count} messages")
        return time.perf_counter() - began


def create_topic(bootstrap: str) -> str:
    """Create a topic of one partition, and wait for its leader; returns its name."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, **_NO_LOG})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(_TIMEOUT_S)

    def has_leader() -> bool:
        topic = admin.list_topics(name, timeout=_TIMEOUT_S).topics[name]
        return topic.error is None and all(partition.leader >= 0 for partition in topic.partitions.values())

    wait_until(has_leader, f"a leader of {name}")
    return name


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float = _TIMEOUT_S, pause_s: float = 0) -> None:
    """Check a condition until it holds, with pauses unless it waits itself. Raises: TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"timed out after {timeout_s:g} s: {what}")
        time.sleep(pause_s)
