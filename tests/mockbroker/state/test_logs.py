"""A node's logs: only what it leads, under the topic's configuration of the moment."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest

from kwire.error_codes import ErrorCode
from kwire.records import Codec, Record, write_batch
from mockbroker.config import BrokerConfig
from mockbroker.kafka_error import KafkaError
from mockbroker.state.configs import Configs, Resource, ResourceKind
from mockbroker.state.logs import Logs, LogStore
from mockbroker.state.metadata import Metadata

BATCH = write_batch([Record(0, 5, b"k", b"v")])


class Rooms:
    """Two nodes over one store."""

    def __init__(self) -> None:
        config = BrokerConfig()
        self.metadata = Metadata(range(2), config, random.Random(1))
        self.configs = Configs(config)
        self.configs.follow(self.metadata)
        self.woken: list[tuple[Hashable, ...]] = []
        store = LogStore(self.metadata, self.configs, self.woken.append)
        self.logs = [Logs(node, self.metadata, store) for node in range(2)]
        self.topic = self.metadata.create_topic("t", assignments={0: [0, 1]})
        self.key = ("log", self.topic.topic_id, 0)

    def code(self, node: int, *, partition: int = 0, leader_epoch: int = -1) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            self.logs[node].get(self.topic.topic_id, partition, leader_epoch=leader_epoch)
        return caught.value.code


def test_a_node_has_only_the_logs_that_it_leads() -> None:
    rooms = Rooms()

    assert rooms.logs[0].get(rooms.topic.topic_id, 0).end_offset == 0
    assert rooms.code(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rooms.code(0, partition=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert rooms.code(0, partition=-1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_new_leader_has_all_records_and_stamps_its_own_epoch() -> None:
    rooms = Rooms()
    rooms.logs[0].get(rooms.topic.topic_id, 0).append(BATCH, now_ms=5)
    rooms.metadata.lead(rooms.topic, 0, 1)
    log = rooms.logs[1].get(rooms.topic.topic_id, 0)
    log.append(BATCH, now_ms=5)

    assert [batch.leader_epoch for batch in log.read(0, 1000).batches] == [0, 1]
    assert rooms.code(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rooms.code(1, leader_epoch=0) is ErrorCode.FENCED_LEADER_EPOCH
    assert rooms.code(1, leader_epoch=2) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_appends_moves_and_deletions_wake_who_waits() -> None:
    rooms = Rooms()
    rooms.logs[0].get(rooms.topic.topic_id, 0).append(BATCH, now_ms=5)
    assert rooms.woken == [rooms.key]
    rooms.metadata.lead(rooms.topic, 0, 1)
    rooms.metadata.delete_topic(rooms.topic)

    assert rooms.woken == [rooms.key] * 3
    assert rooms.code(1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_made_again_begins_empty_and_unconfigured() -> None:
    rooms = Rooms()
    rooms.configs.put(Resource(ResourceKind.TOPIC, "t"), {"retention.ms": "1"})
    rooms.logs[0].get(rooms.topic.topic_id, 0).append(BATCH, now_ms=5)
    rooms.metadata.delete_topic(rooms.topic)
    again = rooms.metadata.create_topic("t", assignments={0: [0]})

    assert rooms.logs[0].get(again.topic_id, 0).end_offset == 0
    assert rooms.configs.topic("t")["retention.ms"] == 604_800_000


def test_a_change_of_configuration_counts_from_the_next_append_on() -> None:
    rooms = Rooms()
    log = rooms.logs[0].get(rooms.topic.topic_id, 0)
    log.append(BATCH, now_ms=5)
    rooms.configs.put(Resource(ResourceKind.TOPIC, "t"), {"compression.type": "gzip"})
    log.append(BATCH, now_ms=5)

    assert [batch.header().codec for batch in log.read(0, 1000).batches] == [Codec.NONE, Codec.GZIP]


def test_coordinators_topics_have_the_configuration_that_kafka_gives_them() -> None:
    rooms = Rooms()
    rooms.metadata.create_topic("__consumer_offsets")
    rooms.metadata.create_topic("__share_group_state")

    assert rooms.configs.topic("__consumer_offsets")["cleanup.policy"] == ["compact"]
    assert rooms.configs.topic("__share_group_state")["retention.ms"] == -1
