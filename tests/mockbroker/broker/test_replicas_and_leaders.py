"""Replicas, elections and reassignments on virtual time, by requests: cases that tests/nodes does not cover."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages import alter_partition_reassignments as reassignments
from kwire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker.state.metadata.cluster_image import CoordinatorKind, Partition, Topic
from mockbroker.state.metadata.configs import Resource, ResourceKind
from tests.support.brokers.broker import Broker

SESSION_MS = 9_000
HALF_SECOND, FIVE_MINUTES = 500, 300_000


def make(*replicas: int, config: dict[str, str] | None = None, **settings: str) -> Broker:
    """Three nodes, and the topic t with one partition on some of them."""
    broker = Broker(nodes=3, config=config)
    broker.core.state.metadata.create_topic("t", assignments={0: replicas})
    configure(broker, **settings)
    return broker


def configure(broker: Broker, topic: str = "t", **settings: str) -> None:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    broker.core.state.configs.set_overrides(Resource(ResourceKind.TOPIC, topic), given)


def find_topic(broker: Broker) -> Topic:
    topic = broker.core.state.metadata.topic("t")
    assert topic is not None
    return topic


def partition(broker: Broker) -> Partition:
    return find_topic(broker).partitions[0]


def produce(broker: Broker, node: int, *, acks: int = -1, timeout_ms: int = 30_000) -> Any:
    """The row of an answer; None while there is none."""
    batch = write_batch([Record(0, broker.now_ms, None, b"v")])
    rows = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch)])]
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=rows)
    answer = broker.call(request, 12, connection=f"producer-{node}", node=node, settle=False)
    return answer and answer.responses[0].partition_responses[0]


def later(broker: Broker) -> Any:
    """The row of the late answer to the producer of node 0."""
    answer = broker.take_response("producer-0")
    return answer and answer.responses[0].partition_responses[0]


def commit_offset(broker: Broker, node: int, offset: int) -> int | None:
    """The error code of a commit; None while there is no answer."""
    row = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])
    answer = broker.call(OffsetCommitRequest("g", topics=[row]), 8, connection="commit", node=node)
    return None if answer is None else int(answer.topics[0].partitions[0].error_code)


def committed_offset(broker: Broker, node: int) -> int:
    group = OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=(0,))])
    answer = broker.call(OffsetFetchRequest(groups=[group]), 8, connection="fetch", node=node)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def high_watermark(broker: Broker, node: int) -> int:
    row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic("t", partitions=[row])])
    answer = broker.call(request, 12, connection=f"reader-{node}", node=node)
    return int(answer.responses[0].partitions[0].high_watermark)


def test_a_producer_is_answered_when_the_session_of_a_dead_follower_ends() -> None:
    broker = make(0, 1)
    broker.kill_node(1)
    assert produce(broker, 0) is None
    assert high_watermark(broker, 0) == 0
    broker.advance(SESSION_MS - 1)
    assert later(broker) is None
    broker.advance(1)

    row = later(broker)
    assert (row.error_code, row.base_offset, high_watermark(broker, 0)) == (0, 0, 1)


def test_a_producer_is_answered_when_the_follower_is_back() -> None:
    broker = make(0, 1)
    broker.kill_node(1)
    assert produce(broker, 0) is None
    broker.start_node(1)

    assert later(broker).error_code == 0
    assert sorted(partition(broker).isr) == [0, 1]


def test_a_produce_request_that_times_out_is_answered_so_and_its_record_stays() -> None:
    broker = make(0, 1)
    broker.kill_node(1)
    produce(broker, 0, timeout_ms=HALF_SECOND)
    broker.advance(HALF_SECOND)
    assert later(broker).error_code == ErrorCode.REQUEST_TIMED_OUT
    broker.advance(SESSION_MS)

    assert high_watermark(broker, 0) == 1


def test_a_producer_gets_an_error_for_too_few_in_sync_replicas_when_all_of_them_have_its_record() -> None:
    """In Kafka a race between the last fetch of a follower and its expulsion."""
    broker = make(0, 1, 2, min_insync_replicas="3")
    broker.kill_node(2)
    assert produce(broker, 0) is None
    partition(broker).isr = (0, 1)
    broker.core.state.nodes[0].logs.find_log(find_topic(broker).topic_id, 0).hold_high_watermark(None)
    broker.advance(0)
    broker.core.wake_all()
    broker.advance(0)

    assert later(broker).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_waiting_producer_is_answered_when_the_leader_has_moved() -> None:
    broker = make(0, 1, 2)
    broker.kill_node(2)
    assert produce(broker, 0) is None
    broker.core.move_leader("t", 0, broker.now_ms, to=1)
    broker.advance(0)

    assert later(broker).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_waiting_producer_is_answered_when_the_topic_is_deleted() -> None:
    broker = make(0, 1)
    broker.kill_node(1)
    assert produce(broker, 0) is None
    broker.core.state.metadata.delete_topic(find_topic(broker))
    broker.core.wake_all()
    broker.advance(0)

    assert later(broker).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_high_watermark_advances_when_the_minimum_is_lowered() -> None:
    broker = make(0, 1, 2, min_insync_replicas="3")
    broker.stop_node(2)
    assert produce(broker, 0, acks=1).error_code == 0
    assert (high_watermark(broker, 0), partition(broker).elr) == (0, (2,))
    configure(broker, min_insync_replicas="2")

    assert (high_watermark(broker, 0), partition(broker).elr) == (1, ())


def test_a_topic_created_while_a_node_is_down_has_no_replica_there() -> None:
    broker = Broker(nodes=3)
    broker.stop_node(1)
    broker.core.state.metadata.create_topic("t", assignments={0: (0, 1)})
    configure(broker, unclean_leader_election_enable="true")
    assert produce(broker, 0).error_code == 0
    broker.stop_node(0)
    broker.start_node(1)

    assert (partition(broker).leader, high_watermark(broker, 1)) == (1, 0)


def test_committed_offsets_that_the_next_coordinator_lacks_are_lost() -> None:
    broker = Broker(nodes=3, topics={"t": 1})
    metadata = broker.core.state.metadata
    leader = metadata.coordinator_id(CoordinatorKind.GROUP, "g")
    configure(broker, "__consumer_offsets", unclean_leader_election_enable="true")
    others = [node for node in range(3) if node != leader]

    assert commit_offset(broker, leader, 3) == 0
    for node in others:
        broker.stop_node(node)
    assert commit_offset(broker, leader, 7) == 0
    broker.kill_node(leader)
    broker.start_node(others[0])
    broker.advance(SESSION_MS)
    assert metadata.coordinator_id(CoordinatorKind.GROUP, "g") == others[0]

    assert committed_offset(broker, others[0]) == 3


@pytest.mark.parametrize(("rebalances", "leader"), [("true", 0), ("false", 1)])
def test_preferred_replicas_lead_again_after_a_while_unless_that_is_switched_off(rebalances: str, leader: int) -> None:
    broker = make(0, 1, config={"auto.leader.rebalance.enable": rebalances})
    broker.stop_node(0)
    broker.start_node(0)
    assert partition(broker).leader == 1
    broker.advance(FIVE_MINUTES - 1)
    assert partition(broker).leader == 1
    broker.advance(1)

    assert partition(broker).leader == leader


def test_an_unclean_election_that_is_allowed_late_takes_place_at_the_next_check() -> None:
    broker = make(0, 1)
    broker.stop_node(1)
    assert produce(broker, 0).error_code == 0
    broker.stop_node(0)
    broker.start_node(1)
    assert partition(broker).leader == -1
    configure(broker, unclean_leader_election_enable="true")
    broker.advance(FIVE_MINUTES)

    assert (partition(broker).leader, high_watermark(broker, 1)) == (1, 0)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_elect_leaders_is_answered(version: int) -> None:
    answer = make(0, 1).call(ElectLeadersRequest(0, [TopicPartitions("t", (0,))]), version)

    assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_cluster_requests_without_the_alter_permission_are_refused() -> None:
    config = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    broker = Broker(nodes=2, topics={"t": 1}, config=config)
    elected = broker.call(ElectLeadersRequest(0, [TopicPartitions("t", (0,))]), 2)
    topic = reassignments.ReassignableTopic("t", [reassignments.ReassignablePartition(0, (0,))])
    altered = broker.call(reassignments.AlterPartitionReassignmentsRequest(topics=[topic]), 1)
    listed = broker.call(ListPartitionReassignmentsRequest(), 0)

    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [elected.error_code, altered.error_code, listed.error_code] == [denied] * 3


def test_a_coordinator_loads_uncommitted_records_as_well() -> None:
    """Kafka's loaders read to the end of the log, whatever the high watermark is: it may go on."""
    broker = Broker(nodes=3, topics={"t": 1})
    metadata = broker.core.state.metadata
    first = metadata.coordinator_id(CoordinatorKind.GROUP, "g")
    second, third = (first + 1) % 3, (first + 2) % 3
    configure(broker, "__consumer_offsets", min_insync_replicas="3")
    broker.stop_node(third)
    assert commit_offset(broker, first, 5) is None
    index = metadata.coordinator_partition_index(CoordinatorKind.GROUP, "g")
    broker.core.move_leader("__consumer_offsets", index, broker.now_ms, to=second)
    broker.advance(0)
    broker.start_node(third)

    assert committed_offset(broker, second) == 5
