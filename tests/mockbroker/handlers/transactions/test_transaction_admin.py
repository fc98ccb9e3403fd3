"""WriteTxnMarkers, DescribeTransactions and ListTransactions of an administrator."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.list_transactions import ListTransactionsRequest
from kwire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.support.brokers.producer import Producer


def test_an_admin_may_abort_a_hanging_transaction_by_hand() -> None:
    producer = Producer()
    broker = producer.broker
    producer.produce()
    leader = producer.leader()
    marker = WritableTxnMarker(*producer.holder, False, [WritableTxnMarkerTopic("t", (0, 9))])
    answer = broker.call(WriteTxnMarkersRequest([marker]), 1, connection="admin", node=leader)

    rows = answer.markers[0].topics[0].partitions
    assert [row.error_code for row in rows] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.log().last_stable_offset == 2


def test_transactions_are_described_and_listed_by_their_coordinator() -> None:
    producer = Producer()
    broker = producer.broker
    producer.produce()
    described = producer.coordinator(DescribeTransactionsRequest(("tx", "")), 0).transaction_states
    listed = producer.coordinator(ListTransactionsRequest(transactional_id_pattern="t."), 2).transaction_states
    broker.advance(1_000)

    assert (described[0].transaction_state, described[0].topics[0].partitions) == ("Ongoing", (0,))
    assert described[1].error_code == ErrorCode.INVALID_REQUEST
    assert [row.transactional_id for row in listed] == ["tx"]
    for filters in ({"transactional_id_pattern": "t"}, {"duration_filter": 1_000}, {"producer_id_filters": (77,)}):
        assert producer.coordinator(ListTransactionsRequest(**filters), 2).transaction_states == []
    refused = producer.coordinator(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
