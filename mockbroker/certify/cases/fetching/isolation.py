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
    decided_by=("Fetch",),
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


@case(
    "fetching.isolation.open-transaction",
    title="Records behind an open transaction under read_committed",
    level=Level.MUST,
    rule="With isolation.level=read_committed nothing at or behind the last stable offset is given to the application.",
    source=Source("KIP-98", "Fetch, last stable offset", "kafka-clients ConsumerConfig.ISOLATION_LEVEL_DOC"),
    needs=("producer.transactions", "consumer.assign"),
    settings_needed=("isolation_level",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Fetch",),
)
def open_transaction(run: CaseRun) -> None:
    """No fault: a transaction is open while the consumer polls, and is committed then."""
    run.produce("orders", "before")
    producer = run.producer(transactional_id="shop")
    producer.init_transactions()
    producer.begin()
    producer.send("orders", "inside")
    run.produce("orders", "behind")
    consumer = run.consumer(isolation_level="read_committed")
    consumer.assign(("orders", 0, "earliest"))
    during = consumer.poll_until(records=1)
    during.records.extend(consumer.poll(timeout_ms=300).records)
    producer.commit_transaction()

    after = consumer.poll_until(records=2)

    fetched = run.wire.requests("Fetch")
    run.expect(during.values == ["before"], "nothing of the open transaction", seen=during.values, exchanges=fetched)
    run.expect(after.values == ["inside", "behind"], "both records after the commit", seen=after.values)


@case(
    "fetching.isolation.read-uncommitted",
    title="Records of an aborted transaction under read_uncommitted",
    level=Level.MUST,
    rule="With isolation.level=read_uncommitted the application gets all records, and never a marker.",
    source=Source("KIP-98", "Fetch, control records", "kafka-clients ConsumerConfig.ISOLATION_LEVEL_DOC"),
    needs=("producer.transactions", "consumer.assign"),
    settings_needed=("isolation_level",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("Fetch",),
)
def read_uncommitted(run: CaseRun) -> None:
    """No fault: a transaction is aborted, and a record follows its marker."""
    producer = run.producer(transactional_id="shop")
    producer.init_transactions()
    producer.begin()
    producer.send("orders", "aborted")
    producer.abort_transaction()
    run.produce("orders", "after")
    consumer = run.consumer(isolation_level="read_uncommitted")
    consumer.assign(("orders", 0, "earliest"))

    polled = consumer.poll_until(records=2)

    run.expect(polled.values == ["aborted", "after"], "both records, no marker", seen=polled.values)
    run.expect(polled.offsets == [0, 2], "offsets 0 and 2", seen=polled.offsets)
