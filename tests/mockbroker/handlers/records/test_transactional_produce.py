"""Transactional batches that wait for the transaction coordinator."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import ABORTABLE_PRODUCE, ADDING_PRODUCE, OLD_PRODUCE, Producer


@pytest.mark.parametrize(
    ("version", "code"),
    [(OLD_PRODUCE, ErrorCode.INVALID_TXN_STATE), (ABORTABLE_PRODUCE, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_batch_for_a_partition_that_was_not_added_is_refused(version: int, code: int) -> None:
    producer = Producer()
    assert producer.add(1) == [0]

    assert producer.produce(0, version=version) == code
    assert producer.produce(1, version=version) == 0
    assert producer.produce(1, version=version) == 0


def _send_slowly(producer: Producer, version: int = ADDING_PRODUCE) -> None:
    """Send a Produce whose verification takes 20 ms."""
    producer.broker.core.state.inter_broker.latency_ms = 10
    request = producer.produce_request(0, producer.holder)
    producer.broker.send(request, version, connection="slow", node=producer.leader())


def test_a_batch_that_waits_for_the_coordinator_is_written_once_after_any_number_of_wakes() -> None:
    producer = Producer()
    broker = producer.broker
    _send_slowly(producer)
    for _ in range(100):
        broker.core.wake_all()
    assert broker.take_response("slow") is None
    broker.advance(20)

    assert broker.take_response("slow").responses[0].partition_responses[0].base_offset == 0
    assert producer.log().end_offset == 1


def test_a_batch_is_written_after_its_connection_is_closed() -> None:
    producer = Producer()
    broker = producer.broker
    _send_slowly(producer)
    broker.disconnect("slow")
    broker.advance(20)

    assert producer.log().end_offset == 1


def test_a_waiting_batch_is_lost_when_its_broker_stops() -> None:
    producer = Producer()
    broker = producer.broker
    _send_slowly(producer)
    log = producer.log()
    broker.kill_node(producer.leader())
    broker.advance(20)

    assert log.end_offset == 0


def test_a_batch_is_rejected_when_its_transaction_ends_during_the_verification() -> None:
    producer = Producer()
    broker = producer.broker
    producer.version = 3
    producer.add(0)
    _send_slowly(producer, ABORTABLE_PRODUCE)
    broker.advance(10)
    # The coordinator has verified the partition; before its response arrives, a marker is written.
    producer.log().append_marker(
        commit=False,
        producer_id=producer.holder.producer_id,
        producer_epoch=producer.holder.epoch,
        coordinator_epoch=0,
        now_ms=broker.now_ms,
    )
    broker.advance(10)
    codes = [row.error_code for row in broker.take_response("slow").responses[0].partition_responses]

    assert codes == [ErrorCode.INVALID_TXN_STATE]


def test_a_transactional_batch_without_a_producer_id_is_stored_without_verification() -> None:
    """Source: tools.oracle.fuzz with Kafka 4.3.0."""
    broker = Broker(topics={"t": 1})
    records = write_batch([Record(0, 1_000_000, None, b"v")], transactional=True)
    request = ProduceRequest(transactional_id="tx", acks=-1, timeout_ms=1000)
    request.topic_data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(0, records)])]

    response = broker.call(request, ADDING_PRODUCE)

    assert response.responses[0].partition_responses[0].error_code == 0
