"""Acknowledgements of share consumers: their types, how they are sent, and what the application may not do."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ShareConsumerHandle
from mockbroker.certify.driver.messages import Acknowledged, ConsumedRecord
from mockbroker.certify.share_group import (
    ACCEPT,
    REJECT,
    RELEASE,
    acknowledgements,
    carrying,
    delay_acknowledgements,
    join_explicit,
)

_ORDERS = ClusterPlan(topics={"orders": 1})
_DELIVERY = "Record delivery and acknowledgement"


@case(
    "share.acknowledge.accept",
    title="An accepted record is not delivered again",
    level=Level.MUST,
    rule="An acknowledgement with ACCEPT is sent as type 1, once, and its result is given to the application.",
    source=Source("KIP-932", _DELIVERY, "kafka-clients AcknowledgeType.ACCEPT"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
    quick=True,
)
def accept(run: CaseRun) -> None:
    """No fault: three records are accepted with one commit, then a fourth one is produced."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first", "second", "third")
    consumer.acknowledge(consumer.poll_until(records=3).records)
    results = consumer.commit()
    run.produce("orders", "fourth")
    values = consumer.poll_until(records=1).values

    sent = acknowledgements(run)
    run.expect(
        results == {("orders", 0): None}, "the commit of orders-0 succeeds", seen=results, exchanges=carrying(sent)
    )
    types = [(each.offset, each.type) for each in sent]
    run.expect(
        types == [(offset, ACCEPT) for offset in range(3)], "type 1 for 0-2, once", seen=types, exchanges=carrying(sent)
    )
    run.expect(values == ["fourth"], "only the new record", seen=values)


@case(
    "share.acknowledge.release",
    title="A released record is delivered again",
    level=Level.MUST,
    rule="A record that was acknowledged with RELEASE becomes available again, with a higher delivery count.",
    source=Source("KIP-932", _DELIVERY, "kafka-clients AcknowledgeType.RELEASE"),
    needs=("share.explicit", "share.commit", "share.delivery_count"),
    cluster=_ORDERS,
    on_kafka=True,
    quick=True,
)
def release(run: CaseRun) -> None:
    """No fault: a record is released by the application, and delivered a second time."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [first] = consumer.poll_until(records=1).records
    consumer.acknowledge(first, "release")
    results = consumer.commit()

    [second] = consumer.poll_until(records=1).records
    consumer.acknowledge(second)
    consumer.commit()

    run.expect(results == {("orders", 0): None}, "the commit of the partition succeeds", seen=results)
    counts = (first.delivery_count, second.delivery_count)
    run.expect(second.offset == first.offset, "the same record again", seen=second)
    run.expect(counts == (1, 2), "delivery counts 1 and 2", seen=counts)


@case(
    "share.acknowledge.reject",
    title="A rejected record is not delivered again",
    level=Level.MUST,
    rule="An acknowledgement with REJECT is sent as type 3: the record is unprocessable, and not delivered again.",
    source=Source("KIP-932", _DELIVERY, "kafka-clients AcknowledgeType.REJECT"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
)
def reject(run: CaseRun) -> None:
    """No fault: the first record is rejected, then a second one is produced."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    consumer.acknowledge(consumer.poll_until(records=1).records, "reject")
    results = consumer.commit()
    run.produce("orders", "second")
    values = consumer.poll_until(records=1).values

    sent = acknowledgements(run)
    run.expect(
        results == {("orders", 0): None}, "the commit of orders-0 succeeds", seen=results, exchanges=carrying(sent)
    )
    types = [(each.offset, each.type) for each in sent]
    run.expect(types == [(0, REJECT)], "type 3 for offset 0", seen=types, exchanges=carrying(sent))
    run.expect(values == ["second"], "only the new record", seen=values)


@case(
    "share.acknowledge.types-in-one-request",
    title="Different acknowledgements of one batch",
    level=Level.MUST,
    rule="The batches of a partition are in ascending order and do not overlap, with one type for all offsets or one "
    "for each, whatever the order of the application's acknowledgements.",
    source=Source("KIP-932", "ShareAcknowledge API, Request schema"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
)
def types_in_one_request(run: CaseRun) -> None:
    """No fault: of six records in one batch the application acknowledges the last one first, with three types."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", *(f"value-{number}" for number in range(6)))
    records = consumer.poll_until(records=6).records
    wanted = {0: "accept", 1: "accept", 2: "reject", 3: "release", 4: "accept", 5: "reject"}
    for record in reversed(records):
        consumer.acknowledge(record, wanted[record.offset])  # type: ignore[arg-type]
    results = consumer.commit()

    sent = acknowledgements(run)
    offsets = [each.offset for each in sent]
    run.expect(offsets == list(range(6)), "0 to 5 in ascending order", seen=offsets, exchanges=carrying(sent))
    numbers = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT}
    types = {each.offset: each.type for each in sent}
    expected = {offset: numbers[name] for offset, name in wanted.items()}
    run.expect(types == expected, f"types {expected}", seen=types, exchanges=carrying(sent))
    run.expect(results == {("orders", 0): None}, "the commit succeeds", seen=results, exchanges=carrying(sent))


@case(
    "share.acknowledge.part-of-a-batch",
    title="Only a part of the records is acknowledged",
    level=Level.MUST,
    rule="A commit sends what the application has acknowledged, and nothing about the other records.",
    source=Source("KIP-932", _DELIVERY, "kafka-clients KafkaShareConsumer.commitSync"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
)
def part_of_a_batch(run: CaseRun) -> None:
    """No fault: of three records in one batch the application accepts the second one only, and commits."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first", "second", "third")
    records = consumer.poll_until(records=3).records
    consumer.acknowledge(records[1])
    consumer.commit()

    sent = acknowledgements(run)
    types = [(each.offset, each.type) for each in sent]
    run.expect(types == [(1, ACCEPT)], "type 1 for offset 1 alone", seen=types, exchanges=carrying(sent))


