"""Implicit acknowledgement: the next poll, a commit, and close."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.messages import Acknowledged
from mockbroker.certify.share_group import ACCEPT, acknowledgements, carrying, create_group, join

_ORDERS = ClusterPlan(topics={"orders": 1})
_SOURCE = Source(
    "KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer, implicit acknowledgement"
)


@case(
    "share.implicit.poll-accepts",
    title="The next poll accepts the records of the last one",
    level=Level.MUST,
    rule="In implicit mode the next poll accepts all records that the last one returned.",
    source=_SOURCE,
    needs=("share",),
    cluster=_ORDERS,
    on_kafka=True,
    quick=True,
)
def poll_accepts(run: CaseRun) -> None:
    """No fault: two records, and a poll after the one that returned them."""
    consumer = join(run, "orders")
    run.produce("orders", "first", "second")
    consumer.poll_until(records=2)
    consumer.poll_until(lambda _: len(acknowledgements(run)) > 1, timeout_s=5)

    sent = acknowledgements(run)
    types = [(each.offset, each.type) for each in sent]
    run.expect(types == [(0, ACCEPT), (1, ACCEPT)], "type 1 for 0 and 1", seen=types, exchanges=carrying(sent))


@case(
    "share.implicit.commit-accepts",
    title="A commit accepts the records of the last poll",
    level=Level.MUST,
    rule="In implicit mode commitSync accepts all records that the last poll returned, and waits for the results.",
    source=_SOURCE,
    needs=("share", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
)
def commit_accepts(run: CaseRun) -> None:
    """No fault: two records, and a commit after the poll that returned them."""
    consumer = join(run, "orders")
    run.produce("orders", "first", "second")
    consumer.poll_until(records=2)
    results = consumer.commit()

    sent = acknowledgements(run)
    types = [(each.offset, each.type, each.error) for each in sent]
    expected = [(0, ACCEPT, "NONE"), (1, ACCEPT, "NONE")]
    run.expect(types == expected, "type 1 for 0 and 1, carried out", seen=types, exchanges=carrying(sent))
    run.expect(results == {("orders", 0): None}, "success for orders-0", seen=results, exchanges=carrying(sent))


@case(
    "share.implicit.commit-then-poll",
    title="What a commit has accepted is not acknowledged again by the next poll",
    level=Level.MUST,
    rule="An acknowledgement is committed once: a poll after the commit has nothing to acknowledge.",
    source=_SOURCE,
    needs=("share", "share.commit"),
    cluster=_ORDERS,
    on_kafka=True,
)
def commit_then_poll(run: CaseRun) -> None:
    """No fault: a record, a commit, and another record."""
    consumer = join(run, "orders")
    run.produce("orders", "first")
    consumer.poll_until(records=1)
    consumer.commit()
    run.produce("orders", "second")
    consumer.poll_until(records=1)
    consumer.commit()

    sent = acknowledgements(run)
    types = [(each.offset, each.type) for each in sent]
    run.expect(types == [(0, ACCEPT), (1, ACCEPT)], "each offset once", seen=types, exchanges=carrying(sent))


@case(
    "share.implicit.close-releases",
    title="Close releases the records of the last poll",
    level=Level.MUST,
    rule="In implicit mode close releases the records that were delivered and not acknowledged: others get them.",
    source=_SOURCE,
    needs=("share", "share.delivery_count"),
    cluster=_ORDERS,
    on_kafka=True,
)
def close_releases(run: CaseRun) -> None:
    """No fault: a member is closed after the poll that returned a record; a second member joins."""
    consumer = join(run, "orders")
    run.produce("orders", "first")
    consumer.poll_until(records=1)
    consumer.close()
    sent = acknowledgements(run)
    accepted = [each for each in sent if each.type == ACCEPT]
    run.expect(not accepted, "close does not accept the record", seen=accepted, exchanges=carrying(accepted))

    second = run.share_consumer("second", group_id="shop")
    second.subscribe("orders")
    [record] = second.poll_until(records=1).records

    seen = (record.offset, record.delivery_count)
    run.expect(seen == (0, 2), "offset 0, delivered the second time", seen=seen)


@case(
    "share.implicit.acknowledge-refused",
    title="An explicit acknowledgement in implicit mode",
    level=Level.SHOULD,
    rule="A record can only be acknowledged explicitly in explicit mode; otherwise the call fails.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.acknowledge"),
    needs=("share", "share.explicit"),
    cluster=_ORDERS,
    on_kafka=True,
)
def acknowledge_refused(run: CaseRun) -> None:
    """No fault: the application of a member in implicit mode rejects a record."""
    consumer = join(run, "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records

    with run.expect_error("LOCAL_ILLEGAL_STATE"):
        consumer.acknowledge(record, "reject")


@case(
    "share.implicit.callback",
    title="The callback of acknowledgements that a poll has sent",
    level=Level.MUST,
    rule="The acknowledgement commit callback is called when acknowledgements that a poll has sent are done.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients AcknowledgementCommitCallback.onComplete"),
    needs=("share", "share.callback"),
    cluster=_ORDERS,
    on_kafka=True,
)
def callback(run: CaseRun) -> None:
    """No fault: two records, and polls until the callback has been called for both."""
    consumer = join(run, "orders")
    run.produce("orders", "first", "second")
    consumer.poll_until(records=2)
    polled = consumer.poll_until(lambda seen: seen.events_of(Acknowledged), timeout_s=5)

    [event] = polled.events_of(Acknowledged)
    sent = carrying(acknowledgements(run))
    seen = (event.topic, event.partition, event.offsets, event.error)
    run.expect(seen == ("orders", 0, (0, 1), None), "orders-0, offsets 0 and 1, no error", seen=seen, exchanges=sent)


@case(
    "share.implicit.crash",
    title="A member ends without close",
    level=Level.MUST,
    rule="Records that were delivered to a member which ends without acknowledging them are delivered to others.",
    source=Source("KIP-932", "Record delivery and acknowledgement"),
    needs=("share", "share.delivery_count"),
    cluster=_ORDERS,
)
def crash(run: CaseRun) -> None:
    """The process of the first member is killed after the poll that returned a record; its connection ends then."""
    create_group(run, "orders")
    other = run.second_driver()
    first = other.share_consumer("first", group_id="shop")
    first.subscribe("orders")
    run.produce("orders", "first")
    first.poll_until(records=1)
    other.kill()

    consumer = run.share_consumer("second", group_id="shop")
    consumer.subscribe("orders")
    [record] = consumer.poll_until(records=1).records

    seen = (record.offset, record.delivery_count)
    run.expect(seen == (0, 2), "offset 0, delivered the second time", seen=seen)
