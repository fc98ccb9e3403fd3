"""The cluster's image: topics, placement, names and coordinators."""

from __future__ import annotations

import random

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.state.metadata.cluster_image import (
    ClusterImage,
    CoordinatorKind,
    Topic,
    TopicChange,
    java_hash,
    partition_for_key,
)
from tests.support.raises_code import raises_code


def make_image(node_count: int = 1, **given: str) -> ClusterImage:
    config = BrokerConfig({name.replace("_", "."): text for name, text in given.items()})
    return ClusterImage(range(node_count), config, random.Random(1))


def check_error(code: ErrorCode, name: str, metadata: ClusterImage, **plan: object) -> None:
    with raises_code(code):
        metadata.create_topic(name, **plan)  # type: ignore[arg-type]  # Each plan is a valid call.


def test_a_topic_takes_the_brokers_defaults_and_is_found_by_name_and_id() -> None:
    metadata = make_image(num_partitions="3")
    topic = metadata.create_topic("orders")

    assert metadata.topic("orders") is topic
    assert metadata.topic_by_id(topic.topic_id) is topic
    assert [(p.index, p.leader, p.leader_epoch, p.replicas) for p in topic.partitions] == [
        (0, 0, 0, (0,)), (1, 0, 0, (0,)), (2, 0, 0, (0,)),
    ]  # fmt: skip


def test_partitions_are_striped_over_the_nodes() -> None:
    topic = make_image(3).create_topic("orders", partition_count=6, replication_factor=2)

    assert sorted(p.leader for p in topic.partitions) == [0, 0, 1, 1, 2, 2]
    assert all(len(set(p.replicas)) == 2 and p.isr == p.replicas for p in topic.partitions)


def test_the_same_seed_gives_the_same_ids_and_they_are_uuids_of_version_four() -> None:
    first, second = make_image().create_topic("a"), make_image().create_topic("a")

    assert first.topic_id == second.topic_id
    assert first.topic_id[6] >> 4 == 4
    assert first.topic_id[8] >> 6 == 2


@pytest.mark.parametrize("name", ["", ".", "..", "bad name!", "ä", "x" * 250, "a/b", "a\n"])
def test_names_that_kafka_rejects_are_rejected(name: str) -> None:
    check_error(ErrorCode.INVALID_TOPIC_EXCEPTION, name, make_image())


def test_names_that_differ_by_a_dot_and_an_underscore_collide() -> None:
    metadata = make_image()
    metadata.create_topic("a.b")

    check_error(ErrorCode.INVALID_TOPIC_EXCEPTION, "a_b", metadata)
    check_error(ErrorCode.TOPIC_ALREADY_EXISTS, "a.b", metadata)
    metadata.create_topic("a-b")


def test_plans_that_cannot_be_placed_are_rejected() -> None:
    metadata = make_image(2)

    check_error(ErrorCode.INVALID_PARTITIONS, "t", metadata, partition_count=0)
    check_error(ErrorCode.INVALID_REPLICATION_FACTOR, "t", metadata, replication_factor=3)
    check_error(ErrorCode.INVALID_REPLICATION_FACTOR, "t", metadata, replication_factor=0)
    invalid: list[dict[int, list[int]]] = [{0: [9]}, {1: [0]}, {0: [0, 0]}, {0: []}, {0: [0], 1: [0, 1]}]
    for assignments in invalid:
        check_error(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "t", metadata, assignments=assignments)
    assert metadata.topics() == []


def test_an_assignment_by_hand_decides_leader_and_replicas() -> None:
    topic = make_image(3).create_topic("t", assignments={0: [2, 0], 1: [1, 2]})

    assert [(p.leader, p.replicas) for p in topic.partitions] == [(2, (2, 0)), (1, (1, 2))]


def test_every_change_increments_the_version_and_calls_the_listeners() -> None:
    metadata = make_image()
    changes: list[tuple[TopicChange, str, list[int]]] = []
    metadata.add_listener(
        lambda change, topic, partitions: changes.append((change, topic.name, [each.index for each in partitions]))
    )
    topic = metadata.create_topic("t")
    metadata.add_partitions(topic, metadata.plan_partitions(topic, 2))
    metadata.change_leader(topic, 1, -1)
    metadata.delete_topic(topic)

    assert changes == [
        (TopicChange.CREATED, "t", [0]),
        (TopicChange.PARTITIONS_ADDED, "t", [1]),
        (TopicChange.LEADER_CHANGED, "t", [1]),
        (TopicChange.DELETED, "t", [0, 1]),
    ]
    assert metadata.version == 4
    assert metadata.topic("t") is None
    assert metadata.topic_by_id(topic.topic_id) is None
    assert topic.partitions[1].leader_epoch == 1


@pytest.mark.parametrize("total", [1, 0, -1, 2])
def test_a_topic_only_grows(total: int) -> None:
    metadata = make_image()
    topic = metadata.create_topic("t", partition_count=2)

    with raises_code(ErrorCode.INVALID_PARTITIONS):
        metadata.plan_partitions(topic, total)


def test_an_internal_topic_is_created_on_first_use_with_the_configured_size() -> None:
    metadata = make_image(offsets_topic_num_partitions="7")
    assert metadata.topic("__consumer_offsets") is None
    node = metadata.coordinator_id(CoordinatorKind.GROUP, "g")

    topic = metadata.topic("__consumer_offsets")
    assert isinstance(topic, Topic)
    assert (node, len(topic.partitions), topic.internal) == (0, 7, True)
    assert metadata.coordinator_partition_index(CoordinatorKind.GROUP, "g") == ord("g") % 7


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(1 << 31)), ("\U0001f600", 1772899)],
)
def test_the_hash_is_that_of_java(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_the_smallest_hash_counts_as_zero() -> None:
    assert partition_for_key("polygenelubricants", 50) == 0
