"""Brokers that are stopped, killed and restarted, on virtual time: elections, connections, coordinators, storage."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import CoordinatorKind, Partition, Topic
from tests.support.brokers.broker import Broker

SESSION_MS = 9_000


@pytest.fixture
def broker() -> Broker:
    return Broker(nodes=3, topics={"orders": 3}, config={"default.replication.factor": "3"})


def _topic(broker: Broker, name: str = "orders") -> Topic:
    topic = broker.core.state.metadata.topic(name)
    assert topic is not None
    return topic


def _led_by(broker: Broker, node_id: int) -> Partition:
    return next(partition for partition in _topic(broker).partitions if partition.leader == node_id)


def _metadata(broker: Broker, node: int) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    return broker.call(request, 12, connection=f"look-{node}", node=node)


def test_a_stopped_broker_leaves_the_image_and_another_replica_leads(broker: Broker) -> None:
    partition = _led_by(broker, 1)
    second = next(replica for replica in partition.replicas if replica != 1)
    broker.stop_node(1)
    response = _metadata(broker, 0)

    assert [row.node_id for row in response.brokers] == [0, 2]
    rows = sorted(response.topics[0].partitions, key=lambda row: row.partition_index)
    row = rows[partition.index]
    assert (row.leader_id, row.leader_epoch, row.error_code) == (second, 1, 0)
    assert sorted(row.isr_nodes) == [0, 2]
    assert row.offline_replicas == (1,)
    assert [one.leader_epoch for one in rows] == [1 if one is row else 0 for one in rows]


def test_a_killed_broker_stays_in_the_image_until_its_session_ends(broker: Broker) -> None:
    index = _led_by(broker, 1).index
    broker.kill_node(1)
    broker.advance(SESSION_MS - 1)
    assert _topic(broker).partitions[index].leader == 1
    broker.advance(1)

    assert _topic(broker).partitions[index].leader != 1
    assert [row.node_id for row in _metadata(broker, 2).brokers] == [0, 2]


def test_a_restarted_broker_is_in_sync_and_leads_only_partitions_without_other_leaders(broker: Broker) -> None:
    broker.stop_node(1)
    leaders = [partition.leader for partition in _topic(broker).partitions]
    broker.start_node(1)

    partitions = _topic(broker).partitions
    assert [partition.leader for partition in partitions] == leaders
    assert all((sorted(partition.isr), partition.offline) == ([0, 1, 2], ()) for partition in partitions)
    assert [row.node_id for row in _metadata(broker, 1).brokers] == [0, 1, 2]


def test_a_partition_with_one_replica_has_no_leader_until_its_broker_restarts() -> None:
    broker = Broker(nodes=2, topics={"orders": 2})
    partition = _led_by(broker, 1)
    broker.stop_node(1)
    row = _metadata(broker, 0).topics[0].partitions[partition.index]
    assert (row.leader_id, row.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    broker.start_node(1)

    assert (partition.leader, partition.leader_epoch) == (1, 2)


def test_the_last_replica_in_sync_is_the_one_that_may_lead_again(broker: Broker) -> None:
    for node_id in (1, 0, 2):
        broker.stop_node(node_id)
    broker.start_node(0)
    assert {partition.leader for partition in _topic(broker).partitions} == {-1}
    broker.start_node(2)

    assert {partition.leader for partition in _topic(broker).partitions} == {2}
    assert {tuple(sorted(partition.isr)) for partition in _topic(broker).partitions} == {(0, 2)}


def test_only_the_connections_of_a_killed_broker_break(broker: Broker) -> None:
    broker.connect("on-1", node=1)
    broker.connect("on-2", node=2)
    broker.kill_node(1)

    assert broker.closed == {"on-1": "node 1 was killed"}


def test_a_broker_that_is_down_accepts_no_connection(broker: Broker) -> None:
    broker.kill_node(1)
    broker.connect("late", node=1)
    broker.advance(0)

    assert broker.closed == {"late": "node 1 is not running"}


def test_a_leader_moves_to_another_replica_in_the_next_epoch(broker: Broker) -> None:
    partition = _topic(broker).partitions[0]
    other = partition.replicas[1]
    broker.core.move_leader("orders", 0, broker.now_ms, to=other)

    assert (partition.leader, partition.leader_epoch) == (other, 1)


def test_a_leader_does_not_move_to_a_broker_that_is_down(broker: Broker) -> None:
    other = _topic(broker).partitions[0].replicas[1]
    broker.stop_node(other)

    with pytest.raises(KafkaError) as refused:
        broker.core.move_leader("orders", 0, broker.now_ms, to=other)
    assert refused.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_stopping_or_starting_a_broker_twice_is_refused(broker: Broker) -> None:
    with pytest.raises(KafkaError, match="running already"):
        broker.start_node(1)
    broker.kill_node(1)
    with pytest.raises(KafkaError, match="not running"):
        broker.kill_node(1)
    with pytest.raises(KafkaError, match="no node 9"):
        broker.start_node(9)


def test_a_broker_that_restarts_before_its_session_ends_loses_its_leadership(broker: Broker) -> None:
    partition = _led_by(broker, 1)
    broker.kill_node(1)
    broker.start_node(1)

    assert (partition.leader != 1, partition.leader_epoch) == (True, 1)
    broker.advance(SESSION_MS)
    assert [row.node_id for row in _metadata(broker, 0).brokers] == [0, 1, 2]


def test_the_log_survives_its_leaders(broker: Broker) -> None:
    topic, partition = _topic(broker), _led_by(broker, 1)
    nodes = broker.core.state.nodes
    before = nodes[1].logs.find_log(topic.topic_id, partition.index)
    broker.stop_node(1)

    assert nodes[partition.leader].logs.find_log(topic.topic_id, partition.index) is before


def test_new_topics_have_no_copies_on_a_broker_that_is_down(broker: Broker) -> None:
    broker.stop_node(1)
    topic = broker.core.state.metadata.create_topic("new", partition_count=6, replication_factor=2)
    assert {replica for partition in topic.partitions for replica in partition.replicas} == {0, 2}
    wide = broker.core.state.metadata.create_topic("wide", partition_count=3, replication_factor=3)

    assert all(1 not in partition.isr and partition.leader != 1 for partition in wide.partitions)
    assert all(partition.offline == (1,) for partition in wide.partitions)


def test_a_call_to_a_dead_broker_is_a_network_exception(broker: Broker) -> None:
    answers: list[object] = []
    broker.kill_node(1)
    call = broker.core.state.inter_broker.call
    call(to=1, handle=lambda node, _: None, done=lambda answer, _: answers.append(answer), now_ms=broker.now_ms)
    broker.advance(0)

    assert isinstance(answers[0], KafkaError)
    assert answers[0].code is ErrorCode.NETWORK_EXCEPTION


def _coordinator(broker: Broker, group_id: str) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,))
    node = next(iter(broker.core.state.nodes))
    return int(broker.call(request, 4, connection=f"find-{node}", node=node).coordinators[0].node_id)


def _share_heartbeat(broker: Broker, node: int, epoch: int) -> Any:
    request = ShareGroupHeartbeatRequest("g", "m1", epoch, subscribed_topic_names=("orders",))
    return broker.call(request, 1, connection=f"member-{node}", node=node)


@pytest.mark.parametrize("how", ["stop_node", "kill_node"])
def test_a_share_group_continues_at_the_next_coordinator(broker: Broker, how: str) -> None:
    old = _coordinator(broker, "g")
    assert _share_heartbeat(broker, old, 0).member_epoch == 2
    getattr(broker, how)(old)
    broker.advance(SESSION_MS)
    new = _coordinator(broker, "g")
    answer = _share_heartbeat(broker, new, 2)

    assert new != old
    assert (answer.error_code, answer.member_epoch) == (0, 3)
    assert sum(len(row.partitions) for row in answer.assignment.topic_partitions) == 3


def test_sessions_restart_at_the_next_coordinator(broker: Broker) -> None:
    old = _coordinator(broker, "g")
    _share_heartbeat(broker, old, 0)
    broker.advance(44_000)
    broker.stop_node(old)
    new = _coordinator(broker, "g")
    broker.advance(44_999)
    assert _share_heartbeat(broker, new, 2).error_code == 0
    broker.advance(45_000)

    assert _share_heartbeat(broker, new, 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_waits_for_the_only_broker_that_has_it() -> None:
    broker = Broker(nodes=2, topics={"orders": 1}, config={"offsets.topic.replication.factor": "1"})
    old = _coordinator(broker, "g")
    _share_heartbeat(broker, old, 0)
    broker.stop_node(old)
    assert _coordinator(broker, "g") == -1
    broker.start_node(old)
    broker.forget_connection(f"member-{old}")

    assert _share_heartbeat(broker, old, 2).error_code == 0


def _join(broker: Broker, node: int, member_id: str, *, connection: str) -> Any:
    request = JoinGroupRequest("g", 10_000, 60_000, member_id, protocol_type="consumer")
    request.protocols = [JoinGroupRequestProtocol("range", b"")]
    return broker.call(request, 9, connection=connection, node=node)


def test_a_waiting_join_is_answered_with_not_coordinator(broker: Broker) -> None:
    old = _coordinator(broker, "g")
    member_id = _join(broker, old, "", connection="m").member_id
    assert _join(broker, old, member_id, connection="m") is None
    partition = broker.core.state.metadata.coordinator_partition_index(CoordinatorKind.GROUP, "g")
    new = (old + 1) % 3
    broker.core.move_leader("__consumer_offsets", partition, broker.now_ms, to=new)
    broker.advance(0)

    assert broker.take_response("m").error_code == ErrorCode.NOT_COORDINATOR
    answer = broker.call(HeartbeatRequest("g", 1, member_id), 4, connection="next", node=new)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
