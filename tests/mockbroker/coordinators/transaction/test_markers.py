"""Transaction markers: messages to the leaders, which are sent again."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.inter_broker import Delivery, Loss
from tests.support.brokers.producer import Producer


def test_markers_are_sent_to_other_nodes_as_messages() -> None:
    producer = Producer()
    broker = producer.broker
    producer.produce()
    broker.core.state.inter_broker.latency_ms = 40
    assert producer.end() == 0

    assert producer.markers() == []
    broker.advance(39)
    assert producer.markers() == []
    broker.advance(1)
    assert producer.markers() == [1]


def test_a_marker_waits_for_a_leader() -> None:
    producer = Producer()
    broker = producer.broker
    producer.produce()
    leader = producer.leader()
    broker.metadata.change_leader(broker.topic("t"), 0, -1)
    producer.end()
    broker.advance(1_000)
    assert producer.begin() == ErrorCode.CONCURRENT_TRANSACTIONS
    broker.metadata.change_leader(broker.topic("t"), 0, leader)
    broker.advance(1_000)

    assert producer.markers() == [1]
    assert producer.begin() == 0


def test_after_lost_responses_one_marker_at_a_time_is_resent_to_the_failed_partition_only() -> None:
    producer = Producer()
    broker = producer.broker
    producer.produce()
    producer.produce(1)
    lost_at = producer.leader()
    broker.core.state.inter_broker.plan_delivery = lambda to, now_ms: Delivery(
        10, 10, Loss.ANSWER if to == lost_at else None
    )
    producer.end()
    broker.advance(1_200)

    # Twenty milliseconds there and back, and a hundred until the next.
    assert len(producer.markers()) == 10
    assert len(producer.markers(1)) == 1


def test_a_marker_without_a_response_is_written_again() -> None:
    producer = Producer()
    broker = producer.broker
    producer.produce()
    fates = iter([Delivery(0, 0, Loss.ANSWER)])
    broker.core.state.inter_broker.plan_delivery = lambda to, now_ms: next(fates, Delivery(0, 0))
    producer.end()
    broker.advance(1_000)

    assert producer.markers() == [1, 2]
    assert producer.log().last_stable_offset == 3
    assert producer.produce() == 0
