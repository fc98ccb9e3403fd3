"""Writes of coordinators while too few replicas of their topic are in sync (min.insync.replicas and its kin)."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.transaction.transaction import ProducerIdAndEpoch, TopicPartition
from tests.support.brokers.broker import Broker
from tests.support.brokers.group_broker import GroupBroker
from tests.support.brokers.group_requests import commit, join, share

UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
COMMIT = commit(7)


def coordinator_without_followers() -> tuple[GroupBroker, list[int]]:
    """A group coordinator whose two followers have stopped, with a minimum of two in sync."""
    broker = GroupBroker(**{"min.insync.replicas": "2", "offsets.topic.replication.factor": "3"})
    others = [node for node in range(3) if node != broker.coordinator]
    for node in others:
        broker.stop_node(node)
    return broker, others


def code(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def test_a_commit_without_enough_replicas_is_not_available_after_the_commit_timeout() -> None:
    broker, _ = coordinator_without_followers()
    assert broker.call_coordinator(COMMIT, 9, who="c") is None
    broker.advance(4_999)
    assert broker.take_response(f"c@{broker.coordinator}") is None
    broker.advance(1)

    assert code(broker.take_response(f"c@{broker.coordinator}")) == UNAVAILABLE


def test_a_commit_is_answered_when_a_replica_is_back() -> None:
    broker, others = coordinator_without_followers()
    assert broker.call_coordinator(COMMIT, 9, who="c") is None
    broker.start_node(others[0])

    assert code(broker.take_response(f"c@{broker.coordinator}")) == 0


@pytest.mark.parametrize(("request_", "version"), [(share(0, "T"), 1), (join(), 3)])
def test_a_response_waits_until_its_records_are_replicated(request_: Any, version: int) -> None:
    broker, _ = coordinator_without_followers()
    assert broker.call_coordinator(request_, version, who="c") is None
    broker.advance(5_000)

    assert broker.take_response(f"c@{broker.coordinator}").error_code == UNAVAILABLE


def test_a_waiting_commit_gets_not_coordinator_when_the_coordinator_moves() -> None:
    broker, others = coordinator_without_followers()
    broker.start_node(others[0])
    broker.metadata.topic("__consumer_offsets")
    old = broker.coordinator
    broker.stop_node(others[0])
    assert broker.call_coordinator(COMMIT, 9, who="c") is None
    broker.start_node(others[0])
    assert code(broker.take_response(f"c@{old}")) == 0


# Transactions.


def transactions_without_followers() -> tuple[Broker, int, list[int]]:
    broker = Broker(nodes=3, topics={"T": 1}, config={"transaction.state.log.num.partitions": "1"})
    node = broker.metadata.coordinator_id(CoordinatorKind.TRANSACTION, "x")
    assert broker.call(InitProducerIdRequest("x", 60_000), 5, node=node, connection="p").producer_epoch == 0
    others = [other for other in range(3) if other != node]
    for other in others:
        broker.stop_node(other)
    return broker, node, others


def test_a_transactional_id_that_cannot_be_written_stays_as_it_was() -> None:
    broker, node, others = transactions_without_followers()
    refused = broker.call(InitProducerIdRequest("x", 60_000), 5, node=node, connection="p")
    described = broker.call(DescribeTransactionsRequest(("x",)), 0, node=node, connection="p").transaction_states[0]
    broker.start_node(others[0])

    assert refused.error_code == UNAVAILABLE
    assert described.producer_epoch == 0
    assert broker.call(InitProducerIdRequest("x", 60_000), 5, node=node, connection="p").producer_epoch == 1


def test_the_end_of_a_transaction_is_written_as_soon_as_the_replicas_are_back() -> None:
    config = {"transaction.state.log.num.partitions": "1", "default.replication.factor": "3"}
    broker = Broker(nodes=3, topics={"T": 1}, config=config)
    node = broker.metadata.coordinator_id(CoordinatorKind.TRANSACTION, "x")
    given = broker.call(InitProducerIdRequest("x", 60_000), 5, node=node, connection="p")
    broker.core.state.nodes[node].transactions.add_partitions(
        "x", ProducerIdAndEpoch(given.producer_id, 0), [TopicPartition("T", 0)], version=0, now_ms=broker.now_ms
    )
    broker.core.state.inter_broker.latency_ms = 1_000
    others = [other for other in range(3) if other != node]

    def state() -> str:
        request = DescribeTransactionsRequest(("x",))
        return str(broker.call(request, 0, node=node, connection="p").transaction_states[0].transaction_state)

    end = EndTxnRequest("x", given.producer_id, 0, True)
    assert broker.call(end, 4, node=node, connection="p").error_code == 0
    for other in others:
        broker.stop_node(other)
    broker.advance(5_000)
    assert state() == "PrepareCommit"
    broker.start_node(others[0])
    broker.advance(100)
    assert state() == "CompleteCommit"