@case(
    "share.acknowledge.commit-waits",
    title="A synchronous commit waits for the answer",
    level=Level.MUST,
    rule="commitSync returns when the result of each partition is known.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.commitSync"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
)
def commit_waits(run: CaseRun) -> None:
    """The answer of the request with the acknowledgement comes 400 ms late."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    consumer.acknowledge(consumer.poll_until(records=1).records)
    delay_acknowledgements(run, 400, after=True)
    results = consumer.commit()

    sent = carrying(acknowledgements(run))
    is_answered = bool(sent) and all(exchange.response for exchange in sent)
    run.expect(is_answered, "the answer has come when commit returns", seen="no answer", exchanges=sent)
    run.expect(results == {("orders", 0): None}, "success for orders-0", seen=results, exchanges=sent)


@case(
    "share.acknowledge.with-next-poll",
    title="Acknowledgements without a commit",
    level=Level.MUST,
    rule="The next poll sends acknowledgements that were not committed, with ShareFetch or ShareAcknowledge.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.poll"),
    needs=("share.explicit",),
    cluster=_ORDERS,
    on_kafka=True,
)
def with_next_poll(run: CaseRun) -> None:
    """No fault: the application accepts a record and polls again."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    consumer.acknowledge(consumer.poll_until(records=1).records)

    consumer.poll_until(lambda _: acknowledgements(run), timeout_s=5)

    sent = acknowledgements(run)
    types = [(each.offset, each.type) for each in sent]
    run.expect(types == [(0, ACCEPT)], "type 1 for offset 0", seen=types, exchanges=carrying(sent))
    run.note(f"sent with {sent[0].exchange.api_name}")


@case(
    "share.acknowledge.commit-async",
    title="An asynchronous commit and its callback",
    level=Level.MUST,
    rule="commitAsync sends the acknowledgements; when they are done the callback gets the result of the partition.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.commitAsync"),
    needs=("share.explicit", "share.commit", "share.callback"),
    cluster=_ORDERS,
    on_kafka=True,
)
def commit_async(run: CaseRun) -> None:
    """No fault: the application accepts a record and commits without waiting."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    consumer.acknowledge(consumer.poll_until(records=1).records)
    consumer.commit_async()
    polled = consumer.poll_until(lambda seen: seen.events_of(Acknowledged), timeout_s=5)

    [event] = polled.events_of(Acknowledged)
    sent = carrying(acknowledgements(run))
    place = (event.topic, event.partition)
    run.expect(place == ("orders", 0), "the callback names orders-0", seen=place, exchanges=sent)
    run.expect(event.error is None, "the callback has no error", seen=event.error, exchanges=sent)
    if event.offsets:
        run.expect(event.offsets == (0,), "the callback names offset 0", seen=event.offsets, exchanges=sent)
    else:
        run.note("the callback of this client names no offsets")


@case(
    "share.acknowledge.nothing-to-commit",
    title="A commit without acknowledgements",
    level=Level.SHOULD,
    rule="A commit has a result for each partition with acknowledgements: without any there is nothing to send.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.commitSync"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
)
def nothing_to_commit(run: CaseRun) -> None:
    """No fault: the application commits while it has no record."""
    consumer = join_explicit(run, "orders")
    run.start_share_group(consumer, "shop", "orders")

    results = consumer.commit()

    requests = run.wire.requests("ShareAcknowledge")
    run.expect(results == {}, "no result", seen=results, exchanges=requests)
    run.expect(not requests, "no ShareAcknowledge", seen=f"{len(requests)}", exchanges=requests)


@case(
    "share.acknowledge.not-twice",
    title="A record is acknowledged again after its commit",
    level=Level.MUST,
    rule="A record that is not waiting to be acknowledged cannot be acknowledged: the client sends nothing for it.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.acknowledge"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
)
def not_twice(run: CaseRun) -> None:
    """No fault: the application rejects a record that it has accepted and committed."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records
    consumer.acknowledge(record)
    consumer.commit()
    refusal = _acknowledge_again(consumer, record)
    consumer.commit()

    sent = acknowledgements(run)
    types = [(each.offset, each.type) for each in sent]
    run.expect(types == [(0, ACCEPT)], "type 1 for offset 0, and nothing more", seen=types, exchanges=carrying(sent))
    run.note(f"the second acknowledgement: {refusal}")


@case(
    "share.acknowledge.explicit-mode-poll",
    title="A poll in explicit mode with records that are not acknowledged",
    level=Level.SHOULD,
    rule="In explicit mode all records of a poll are acknowledged before the next one, which fails otherwise; the "
    "records can still be acknowledged then.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.poll"),
    needs=("share.explicit", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
)
def explicit_mode_poll(run: CaseRun) -> None:
    """No fault: the application polls again without having acknowledged the record; then it rejects it."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records

    with run.expect_error("LOCAL_ILLEGAL_STATE"):
        consumer.poll(timeout_ms=500)
    consumer.acknowledge(record, "reject")
    consumer.commit()

    sent = acknowledgements(run)
    types = [(each.offset, each.type) for each in sent]
    run.expect(types == [(0, REJECT)], "type 3 for offset 0", seen=types, exchanges=carrying(sent))


def _acknowledge_again(consumer: ShareConsumerHandle, record: ConsumedRecord) -> str:
    """Reject a record that is done. Returns: what the client says."""
    try:
        consumer.acknowledge(record, "reject")
    except ClientError as error:
        return f"refused, {error}"
    return "ignored without an error"
