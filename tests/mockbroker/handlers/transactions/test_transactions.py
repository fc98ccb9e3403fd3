"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn through a broker of three nodes: what they add, and how it ends."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kwire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.end_txn import EndTxnRequest
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from tests.support.brokers.producer import ABORTABLE_PRODUCE, Producer


def test_a_commit_reaches_every_partition_wherever_it_is_led() -> None:
    producer = Producer()
    assert [producer.produce(partition) for partition in (0, 1, 2)] == [0, 0, 0]
    assert [producer.log(partition).last_stable_offset for partition in (0, 1, 2)] == [0, 0, 0]
    assert producer.end() == 0

    assert [producer.markers(partition) for partition in (0, 1, 2)] == [[1], [1], [1]]
    assert [producer.log(partition).last_stable_offset for partition in (0, 1, 2)] == [2, 2, 2]
    assert producer.holder.epoch == 1


def test_partitions_are_added_all_or_none() -> None:
    producer = Producer()
    assert producer.add(0, 9) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.produce(0, version=ABORTABLE_PRODUCE) == ErrorCode.TRANSACTION_ABORTABLE


def test_a_transaction_that_is_open_for_too_long_is_aborted() -> None:
    producer = Producer()
    broker = producer.broker
    producer.produce()
    broker.advance(60_000)
    assert producer.markers() == []
    broker.advance(10_000)

    assert producer.markers() == [1]
    # The epoch is the one before, so it reads as the repetition of an end; and that was no commit.
    assert producer.end() == ErrorCode.INVALID_TXN_STATE
    assert producer.produce() == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_deleted_topic_does_not_keep_a_transaction_open() -> None:
    producer = Producer()
    broker = producer.broker
    producer.produce()
    broker.call(DeleteTopicsRequest(topic_names=("t",), timeout_ms=1_000), 5)

    assert producer.end() == 0
    assert producer.begin() == 0


def test_older_clients_add_the_group_first() -> None:
    producer = Producer(version=3)
    assert producer.commit_offset(7, version=3) == ErrorCode.INVALID_TXN_STATE
    assert producer.commit_offset(7, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    answer = producer.coordinator(AddOffsetsToTxnRequest(producer.name, *producer.holder, "g"), 3)
    assert answer.error_code == 0

    assert producer.commit_offset(7, version=3) == 0
    assert producer.end() == 0
    assert producer.committed() == (7, 0)


def test_a_broker_request_can_contain_several_transactions() -> None:
    producer = Producer()
    producer.add(0)
    topics = [AddPartitionsToTxnTopic("t", (0, 1))]
    transaction = AddPartitionsToTxnTransaction("tx", *producer.holder, verify_only=True, topics=topics)
    unknown = AddPartitionsToTxnTransaction("tx", 999, 0, verify_only=True, topics=topics)
    answer = producer.coordinator(AddPartitionsToTxnRequest(transactions=[transaction, unknown]), 5)

    codes = [
        [row.partition_error_code for row in result.topic_results[0].results_by_partition]
        for result in answer.results_by_transaction
    ]
    assert codes == [[0, ErrorCode.TRANSACTION_ABORTABLE], [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2]


def test_another_node_returns_not_coordinator() -> None:
    producer = Producer()
    broker = producer.broker
    coordinator = broker.metadata.coordinator_id(CoordinatorKind.TRANSACTION, "tx")
    other = (coordinator + 1) % 3

    answer = broker.call(EndTxnRequest("tx", *producer.holder, committed=True), 5, connection="other", node=other)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.NOT_COORDINATOR, -1, -1)
    row = broker.call(DescribeTransactionsRequest(("tx",)), 0, connection="other", node=other).transaction_states[0]
    assert row.error_code == ErrorCode.NOT_COORDINATOR
