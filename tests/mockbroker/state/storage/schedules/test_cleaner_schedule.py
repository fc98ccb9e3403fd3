"""When logs are cleaned: by the cluster's clock, and not before there is something to clean."""

from __future__ import annotations

import gc
import weakref

from kwire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.state.metadata.topics import CoordinatorKind
from tests.support.brokers.broker import Broker

WEEK_MS = 604_800_000
CHECK_MS = 300_000


def create(broker: Broker, **configs: str) -> None:
    rows = [CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()]
    answer = broker.call(CreateTopicsRequest([CreatableTopic("t", 1, 1, configs=rows)], 1_000), 7)
    assert answer.topics[0].error_code == 0


def produce(broker: Broker, key: bytes = b"k", timestamp: int | None = None) -> None:
    data = write_batch([Record(0, broker.now_ms if timestamp is None else timestamp, key, b"v")])
    topic = TopicProduceData("t", bytes(16), [PartitionProduceData(0, data)])
    answer = broker.call(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def start_of(broker: Broker) -> int:
    topic = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-2)])
    offset: int = broker.call(ListOffsetsRequest(-1, topics=[topic]), 7).topics[0].partitions[0].offset
    return offset


def test_an_idle_cluster_has_no_deadline_for_its_logs() -> None:
    broker = Broker(topics={"t": 3})

    assert broker.core.next_deadline_ms() is None


def test_with_the_defaults_a_record_is_deleted_at_the_first_check_after_a_week() -> None:
    broker = Broker()
    create(broker)
    started_ms = broker.now_ms
    broker.advance(7)
    produce(broker)

    due_ms = broker.core.next_deadline_ms()
    assert due_ms is not None
    assert WEEK_MS < due_ms - broker.now_ms <= WEEK_MS + CHECK_MS
    assert (due_ms - started_ms - 30_000) % CHECK_MS == 0
    broker.advance(due_ms - broker.now_ms - 1)
    assert start_of(broker) == 0
    broker.advance(1)
    assert start_of(broker) == 1
    assert broker.core.next_deadline_ms() is None


def test_later_records_of_a_segment_postpone_its_deletion() -> None:
    """The check that was planned for the first record finds nothing to delete, and the next one is planned."""
    broker = Broker()
    create(broker)
    produce(broker)
    first_due_ms = broker.core.next_deadline_ms()
    assert first_due_ms is not None
    for _ in range(3):
        broker.advance(WEEK_MS // 4)
        produce(broker)
    last_ms = broker.now_ms

    assert broker.core.next_deadline_ms() == first_due_ms
    broker.advance(first_due_ms - broker.now_ms)
    due_ms = broker.core.next_deadline_ms()
    assert due_ms is not None
    assert WEEK_MS < due_ms - last_ms <= WEEK_MS + CHECK_MS
    broker.advance(due_ms - broker.now_ms - 1)
    assert start_of(broker) == 0
    broker.advance(1)
    assert start_of(broker) == 4


def test_a_shorter_retention_is_applied_at_the_next_check() -> None:
    broker = Broker()
    create(broker)
    produce(broker)
    change = AlterConfigsResource(2, "t", [AlterableConfig("retention.ms", 0, "1000")])
    broker.call(IncrementalAlterConfigsRequest([change]), 1)

    broker.advance(30_000)
    assert start_of(broker) == 1


def test_a_compacted_log_is_cleaned_when_the_cleaner_wakes() -> None:
    broker = Broker(config={"log.cleaner.backoff.ms": "700"})
    create(broker, cleanup_policy="compact", min_cleanable_dirty_ratio="0", segment_ms="1000")
    topic = broker.core.state.metadata.topic("t")
    assert topic is not None
    log = broker.core.state.nodes[0].logs.find_log(topic.topic_id, 0)
    broker.advance(1)  # The cleaner has looked around once, at the start.
    for timestamp in (5, 5, 5_000):
        produce(broker, timestamp=timestamp)
    broker.advance(698)
    assert [batch.base_offset for batch in log.batches_below(9)] == [0, 1, 2]
    broker.advance(1)

    assert [batch.base_offset for batch in log.batches_below(9)] == [1, 2]
    assert broker.core.next_deadline_ms() is None


def test_without_a_cleaner_nothing_is_compacted_and_compacted_logs_stay() -> None:
    broker = Broker(config={"log.cleaner.enable": "false"})
    create(broker, cleanup_policy="compact,delete", min_cleanable_dirty_ratio="0", retention_ms="1000")
    produce(broker)

    assert broker.core.next_deadline_ms() is None


def test_a_deleted_topic_is_removed() -> None:
    broker = Broker(topics={"t": 1})
    produce(broker)
    topic = broker.core.state.metadata.topic("t")
    assert topic is not None
    broker.core.state.metadata.delete_topic(topic)
    broker.advance(2 * WEEK_MS)

    assert broker.core.next_deadline_ms() is None


def test_the_log_of_a_deleted_topic_is_freed() -> None:
    broker = Broker(topics={"t": 1})
    produce(broker)
    log = weakref.ref(broker.leader_log("t"))
    broker.advance(0)

    broker.metadata.delete_topic(broker.topic("t"))
    broker.advance(0)
    gc.collect()

    assert log() is None


def test_coordinators_load_from_all_segments_of_their_logs() -> None:
    broker = Broker(nodes=2, config={"group.initial.rebalance.delay.ms": "0"})
    commit = OffsetCommitRequest("g", -1, "", topics=[OffsetCommitRequestTopic("t", partitions=[])])
    create(broker)
    broker.call(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 6)
    leader = broker.core.state.metadata.coordinator_id(CoordinatorKind.GROUP, "g")
    for offset in (5, 6):
        commit.topics[0].partitions = [OffsetCommitRequestPartition(0, offset, committed_metadata="")]
        broker.call(commit, 8, connection=f"c{leader}", node=leader)
        broker.advance(WEEK_MS + 1 if offset == 5 else 0)
    shard = broker.core.state.metadata.coordinator_partition_index(CoordinatorKind.GROUP, "g")
    broker.core.move_leader("__consumer_offsets", shard, broker.now_ms, to=1 - leader)
    broker.advance(1_000)

    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    answer = broker.call(request, 8, connection=f"c{1 - leader}", node=1 - leader)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 6
