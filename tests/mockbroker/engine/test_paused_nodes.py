"""A paused node handles, sends and times nothing, as a process after SIGSTOP; the others go on without it."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records import Record, write_batch
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.share_partition import SharePartition
from tests.support.brokers.broker import Broker
from tests.support.brokers.faulty_broker import FaultyBroker
from tests.support.brokers.share_members import ShareBroker, opened

_SESSION_MS = 9_000


def _broker(nodes: int = 2, **config: str) -> Broker:
    broker = Broker(nodes=nodes, config=config)
    broker.metadata.create_topic("t", assignments={0: list(range(nodes))})
    return broker


def _produce(broker: Broker, *, node: int = 0, connection: str = "producer", timeout_ms: int = 30_000) -> None:
    batch = write_batch([Record(0, broker.now_ms, None, b"v")])
    rows = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch)])]
    request = ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=rows)
    broker.send(request, 12, connection=connection, node=node)


def _error(broker: Broker, connection: str = "producer") -> int | None:
    answer = broker.take_response(connection)
    return None if answer is None else answer.responses[0].partition_responses[0].error_code


def test_requests_wait_unanswered_until_the_node_goes_on_and_are_answered_in_order() -> None:
    broker = _broker()
    broker.connect("a", node=1)
    broker.pause_node(1)
    for _ in range(2):
        broker.send(ListGroupsRequest(), 5, connection="a", node=1)
    broker.advance(5_000)
    before = broker.take_response("a"), [each.is_unread for each in broker.core.journal.exchanges("ListGroups")]
    other = broker.call(ListGroupsRequest(), 5, connection="b", node=0)
    broker.resume_node(1)

    assert before == (None, [True, True])
    assert other is not None
    assert [broker.take_response("a") is None, broker.take_response("a") is None] == [False, False]
    assert [exchange.connection_id for exchange in broker.core.journal.exchanges("ListGroups")] == [1, 1, 2]
    assert not any(exchange.is_unread for exchange in broker.core.journal)


def test_timers_and_parked_requests_stand_still_and_are_due_at_the_end() -> None:
    broker = _broker(nodes=1, **{"group.initial.rebalance.delay.ms": "3000"})
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]

    def join(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest("g", 10_000, 60_000, member_id, protocol_type="consumer", protocols=protocols)

    member_id = broker.call(join(""), 9).member_id
    assert broker.call(join(member_id), 9) is None
    broker.pause_node(0)
    deadline = broker.core.next_deadline_ms()
    broker.advance(4_000)
    during = broker.take_response()
    broker.resume_node(0)

    assert deadline is not None
    assert deadline >= broker.now_ms  # No timer of the node.
    assert during is None
    assert broker.take_response().error_code == ErrorCode.NONE


def test_what_a_node_has_not_sent_at_the_pause_is_sent_at_the_end() -> None:
    broker = FaultyBroker(nodes=1)
    broker.add("ListGroups", delay_ms=100, after=True)
    broker.send(ListGroupsRequest(), 5)
    broker.pause_node(0)
    broker.advance(200)
    before = broker.take_response()
    broker.resume_node(0)

    assert before is None
    assert broker.take_response() is not None


def test_a_follower_that_is_paused_holds_acknowledgements_up_until_its_session_ends() -> None:
    broker = _broker()
    broker.pause_node(1)
    _produce(broker)
    broker.advance(_SESSION_MS - 1)
    before = _error(broker)
    broker.advance(1)

    assert before is None
    assert _error(broker) == ErrorCode.NONE
    assert broker.topic("t").partitions[0].isr == (0,)
    broker.resume_node(1)
    assert broker.topic("t").partitions[0].isr == (0, 1)


def test_a_follower_that_goes_on_before_its_session_ends_stays_in_sync() -> None:
    broker = _broker()
    broker.pause_node(1)
    _produce(broker)
    broker.advance(_SESSION_MS - 1)
    broker.resume_node(1)
    broker.advance(_SESSION_MS)

    assert _error(broker) == ErrorCode.NONE
    assert broker.topic("t").partitions[0].isr == (0, 1)
    assert broker.metadata.fenced == set()


def test_another_node_leads_when_the_session_of_a_paused_leader_has_ended() -> None:
    broker = _broker()
    _produce(broker, connection="before")
    assert _error(broker, "before") == ErrorCode.NONE
    broker.connect("producer", node=0)
    broker.pause_node(0)
    _produce(broker)
    broker.advance(_SESSION_MS)
    listed = [node.node_id for node in broker.call(MetadataRequest(), 12, connection="m", node=1).brokers]
    _produce(broker, node=1, connection="new")
    broker.resume_node(0)
    broker.advance(0)

    assert listed == [1]
    assert broker.leader("t") == 1
    assert _error(broker, "new") == ErrorCode.NONE
    assert _error(broker) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert broker.leader_log("t").end_offset == 2
    assert broker.topic("t").partitions[0].isr == (1, 0)


def test_a_paused_node_can_be_killed_but_neither_stopped_nor_paused_again() -> None:
    broker = _broker()
    broker.connect("a", node=1)
    broker.pause_node(1)
    for action in (broker.pause_node, broker.stop_node):
        with pytest.raises(KafkaError, match="node 1 is paused"):
            action(1)
    broker.kill_node(1)
    broker.start_node(1)

    assert broker.closed["a"] == "node 1 was killed"
    with pytest.raises(KafkaError, match="node 1 is not paused"):
        broker.resume_node(1)
    assert broker.call(ListGroupsRequest(), 5, connection="b", node=1).error_code == ErrorCode.NONE


def test_a_connection_that_ends_during_the_pause_gets_nothing() -> None:
    broker = _broker()
    _produce(broker)
    broker.connect("a", node=0)
    broker.pause_node(0)
    broker.send(ListGroupsRequest(), 5, connection="a")
    broker.disconnect("a")
    broker.resume_node(0)

    [exchange] = broker.core.journal.exchanges("ListGroups")
    assert (exchange.is_unread, exchange.answered_ms) == (True, None)


def test_a_heartbeat_that_came_during_the_pause_is_late_when_the_session_has_ended_meanwhile() -> None:
    """Timers come before requests; at a 4.4.0 broker after SIGSTOP and SIGCONT either came first."""
    broker = _broker(nodes=1, **{"group.initial.rebalance.delay.ms": "0"})
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]

    def join(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest("g", 6_000, 60_000, member_id, protocol_type="consumer", protocols=protocols)

    member_id = broker.call(join(""), 9).member_id
    joined = broker.call(join(member_id), 9)
    sync = SyncGroupRequest("g", joined.generation_id, member_id, protocol_type="consumer", protocol_name="range")
    assert broker.call(sync, 5).error_code == ErrorCode.NONE
    broker.pause_node(0)
    broker.send(HeartbeatRequest("g", joined.generation_id, member_id), 4)
    broker.advance(_SESSION_MS - 1)
    broker.resume_node(0)

    assert broker.take_response().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def _holders(partition: SharePartition) -> set[str | None]:
    return {entry.member_id for batch in partition.window for _, _, entry in batch.entries(batch.first, batch.last)}


def test_a_share_session_of_a_connection_that_ends_during_the_pause_ends_with_it() -> None:
    broker = ShareBroker()
    opened(broker)
    broker.produce("A", 2)
    assert broker.fetch("m1", 1) == "A0 0-1/1"
    partition = broker.core.state.nodes[0].share_partitions.get("g", broker.topic_id("A"), 0)
    assert partition is not None
    broker.pause_node(0)
    broker.disconnect("m1")
    held = _holders(partition)
    broker.resume_node(0)

    assert held == {"m1"}
    assert broker.fetch("m2", 0, "A0") == ""
    assert broker.fetch("m2", 1) == "A0 0-1/2"
