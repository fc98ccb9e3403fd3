"""Verification of partitions by the transaction coordinator: switched off, and without an answer."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.inter_broker import Delivery, Loss
from mockbroker.state.metadata.configs import Resource, ResourceKind
from tests.support.brokers.broker import Broker
from tests.support.brokers.producer import ABORTABLE_PRODUCE, ADDING_PRODUCE, Producer


def test_without_verification_batches_of_older_clients_are_accepted() -> None:
    broker = Broker(topics={"t": 1}, config={"transaction.partition.verification.enable": "false"})
    producer = Producer(broker)

    assert producer.produce(version=ABORTABLE_PRODUCE) == 0


def test_verification_can_be_switched_off_while_a_broker_runs() -> None:
    producer = Producer(Broker(topics={"t": 1}))
    assert producer.produce(version=ABORTABLE_PRODUCE) == ErrorCode.TRANSACTION_ABORTABLE

    setting = {"transaction.partition.verification.enable": "false"}
    producer.broker.core.state.configs.set_overrides(Resource(ResourceKind.BROKER, "0"), setting)

    assert producer.produce(version=ABORTABLE_PRODUCE) == 0


def test_producers_retry_when_the_coordinator_cannot_be_reached() -> None:
    producer = Producer()
    broker = producer.broker
    producer.add(0)
    broker.core.state.inter_broker.plan_delivery = lambda to, now_ms: Delivery(0, 0, Loss.REQUEST)

    assert producer.produce(version=ABORTABLE_PRODUCE) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert producer.produce(version=ADDING_PRODUCE) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert producer.commit_offset(7, version=4) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert producer.commit_offset(7, version=1) == ErrorCode.COORDINATOR_NOT_AVAILABLE
