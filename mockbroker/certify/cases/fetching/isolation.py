"""Isolation levels: records of transactions."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun


@case(
    "fetching.isolation.aborted-records",
    title="Records of an aborted transaction under read_committed",
    level=Level.MUST,
    rule="With isolation.level=read_committed the application gets no record of an aborted transaction, and no marker.",
    source=Source("KIP-98", "Consumer Coordinator, Fetch", "kafka-clients ConsumerConfig.ISOLATION_LEVEL_DOC"),
    needs=("producer.transactions", "consumer.assign"),
    settings_needed=("isolation_level",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
)
def aborted_records(run: CaseRun) -> None:
    """No fault: one transaction is aborted, one is committed."""
    producer = run.producer(transactional_id="shop")
    producer.init_transactions()
    producer.begin()
    producer.send("orders", "aborted")
    producer.abort_transaction()
    producer.begin()
    producer.send("orders", "committed")
    producer.commit_transaction()

    consumer = run.consumer(isolation_level="read_committed")
    consumer.assign(("orders", 0, "earliest"))
    polled = consumer.poll_until(records=1)

    fetched = run.wire.requests("Fetch")
    run.expect(polled.values == ["committed"], "only the committed record", seen=polled.values, exchanges=fetched)
    requested = {exchange.request.isolation_level for exchange in fetched}
    run.expect(requested == {1}, "Fetch with isolation_level 1", seen=requested, exchanges=fetched)
