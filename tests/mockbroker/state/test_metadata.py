"""The cluster's image: topics, placement, names and coordinators."""

from __future__ import annotations

import random

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.config import BrokerConfig
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import Change, CoordinatorKind, Metadata, Topic, java_hash, partition_of


def make(node_count: int = 1, **given: str) -> Metadata:
    config = BrokerConfig({name.replace("_", "."): text for name, text in given.items()})
    return Metadata(range(node_count), config, random.Random(1))


def refused(code: ErrorCode, name: str, metadata: Metadata, **plan: object) -> None:
    with pytest.raises(KafkaError) as caught:
        metadata.create_topic(name, **plan)  # type: ignore[arg-type]  # Each plan is a valid call.
    assert caught.value.code is code


def test_a_topic_takes_the_brokers_defaults_and_is_found_by_name_and_id() -> None:
    metadata = make(num_partitions="3")
    topic = metadata.create_topic("orders")

    assert metadata.topic("orders") is topic
    assert metadata.topic_by_id(topic.topic_id) is topic
    assert [(p.index, p.leader, p.leader_epoch, p.replicas) for p in topic.partitions] == [
        (0, 0, 0, (0,)), (1, 0, 0, (0,)), (2, 0, 0, (0,)),
    ]  # fmt: skip


def test_partitions_are_striped_over_the_nodes() -> None:
    topic = make(3).create_topic("orders", partition_count=6, replication_factor=2)

    assert sorted(p.leader for p in topic.partitions) == [0, 0, 1, 1, 2, 2]
    assert all(len(set(p.replicas)) == 2 and p.isr == p.replicas for p in topic.partitions)


def test_the_same_seed_gives_the_same_ids_and_they_are_uuids_of_version_four() -> None:
    first, second = make().create_topic("a"), make().create_topic("a")

    assert first.topic_id == second.topic_id
    assert first.topic_id[6] >> 4 == 4
    assert first.topic_id[8] >> 6 == 2


@pytest.mark.parametrize("name", ["", ".", "..", "bad name!", "ä", "x" * 250, "a/b", "a\n"])
def test_names_that_kafka_refuses_are_refused(name: str) -> None:
    refused(ErrorCode.INVALID_TOPIC_EXCEPTION, name, make())


def test_names_that_differ_by_a_dot_and_an_underscore_collide() -> None:
    metadata = make()
    metadata.create_topic("a.b")

    refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "a_b", metadata)
    refused(ErrorCode.TOPIC_ALREADY_EXISTS, "a.b", metadata)
    metadata.create_topic("a-b")


def test_plans_that_cannot_be_placed_are_refused() -> None:
    metadata = make(2)

    refused(ErrorCode.INVALID_PARTITIONS, "t", metadata, partition_count=0)
    refused(ErrorCode.INVALID_REPLICATION_FACTOR, "t", metadata, replication_factor=3)
    refused(ErrorCode.INVALID_REPLICATION_FACTOR, "t", metadata, replication_factor=0)
    wrong: list[dict[int, list[int]]] = [{0: [9]}, {1: [0]}, {0: [0, 0]}, {0: []}, {0: [0], 1: [0, 1]}]
    for assignments in wrong:
        refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "t", metadata, assignments=assignments)
    assert metadata.topics() == []


def test_an_assignment_by_hand_decides_leader_and_replicas() -> None:
    topic = make(3).create_topic("t", assignments={0: [2, 0], 1: [1, 2]})

    assert [(p.leader, p.replicas) for p in topic.partitions] == [(2, (2, 0)), (1, (1, 2))]


def test_every_change_counts_and_is_told() -> None:
    metadata = make()
    told: list[tuple[Change, str]] = []
    metadata.watch(lambda change, topic: told.append((change, topic.name)))
    topic = metadata.create_topic("t")
    metadata.grow(topic, metadata.plan_partitions(topic, 2))
    metadata.lead(topic, 1, -1)
    metadata.delete_topic(topic)

    assert told == [(change, "t") for change in (Change.CREATED, Change.GREW, Change.LED_ANEW, Change.DELETED)]
    assert metadata.version == 4
    assert metadata.topic("t") is None
    assert metadata.topic_by_id(topic.topic_id) is None
    assert topic.partitions[1].leader_epoch == 1


@pytest.mark.parametrize("total", [1, 0, -1, 2])
def test_a_topic_only_grows(total: int) -> None:
    metadata = make()
    topic = metadata.create_topic("t", partition_count=2)

    with pytest.raises(KafkaError) as caught:
        metadata.plan_partitions(topic, total)
    assert caught.value.code is ErrorCode.INVALID_PARTITIONS


def test_a_coordinators_topic_is_made_on_first_use_with_the_configured_size() -> None:
    metadata = make(offsets_topic_num_partitions="7")
    assert metadata.topic("__consumer_offsets") is None
    node = metadata.coordinator_for(CoordinatorKind.GROUP, "g")

    topic = metadata.topic("__consumer_offsets")
    assert isinstance(topic, Topic)
    assert (node, len(topic.partitions), topic.internal) == (0, 7, True)
    assert metadata.coordinator_partition(CoordinatorKind.GROUP, "g") == ord("g") % 7


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(1 << 31)), ("\U0001f600", 1772899)],
)
def test_the_hash_is_that_of_java(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_the_smallest_hash_counts_as_zero() -> None:
    assert partition_of("polygenelubricants", 50) == 0
