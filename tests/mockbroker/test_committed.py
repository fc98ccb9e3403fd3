"""Writes of coordinators while too few replicas of their topic are in sync (min.insync.replicas and its kin)."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mockbroker.state.topics import CoordinatorKind
from mockbroker.state.transaction import Holder, Place
from tests.mockbroker.broker import Broker
from tests.mockbroker.group_broker import GroupBroker

UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
ROWS = [OffsetCommitRequestTopic(name="T", partitions=[OffsetCommitRequestPartition(0, 7)])]
COMMIT = OffsetCommitRequest("g", topics=ROWS)


def lonely_coordinator() -> tuple[GroupBroker, list[int]]:
    """A group coordinator whose two followers have stopped, with a minimum of two in sync."""
    broker = GroupBroker(**{"min.insync.replicas": "2", "offsets.topic.replication.factor": "3"})
    others = [node for node in range(3) if node != broker.coordinator]
    for node in others:
        broker.stop_node(node)
    return broker, others


def code(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def test_a_commit_that_too_few_replicas_have_is_not_available_after_the_commit_timeout() -> None:
    broker, _ = lonely_coordinator()
    assert broker.beat(COMMIT, 9, who="c") is None
    broker.advance(4_999)
    assert broker.answer(f"c@{broker.coordinator}") is None
    broker.advance(1)

    assert code(broker.answer(f"c@{broker.coordinator}")) == UNAVAILABLE


def test_a_commit_is_answered_when_a_replica_is_back() -> None:
    broker, others = lonely_coordinator()
    assert broker.beat(COMMIT, 9, who="c") is None
    broker.start_node(others[0])

    assert code(broker.answer(f"c@{broker.coordinator}")) == 0


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (ShareGroupHeartbeatRequest("g", "m", 0, None, ("T",)), 1),
        (JoinGroupRequest("g", 10_000, 60_000, "", None, "c", [JoinGroupRequestProtocol("p", b"")]), 3),
    ],
)
def test_an_answer_that_is_written_of_waits(request_: Any, version: int) -> None:
    broker, _ = lonely_coordinator()
    assert broker.beat(request_, version, who="c") is None
    broker.advance(5_000)

    assert broker.answer(f"c@{broker.coordinator}").error_code == UNAVAILABLE


def test_who_waits_for_replicas_at_a_coordinator_that_loses_its_place_is_sent_on() -> None:
    broker, others = lonely_coordinator()
    broker.start_node(others[0])
    broker.core.state.metadata.topic("__consumer_offsets")
    old = broker.coordinator
    broker.stop_node(others[0])
    assert broker.beat(COMMIT, 9, who="c") is None
    broker.start_node(others[0])
    assert code(broker.answer(f"c@{old}")) == 0


# Transactions.


def lonely_transactions() -> tuple[Broker, int, list[int]]:
    broker = Broker(nodes=3, topics={"T": 1}, config={"transaction.state.log.num.partitions": "1"})
    node = broker.core.state.metadata.coordinator_for(CoordinatorKind.TRANSACTION, "x")
    assert broker.ask(InitProducerIdRequest("x", 60_000), 5, node=node, connection="p").producer_epoch == 0
    others = [other for other in range(3) if other != node]
    for other in others:
        broker.stop_node(other)
    return broker, node, others


def test_a_transactional_id_that_cannot_be_written_stays_as_it_was() -> None:
    broker, node, others = lonely_transactions()
    refused = broker.ask(InitProducerIdRequest("x", 60_000), 5, node=node, connection="p")
    described = broker.ask(DescribeTransactionsRequest(("x",)), 0, node=node, connection="p").transaction_states[0]
    broker.start_node(others[0])

    assert refused.error_code == UNAVAILABLE
    assert described.producer_epoch == 0
    assert broker.ask(InitProducerIdRequest("x", 60_000), 5, node=node, connection="p").producer_epoch == 1


def test_the_end_of_a_transaction_is_written_as_soon_as_the_replicas_are_back() -> None:
    config = {"transaction.state.log.num.partitions": "1", "default.replication.factor": "3"}
    broker = Broker(nodes=3, topics={"T": 1}, config=config)
    node = broker.core.state.metadata.coordinator_for(CoordinatorKind.TRANSACTION, "x")
    given = broker.ask(InitProducerIdRequest("x", 60_000), 5, node=node, connection="p")
    broker.core.state.nodes[node].transactions.add(
        "x", Holder(given.producer_id, 0), [Place("T", 0)], version=0, now_ms=broker.now_ms
    )
    broker.core.state.calls.latency_ms = 1_000
    others = [other for other in range(3) if other != node]

    def state() -> str:
        asked = DescribeTransactionsRequest(("x",))
        return str(broker.ask(asked, 0, node=node, connection="p").transaction_states[0].transaction_state)

    end = EndTxnRequest("x", given.producer_id, 0, True)
    assert broker.ask(end, 4, node=node, connection="p").error_code == 0
    for other in others:
        broker.stop_node(other)
    broker.advance(5_000)
    assert state() == "PrepareCommit"
    broker.start_node(others[0])
    broker.advance(100)
    assert state() == "CompleteCommit"
