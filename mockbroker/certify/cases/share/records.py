"""Records of share groups: delivery counts, gaps, transactions, and what of an answer was acquired."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.messages import SendRecord
from mockbroker.certify.share_group import (
    ACCEPT,
    GAP,
    QuietPolls,
    acknowledgements,
    carrying,
    create_group,
    join,
    join_explicit,
    set_group_config,
)

_ORDERS = ClusterPlan(topics={"orders": 1})
_DELIVERY = Source("KIP-932", "Record delivery and acknowledgement")
_FETCH = Source("KIP-932", "ShareFetch API, Response schema, AcquiredRecords")


@case(
    "share.records.delivery-counts",
    title="The delivery count of a record",
    level=Level.MUST,
    rule="A record has the delivery count of the answer: 1 at first, and one more each time it is delivered.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients ConsumerRecord.deliveryCount"),
    needs=("share.explicit", "share.commit", "share.delivery_count"),
    cluster=_ORDERS,
    on_kafka=True,
)
def delivery_counts(run: CaseRun) -> None:
    """No fault: the application releases the record after each delivery."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    counts = []
    for _ in range(3):
        [record] = consumer.poll_until(records=1).records
        counts.append(record.delivery_count)
        consumer.acknowledge(record, "release")
        consumer.commit()

    run.expect(counts == [1, 2, 3], "1, 2, 3", seen=counts, exchanges=run.wire.requests("ShareFetch"))


@case(
    "share.records.only-acquired",
    title="An answer has more records than were acquired",
    level=Level.MUST,
    rule="Record batches are sent whole: the application gets only the records that AcquiredRecords names.",
    source=_FETCH,
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
    quick=True,
)
def only_acquired(run: CaseRun) -> None:
    """No fault: of a batch with three records the second one is released, and delivered again in the whole batch."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first", "second", "third")
    records = consumer.poll_until(records=3).records
    for record, kind in zip(records, ("accept", "release", "reject"), strict=True):
        consumer.acknowledge(record, kind)  # type: ignore[arg-type]
    consumer.commit()

    values = consumer.poll_until(records=1).values

    run.expect(values == ["second"], "the second record alone", seen=values, exchanges=run.wire.requests("ShareFetch"))


@case(
    "share.records.order",
    title="Records of a partition are in order",
    level=Level.MUST,
    rule="The records that a poll returns for a partition are in order of increasing offset.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer"),
    needs=("share",),
    cluster=_ORDERS,
    on_kafka=True,
)
def order(run: CaseRun) -> None:
    """No fault: five batches with four records each are there before the member joins."""
    for batch in range(5):
        run.produce("orders", *(f"value-{batch}-{number}" for number in range(4)))
    consumer = join(run, "orders")

    offsets = consumer.poll_until(records=20).offsets

    run.expect(offsets == list(range(20)), "0 to 19", seen=offsets, exchanges=run.wire.requests("ShareFetch"))


@case(
    "share.records.content",
    title="Keys, headers and null values of records",
    level=Level.MUST,
    rule="A share group delivers the records as they were produced: key, value, headers and timestamp.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients ConsumerRecord"),
    needs=("share", "producer"),
    cluster=_ORDERS,
    on_kafka=True,
)
def content(run: CaseRun) -> None:
    """No fault: the driver's producer sends a record with all of them, and one that has only a key."""
    full = SendRecord(value="first", key="key", headers=(("h", "1"), ("h", "2")), timestamp=1_700_000_000_000)
    run.producer().send("orders", full, SendRecord(value=None, key="gone"))
    consumer = join(run, "orders")

    first, second = consumer.poll_until(records=2).records

    seen = (first.key, first.value, first.headers, first.timestamp)
    run.expect(seen == ("key", "first", full.headers, full.timestamp), "the record as it was sent", seen=seen)
    run.expect((second.key, second.value) == ("gone", None), "a null value", seen=(second.key, second.value))


@case(
    "share.records.gaps",
    title="Control records among the acquired offsets",
    level=Level.MUST,
    rule="Acquired offsets without a record for the application are acknowledged by the client, as gaps (type 0).",
    source=Source("KIP-932", "ShareAcknowledge API, AcknowledgeTypes"),
    needs=("share.explicit", "share.commit", "producer.transactions"),
    settings_needed=("transactional_id",),
    cluster=_ORDERS,
    on_kafka=True,
)
def gaps(run: CaseRun) -> None:
    """No fault: a transaction with one record is committed, which leaves a marker at offset 1."""
    _transact(run, "first", is_committed=True)
    consumer = join_explicit(run, "orders")
    consumer.acknowledge(consumer.poll_until(records=1).records)
    consumer.commit()
    consumer.poll_until(lambda _: len(acknowledgements(run)) > 1, timeout_s=5)

    sent = acknowledgements(run)
    types = sorted({(each.offset, each.type) for each in sent})
    run.expect(types == [(0, ACCEPT), (1, GAP)], "type 1 for 0, type 0 for 1", seen=types, exchanges=carrying(sent))
    errors = {each.error for each in sent}
    run.expect(errors == {"NONE"}, "carried out", seen=errors, exchanges=carrying(sent))


