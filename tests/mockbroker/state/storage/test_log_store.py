"""A node's logs: only what it leads, under the topic's configuration of the moment."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest

from kwire.error_codes import ErrorCode
from kwire.records import Codec, Record, write_batch
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.state.metadata.cluster_image import ClusterImage
from mockbroker.state.metadata.configs import Configs, Resource, ResourceKind
from mockbroker.state.storage.log_store import LogStore, NodeLogs
from tests.support.raises_code import code_of

BATCH = write_batch([Record(0, 5, b"k", b"v")])


class Cluster:
    """Two nodes over one store."""

    def __init__(self) -> None:
        config = BrokerConfig()
        self.metadata = ClusterImage(range(2), config, random.Random(1))
        self.configs = Configs(config)
        self.configs.track_topics(self.metadata)
        self.woken: list[tuple[Hashable, ...]] = []
        store = LogStore(self.metadata, self.configs, self.woken.append)
        self.logs = [NodeLogs(node, self.metadata, store) for node in range(2)]
        self.topic = self.metadata.create_topic("t", assignments={0: [0, 1]})
        self.key = ("log", self.topic.topic_id, 0)

    def code(self, node: int, *, partition: int = 0, leader_epoch: int = -1) -> ErrorCode:
        return code_of(lambda: self.logs[node].find_log(self.topic.topic_id, partition, leader_epoch=leader_epoch))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_node_has_only_the_logs_that_it_leads(cluster: Cluster) -> None:
    assert cluster.logs[0].find_log(cluster.topic.topic_id, 0).end_offset == 0
    assert cluster.code(1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.code(0, partition=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.code(0, partition=-1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_new_leader_has_all_records_and_stamps_its_own_epoch(cluster: Cluster) -> None:
    cluster.logs[0].find_log(cluster.topic.topic_id, 0).append(BATCH, now_ms=5)
    cluster.metadata.change_leader(cluster.topic, 0, 1)
    log = cluster.logs[1].find_log(cluster.topic.topic_id, 0)
    log.append(BATCH, now_ms=5)

    assert [batch.leader_epoch for batch in log.read(0, 1000).batches] == [0, 1]
    assert cluster.code(0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.code(1, leader_epoch=0) is ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.code(1, leader_epoch=2) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_appends_leader_changes_and_deletions_wake_waiting_requests(cluster: Cluster) -> None:
    cluster.logs[0].find_log(cluster.topic.topic_id, 0).append(BATCH, now_ms=5)
    assert cluster.woken == [cluster.key]
    cluster.metadata.change_leader(cluster.topic, 0, 1)
    cluster.metadata.delete_topic(cluster.topic)

    assert cluster.woken == [cluster.key] * 3
    assert cluster.code(1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_recreated_topic_is_empty_and_unconfigured(cluster: Cluster) -> None:
    cluster.configs.set_overrides(Resource(ResourceKind.TOPIC, "t"), {"retention.ms": "1"})
    cluster.logs[0].find_log(cluster.topic.topic_id, 0).append(BATCH, now_ms=5)
    cluster.metadata.delete_topic(cluster.topic)
    again = cluster.metadata.create_topic("t", assignments={0: [0]})

    assert cluster.logs[0].find_log(again.topic_id, 0).end_offset == 0
    assert cluster.configs.topic("t")["retention.ms"] == 604_800_000


def test_a_change_of_configuration_counts_from_the_next_append_on(cluster: Cluster) -> None:
    log = cluster.logs[0].find_log(cluster.topic.topic_id, 0)
    log.append(BATCH, now_ms=5)
    cluster.configs.set_overrides(Resource(ResourceKind.TOPIC, "t"), {"compression.type": "gzip"})
    log.append(BATCH, now_ms=5)

    assert [batch.header().codec for batch in log.read(0, 1000).batches] == [Codec.NONE, Codec.GZIP]


def test_internal_topics_have_kafkas_configuration(cluster: Cluster) -> None:
    cluster.metadata.create_topic("__consumer_offsets")
    cluster.metadata.create_topic("__share_group_state")

    assert cluster.configs.topic("__consumer_offsets")["cleanup.policy"] == ["compact"]
    assert cluster.configs.topic("__share_group_state")["retention.ms"] == -1
