"""InitProducerId of a second producer with the same transactional id."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from tests.support.brokers.producer import Producer


def test_a_fenced_producer_writes_no_more() -> None:
    producer = Producer()
    broker = producer.broker
    producer.produce()
    newer = Producer(broker)

    assert newer.holder.epoch == -1  # Its first try found the open transaction, and began to abort it.
    assert producer.markers() == [1]
    assert newer.begin() == 0
    assert producer.produce() == ErrorCode.INVALID_PRODUCER_EPOCH
    assert newer.holder.epoch == 2
    assert producer.end() == ErrorCode.PRODUCER_FENCED
    assert producer.log().aborted_transactions(0, 2)[0].producer_id == producer.holder.producer_id