@case(
    "share.records.aborted-read-committed",
    title="Records of an aborted transaction in a group with read_committed",
    level=Level.MUST,
    rule="With share.isolation.level=read_committed the records of aborted transactions are not delivered, also when "
    "their batches stand in the answer.",
    source=Source("KIP-932", "Reading transactional records", "kafka-clients KafkaShareConsumer"),
    needs=("share", "producer.transactions"),
    settings_needed=("transactional_id",),
    cluster=_ORDERS,
    on_kafka=True,
)
def aborted_read_committed(run: CaseRun) -> None:
    """No fault: a record, an aborted one, and a third one are there before the member joins."""
    run.produce("orders", "before")
    _transact(run, "aborted", is_committed=False)
    run.produce("orders", "after")
    set_group_config(run, "share.isolation.level", "read_committed", group_id="audit")
    create_group(run, "orders", group_id="audit")
    consumer = run.share_consumer(group_id="audit")
    consumer.subscribe("orders")

    values = consumer.poll_until(lambda seen: "after" in seen.values).values

    fetches = run.wire.requests("ShareFetch")
    run.expect(values == ["before", "after"], "the records outside the transaction", seen=values, exchanges=fetches)


@case(
    "share.records.aborted-read-uncommitted",
    title="Records of an aborted transaction in a group with read_uncommitted",
    level=Level.MUST,
    rule="By default a share group delivers all records, those of aborted transactions too; control records never.",
    source=Source("KIP-932", "Reading transactional records", "kafka-clients KafkaShareConsumer"),
    needs=("share", "producer.transactions"),
    settings_needed=("transactional_id",),
    cluster=_ORDERS,
    on_kafka=True,
)
def aborted_read_uncommitted(run: CaseRun) -> None:
    """No fault: an aborted transaction with one record, and a record after it."""
    _transact(run, "aborted", is_committed=False)
    run.produce("orders", "after")
    consumer = join(run, "orders")

    values = consumer.poll_until(lambda seen: "after" in seen.values).values

    fetches = run.wire.requests("ShareFetch")
    run.expect(values == ["aborted", "after"], "both records", seen=values, exchanges=fetches)


@case(
    "share.records.record-limit",
    title="Strict limit of records",
    level=Level.MUST,
    rule="In mode record_limit a ShareFetch has ShareAcquireMode 1, and a poll returns at most max.poll.records.",
    source=Source("KIP-1206", "Proposed Changes", "kafka-clients KafkaShareConsumer, share acquire mode"),
    needs=("share",),
    settings_needed=("share_acquire_mode", "max_poll_records"),
    cluster=_ORDERS,
    on_kafka=True,
)
def record_limit(run: CaseRun) -> None:
    """No fault: a batch with five records, and a limit of two."""
    run.produce("orders", *(f"value-{number}" for number in range(5)))
    consumer = join(run, "orders", share_acquire_mode="record_limit", max_poll_records=2)
    sizes: list[int] = []
    while sum(sizes) < 5:
        sizes.append(len(consumer.poll_until(records=1).records))

    fetches = run.wire.requests("ShareFetch")
    run.expect(max(sizes) <= 2, "at most two records a poll", seen=sizes, exchanges=fetches)
    modes = {exchange.request.share_acquire_mode for exchange in fetches}
    run.expect(modes == {1}, "ShareAcquireMode 1", seen=modes, exchanges=fetches)


@case(
    "share.records.batch-optimized",
    title="A batch that is larger than the limit of records",
    level=Level.MUST,
    rule="By default batches are acquired whole: all records of a batch are delivered, although it passes the limit.",
    source=Source("KIP-1206", "Proposed Changes", "kafka-clients KafkaShareConsumer, share acquire mode"),
    needs=("share",),
    settings_needed=("max_poll_records",),
    cluster=_ORDERS,
    on_kafka=True,
)
def batch_optimized(run: CaseRun) -> None:
    """No fault: a batch with five records, and a limit of two."""
    run.produce("orders", *(f"value-{number}" for number in range(5)))
    consumer = join(run, "orders", max_poll_records=2)

    offsets = consumer.poll_until(records=5).offsets

    run.expect(offsets == list(range(5)), "0 to 4, each once", seen=offsets, exchanges=run.wire.requests("ShareFetch"))


@case(
    "share.records.two-members",
    title="Two members of a group share a partition",
    level=Level.MUST,
    rule="A record that is locked for a member is not delivered to another one: each record comes once.",
    source=_DELIVERY,
    needs=("share",),
    cluster=_ORDERS,
    on_kafka=True,
)
def two_members(run: CaseRun) -> None:
    """No fault: two members poll in turn while eight records are produced, each in a batch of its own."""
    first = join(run, "orders", name="first")
    second = run.share_consumer("second", group_id="shop")
    second.subscribe("orders")
    run.start_share_group(first, "shop", "orders")
    run.start_share_group(second, "shop", "orders")
    wanted = [f"value-{number}" for number in range(8)]
    for value in wanted:
        run.produce("orders", value)
    polls = QuietPolls(first, second)
    polls.until(run, lambda values: len(values) >= len(wanted))

    values = sorted(map(str, polls.values))
    fetches = run.wire.requests("ShareFetch")
    run.expect(values == wanted, "each record once", seen=values, exchanges=fetches)


def _transact(run: CaseRun, value: str, *, is_committed: bool) -> None:
    """Write a record in a transaction of the driver's producer, and end it."""
    producer = run.producer(transactional_id="writer")
    producer.init_transactions()
    producer.begin()
    producer.send("orders", value)
    if is_committed:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    producer.close()
