"""Calls of confluent-kafka that wait for any broker's answer: synchronous produce, transactions, commits of offsets."""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from statistics import quantiles
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tools.bench.client_workload import create_topic, produce_messages, wait_until

_TIMEOUT_S = 60.0
_NO_LOG = {"log_level": 0}
_WARM_UP = 50


class Latencies(NamedTuple):
    """Microseconds of a call."""

    p50_us: float
    p99_us: float


def measure_synchronous_produce(bootstrap: str, count: int) -> Latencies:
    """Produce messages of 100 bytes with acks=all, each after the report of the one before."""
    topic = create_topic(bootstrap)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **_NO_LOG})
    producer.list_topics(topic, timeout=_TIMEOUT_S)
    failures: list[object] = []
    value = b"x" * 100
    times_us = []
    for number in range(_WARM_UP + count):
        began = time.perf_counter()
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
        left = producer.flush(_TIMEOUT_S)
        if number >= _WARM_UP:
            times_us.append((time.perf_counter() - began) * 1e6)
        if left or failures:
            raise RuntimeError(f"message {number}: {left} left, failed: {failures[:1]}")
    cuts = quantiles(times_us, n=100)
    return Latencies(cuts[49], cuts[98])


def measure_transactions(bootstrap: str, count: int, *, records: int) -> float:
    """Transactions per second: each produces this many records of 100 bytes, and is committed."""
    topic = create_topic(bootstrap)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": f"bench-{uuid.uuid4().hex[:8]}", "linger.ms": 0}
    producer = Producer({**settings, **_NO_LOG})
    producer.init_transactions(_TIMEOUT_S)
    value = b"x" * 100

    def run_transaction() -> None:
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(topic, value)
        producer.commit_transaction(_TIMEOUT_S)

    run_transaction()
    began = time.perf_counter()
    for _ in range(count):
        run_transaction()
    return count / (time.perf_counter() - began)


def measure_commits(bootstrap: str, count: int) -> float:
    """Commits per second of the one member of a classic group; each waits for its answer."""
    topic = create_topic(bootstrap)
    produce_messages(bootstrap, topic, 1, 100)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"bench-{uuid.uuid4().hex[:8]}",
        "group.protocol": "classic",
    }
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False, **_NO_LOG})
    with closing(consumer):
        consumer.subscribe([topic])

        def poll_message() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())
            return message is not None

        wait_until(poll_message, "the first message")
        began = time.perf_counter()
        for number in range(count):
            consumer.commit(offsets=[TopicPartition(topic, 0, number)], asynchronous=False)
        return count / (time.perf_counter() - began)
