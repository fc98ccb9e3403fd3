"""What cases of transactions have in common: a producer, a transaction step by step, and what was committed."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Source
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.cases.producer_calls import send_error
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ConsumerHandle, ProducerHandle
from mockbroker.certify.driver.messages import ErrorInfo
from mockbroker.certify.driver.settings import ConsumerSettings

NEEDS = ("producer.transactions",)
ONE = ClusterPlan(topics={"orders": 1})
#: The protocol before KIP-890's second part: partitions are added by a request of their own.
FIRST_PROTOCOL = ClusterPlan(topics={"orders": 1}, features=("transaction.version=1",))
CONTRACT = Source("KIP-98", "Public Interfaces", "kafka-clients KafkaProducer, transactional methods")


def open_producer(run: CaseRun, name: str = "producer") -> ProducerHandle:
    """An initialized producer with the transactional id `shop`."""
    producer = run.producer(name, transactional_id="shop")
    producer.init_transactions()
    return producer


def open_member(run: CaseRun, settings: ConsumerSettings) -> ConsumerHandle:
    """A consumer that is a member of a group, and reads `orders`. settings: with its group id."""
    consumer = run.consumer(**settings)
    run.subscribe(consumer, "orders")
    run.poll_for(consumer, lambda: run.wire.requests("Fetch"), "the consumer joins its group, and sends Fetch")
    return consumer


def commit_one(producer: ProducerHandle, value: str) -> ErrorInfo | None:
    """A transaction with one record. Returns: the first error, after which the transaction is as it is."""
    try:
        producer.begin()
        error = send_error(producer, "orders", value)
        if error is None:
            producer.commit_transaction()
        return error
    except ClientError as raised:
        if raised.name == "LOCAL_UNSUPPORTED":
            raise
        return raised.info


def commit_offset(producer: ProducerHandle, consumer: ConsumerHandle, offset: int) -> ErrorInfo | None:
    """A transaction with one offset of a group. Returns: the first error."""
    try:
        producer.begin()
        producer.send_offsets(consumer, ("orders", 0, offset))
        producer.commit_transaction()
    except ClientError as raised:
        if raised.name == "LOCAL_UNSUPPORTED":
            raise
        return raised.info
    return None


def committed_values(run: CaseRun) -> list[str]:
    """The values of `orders` that a consumer with read_committed gets."""
    records = run.cluster.read("orders", isolation="read_committed")
    return [(record.value or b"").decode() for record in records]
