"""OffsetDelete of topics that a member reads."""

from __future__ import annotations

from kwire.codec import encode
from kwire.error_codes import ErrorCode
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tests.support.brokers.broker import Broker
from tests.support.brokers.group_requests import join


def test_offsets_of_topics_that_a_classic_consumer_reads_cannot_be_deleted() -> None:
    broker = Broker(topics={"T": 1, "U": 1}, config={"group.initial.rebalance.delay.ms": "0"})
    subscription = b"\x00\x03" + encode(ConsumerProtocolSubscription(topics=("T",)), 3)
    member_id = broker.call(join("", subscription), 9).member_id
    broker.call(join(member_id, subscription), 9)
    rows = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in ("T", "U", "none")]

    answer = broker.call(OffsetDeleteRequest("g", rows), 0)

    assert [row.partitions[0].error_code for row in answer.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
