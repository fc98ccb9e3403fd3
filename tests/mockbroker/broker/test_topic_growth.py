"""The work for a topic or partition does not depend on how many there are, in memory and in a data directory."""

from __future__ import annotations

import random
from collections.abc import Iterable
from statistics import median

import pytest
from msgspec import Struct

from kwire import from_json
from mockbroker.log_directory.simulated_files import SimulatedFiles
from tests.support.brokers.broker import Broker
from tests.support.stored.stored_broker import StoredBroker
from tests.support.work_count import count_work

_CONFIG = {"retention.ms": "9999", "min.insync.replicas": "1"}


KINDS = pytest.mark.parametrize("kind", ["immediate", "real", "stored"])


def make_broker(kind: str) -> Broker:
    if kind == "stored":
        return StoredBroker(SimulatedFiles(random.Random(1)), nodes=3, snapshot_after=1 << 30)
    return Broker(nodes=3, config={"mockbroker.replication": kind})


def create_request(first: int, count: int) -> Struct:
    """A request that creates topics."""
    topics = [
        {
            "name": f"t{number}",
            "numPartitions": 1,
            "replicationFactor": 1,
            "configs": [{"name": name, "value": text} for name, text in _CONFIG.items()],
        }
        for number in range(first, first + count)
    ]
    return from_json("CreateTopicsRequest", 7, {"topics": topics, "timeoutMs": 1000})


def create(broker: Broker, first: int, count: int) -> int:
    """Create topics by one request; returns the work."""
    request = create_request(first, count)
    return count_work(lambda: broker.call(request, 7))


def delete(broker: Broker, number: int) -> int:
    request = from_json("DeleteTopicsRequest", 6, {"topics": [{"name": f"t{number}"}], "timeoutMs": 1000})
    return count_work(lambda: broker.call(request, 6))


@KINDS
def test_a_topic_costs_the_same_after_many(kind: str) -> None:
    broker = make_broker(kind)
    create(broker, 0, 10)
    few = create(broker, 10, 10)
    broker.call(create_request(20, 400), 7)  # Not counted, which takes many times as long.
    many = create(broker, 420, 10)

    assert many < 1.3 * few
    # Deletions among many, and among few.
    deleted = [delete(broker, number) for number in range(5)]
    for number in range(5, 420):
        broker.metadata.delete_topic(broker.topic(f"t{number}"))
    broker.advance(0)
    delete(broker, 420)
    assert median(deleted) < 1.3 * median(delete(broker, number) for number in range(421, 426))


def reassign(broker: Broker, topic: str, indexes: Iterable[int], *replicas: int) -> int:
    rows = [{"partitionIndex": index, "replicas": list(replicas)} for index in indexes]
    body = {"topics": [{"name": topic, "partitions": rows}], "timeoutMs": 1000}
    request = from_json("AlterPartitionReassignmentsRequest", 1, body)
    return count_work(lambda: broker.call(request, 1))


def elect(broker: Broker, topic: str, indexes: Iterable[int]) -> int:
    rows = [{"topic": topic, "partitions": list(indexes)}]
    request = from_json("ElectLeadersRequest", 2, {"electionType": 0, "topicPartitions": rows, "timeoutMs": 1000})
    return count_work(lambda: broker.call(request, 2))


def move_leaders(broker: Broker, topic: str, indexes: Iterable[int]) -> tuple[int, int]:
    """The work for new preferred leaders, and for their elections, of partitions of nodes 0 and 1."""
    indexes = list(indexes)
    leaders = {broker.topic(topic).partitions[index].leader for index in indexes}
    work = reassign(broker, topic, indexes, 1, 0), elect(broker, topic, indexes)
    assert leaders == {0}
    assert {broker.topic(topic).partitions[index].leader for index in indexes} == {1}
    reassign(broker, topic, indexes, 0, 1)
    elect(broker, topic, indexes)
    broker.advance(10_000)
    return work


#: Without followers that fetch, whose messages name all their partitions.
SHARED = pytest.mark.parametrize("kind", ["immediate", "stored"])


@SHARED
def test_a_leader_is_moved_at_the_same_cost_among_many_topics(kind: str) -> None:
    broker = make_broker(kind)

    def create_topics(first: int, count: int) -> None:
        for number in range(first, first + count):
            broker.metadata.create_topic(f"t{number}", assignments={0: [0, 1]})
        broker.advance(10_000)

    create_topics(0, 10)
    few = [move_leaders(broker, f"t{number}", [0]) for number in range(5)]
    create_topics(10, 400)
    many = [move_leaders(broker, f"t{number}", [0]) for number in range(5)]

    for at in range(2):
        assert median(work[at] for work in many) < 1.3 * median(work[at] for work in few)


@KINDS
def test_the_controller_applies_one_change_at_the_same_cost_among_many_topics(kind: str) -> None:
    broker = make_broker(kind)
    controller = broker.core.state.controller
    assert controller is not None
    for number in range(10):
        broker.metadata.create_topic(f"t{number}", assignments={0: [0, 1]})
    topic = broker.topic("t3")
    changed = [(topic, topic.partitions[0])]
    few = count_work(lambda: controller.apply_leader_changes(changed, now_ms=broker.now_ms))
    for number in range(10, 400):
        broker.metadata.create_topic(f"t{number}", assignments={0: [0, 1]})

    assert count_work(lambda: controller.apply_leader_changes(changed, now_ms=broker.now_ms)) < 1.3 * few


@SHARED
def test_the_leaders_of_one_topic_are_moved_at_the_same_cost_each(kind: str) -> None:
    broker = make_broker(kind)
    for name, count in (("few", 20), ("many", 400)):
        broker.metadata.create_topic(name, assignments={index: [0, 1] for index in range(count)})
    broker.advance(10_000)
    for name in ("few", "many"):
        move_leaders(broker, name, range(20))

    one = [move_leaders(broker, name, [3]) for name in ("few", "many")]
    together = [move_leaders(broker, "few", range(20)), move_leaders(broker, "many", range(400))]

    for at in range(2):
        assert one[1][at] < 1.3 * one[0][at]
        assert together[1][at] / 400 < 1.3 * together[0][at] / 20
