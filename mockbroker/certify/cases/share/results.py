"""Results of acknowledgements: errors of partitions, retries, and answers that do not come."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.handles import ShareConsumerHandle
from mockbroker.certify.driver.messages import Acknowledged, ConsumedRecord
from mockbroker.certify.share_group import (
    HAS_ACKNOWLEDGEMENTS,
    acknowledgements,
    carrying,
    is_named,
    join_explicit,
    refuse_acknowledgements,
)

_ORDERS = ClusterPlan(topics={"orders": 1})
_COMMIT = Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.commitSync")
_CALLBACK = Source("KIP-932", "Client programming interface", "kafka-clients AcknowledgementCommitCallback.onComplete")
_EXPLICIT = ("share.explicit", "share.commit")


@case(
    "share.results.per-partition",
    title="One of two partitions refuses the acknowledgements",
    level=Level.MUST,
    rule="commitSync returns a result for each partition: an error where the broker has one, success for the others.",
    source=_COMMIT,
    needs=_EXPLICIT,
    cluster=ClusterPlan(topics={"orders": 2}),
    quick=True,
)
def per_partition(run: CaseRun) -> None:
    """Acknowledgements of orders-1 are answered with INVALID_RECORD_STATE; those of orders-0 are handled as always."""
    consumer = join_explicit(run, "orders")
    records = _deliver(run, consumer, 2)
    refuse_acknowledgements(run, "INVALID_RECORD_STATE", partition=1)
    consumer.acknowledge(records)
    results = consumer.commit()

    sent = carrying(acknowledgements(run))
    succeeded = ("orders", 0) in results and results["orders", 0] is None
    run.expect(succeeded, "success for orders-0", seen=results, exchanges=sent)
    failed = is_named(results.get(("orders", 1)), "INVALID_RECORD_STATE")
    run.expect(failed, "INVALID_RECORD_STATE for orders-1", seen=results, exchanges=sent)


@case(
    "share.results.callback-per-partition",
    title="The callback when one of two partitions refuses the acknowledgements",
    level=Level.MUST,
    rule="The callback gets the error of each partition, whatever the results of the others are.",
    source=_CALLBACK,
    needs=("share.explicit", "share.commit", "share.callback"),
    cluster=ClusterPlan(topics={"orders": 2}),
)
def callback_per_partition(run: CaseRun) -> None:
    """Acknowledgements of orders-1 are answered with INVALID_RECORD_STATE; those of orders-0 are handled as always."""
    consumer = join_explicit(run, "orders")
    records = _deliver(run, consumer, 2)
    refuse_acknowledgements(run, "INVALID_RECORD_STATE", partition=1)
    consumer.acknowledge(records)
    consumer.commit_async()
    polled = consumer.poll_until(lambda seen: len(seen.events_of(Acknowledged)) > 1, timeout_s=5)

    sent = carrying(acknowledgements(run))
    errors = {event.partition: event.error for event in polled.events_of(Acknowledged)}
    run.expect(errors.get(0, errors) is None, "no error for orders-0", seen=errors, exchanges=sent)
    failed = is_named(errors.get(1), "INVALID_RECORD_STATE")
    run.expect(failed, "INVALID_RECORD_STATE for orders-1", seen=errors, exchanges=sent)


@case(
    "share.results.piggybacked-error",
    title="Acknowledgements that a poll has sent are refused",
    level=Level.MUST,
    rule="A poll does not fail because acknowledgements that it has sent are refused; the callback gets the error.",
    source=Source("KIP-932", "ShareFetch API, AcknowledgeErrorCode", "kafka-clients KafkaShareConsumer.poll"),
    needs=("share.explicit", "share.callback"),
    cluster=_ORDERS,
)
def piggybacked_error(run: CaseRun) -> None:
    """The answers with the result of offset 0 have INVALID_RECORD_STATE for it."""
    consumer = join_explicit(run, "orders")
    records = _deliver(run, consumer, 1)
    refuse_acknowledgements(run, "INVALID_RECORD_STATE")
    consumer.acknowledge(records)
    polled = consumer.poll_until(lambda seen: seen.events_of(Acknowledged), timeout_s=5)

    sent = carrying(acknowledgements(run))
    errors = [event.error for event in polled.events_of(Acknowledged)]
    failed = is_named(errors[0], "INVALID_RECORD_STATE")
    run.expect(failed, "the callback gets INVALID_RECORD_STATE", seen=errors, exchanges=sent)


@case(
    "share.results.other-records-go-on",
    title="A poll delivers records while acknowledgements are refused",
    level=Level.MUST,
    rule="AcknowledgeErrorCode is the result of the acknowledgements alone: the records of the same answer are valid.",
    source=Source("KIP-932", "ShareFetch API, Response schema"),
    needs=("share.explicit",),
    cluster=_ORDERS,
)
def other_records_go_on(run: CaseRun) -> None:
    """The answers with the result of offset 0 have AcknowledgeErrorCode 121; a second record comes meanwhile."""
    consumer = join_explicit(run, "orders")
    records = _deliver(run, consumer, 1)
    refuse_acknowledgements(run, "INVALID_RECORD_STATE")
    consumer.acknowledge(records)
    run.produce("orders", "second")

    seen = consumer.poll_until(records=1, timeout_s=5).values

    run.expect(seen == ["second"], "the second record", seen=seen, exchanges=carrying(acknowledgements(run)))


@case(
    "share.results.not-leader-not-repeated",
    title="Acknowledgements are refused with NOT_LEADER_OR_FOLLOWER",
    level=Level.MUST,
    rule="After a change of leader the locks are gone: the acknowledgements fail with NOT_LEADER_OR_FOLLOWER, and are "
    "not repeated.",
    source=_CALLBACK,
    needs=_EXPLICIT,
    cluster=_ORDERS,
)
def not_leader_not_repeated(run: CaseRun) -> None:
    """Acknowledgements of orders-0 are answered with NOT_LEADER_OR_FOLLOWER."""
    consumer = join_explicit(run, "orders")
    records = _deliver(run, consumer, 1)
    refuse_acknowledgements(run, "NOT_LEADER_OR_FOLLOWER")
    consumer.acknowledge(records)
    results = consumer.commit()

    sent = acknowledgements(run)
    failed = is_named(results.get(("orders", 0)), "NOT_LEADER_OR_FOLLOWER")
    run.expect(failed, "NOT_LEADER_OR_FOLLOWER for orders-0", seen=results, exchanges=carrying(sent))
    run.expect(len(sent) == 1, "one acknowledgement", seen=f"{len(sent)}", exchanges=carrying(sent))


@case(
    "share.results.retriable-error",
    title="Acknowledgements are refused with a retriable error",
    level=Level.MUST,
    rule="A synchronous commit ends with the result of the partition: success only if the broker carried it out, after "
    "a retry or at once.",
    source=_COMMIT,
    needs=_EXPLICIT,
    cluster=_ORDERS,
)
def retriable_error(run: CaseRun) -> None:
    """Acknowledgements of orders-0 are answered with COORDINATOR_NOT_AVAILABLE once; a retry would succeed."""
    consumer = join_explicit(run, "orders")
    records = _deliver(run, consumer, 1)
    refuse_acknowledgements(run, "COORDINATOR_NOT_AVAILABLE", times=1)
    consumer.acknowledge(records)
    results = consumer.commit()

    sent = acknowledgements(run)
    run.expect(("orders", 0) in results, "a result for orders-0", seen=results, exchanges=carrying(sent))
    has_succeeded, error = sent[-1].error == "NONE", results["orders", 0]
    run.expect(
        (error is None) == has_succeeded, "the result of the last attempt", seen=results, exchanges=carrying(sent)
    )
    run.note(f"{len(sent)} attempts")


@case(
    "share.results.answer-lost",
    title="The connection is closed before the answer of acknowledgements",
    level=Level.MUST,
    rule="Acknowledgements without an answer may not have been carried out: the commit reports an error for them.",
    source=_CALLBACK,
    needs=_EXPLICIT,
    cluster=_ORDERS,
)
def answer_lost(run: CaseRun) -> None:
    """The connection is closed at each request with acknowledgements, without any work."""
    consumer = join_explicit(run, "orders")
    records = _deliver(run, consumer, 1)
    for api in ("ShareFetch", "ShareAcknowledge"):
        run.cluster.faults.add(
            api, filter=f"share_session_epoch>0 and {HAS_ACKNOWLEDGEMENTS}", drop=True, optional=True
        )
    consumer.acknowledge(records)
    results = consumer.commit(timeout_ms=3_000)

    sent = carrying(acknowledgements(run))
    error = results.get(("orders", 0))
    run.expect(error is not None, "an error for orders-0", seen=results or "no result", exchanges=sent)


@case(
    "share.results.answer-without-row",
    title="The answer has no row for a partition with acknowledgements",
    level=Level.SHOULD,
    rule="Without a result from the broker the client does not report that acknowledgements succeeded.",
    source=Source("KIP-932", "ShareAcknowledge API, Response schema"),
    needs=_EXPLICIT,
    cluster=_ORDERS,
)
def answer_without_row(run: CaseRun) -> None:
    """Requests with acknowledgements are answered without an error, and the row names partition 7 instead of 0."""
    consumer = join_explicit(run, "orders")
    records = _deliver(run, consumer, 1)
    values = {"responses.partitions.partition_index": 7}
    for api in ("ShareFetch", "ShareAcknowledge"):
        run.cluster.faults.add(api, filter=HAS_ACKNOWLEDGEMENTS, set_fields=values, optional=True)
    consumer.acknowledge(records)
    results = consumer.commit(timeout_ms=2_000)

    sent = carrying(acknowledgements(run))
    error = results.get(("orders", 0), "no result")
    run.expect(error is not None, "no success for orders-0", seen=results, exchanges=sent)


@case(
    "share.results.lock-expired",
    title="A record is acknowledged after its lock has expired",
    level=Level.MUST,
    rule="After the acquisition lock has expired the acknowledgement fails with INVALID_RECORD_STATE, and the record "
    "is delivered again with a higher delivery count.",
    source=Source("KIP-932", "Record delivery and acknowledgement", "kafka-clients KafkaShareConsumer.commitSync"),
    needs=("share.explicit", "share.commit", "share.delivery_count"),
    cluster=_ORDERS,
)
def lock_expired(run: CaseRun) -> None:
    """The clock moves by 31 s while the application holds a record; until its commit no fetch gets records."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [held] = consumer.poll_until(records=1).records
    _refuse_fetches(run)
    run.cluster.clock.advance(31_000)
    consumer.acknowledge(held)
    results = consumer.commit()

    sent = carrying(acknowledgements(run))
    failed = is_named(results.get(("orders", 0)), "INVALID_RECORD_STATE")
    run.expect(failed, "INVALID_RECORD_STATE for orders-0", seen=results, exchanges=sent)
    run.cluster.faults.clear()
    [record] = consumer.poll_until(records=1).records
    seen = (record.offset, record.delivery_count)
    run.expect(seen == (0, 2), "offset 0, delivered the second time", seen=seen)


@case(
    "share.results.topic-authorization",
    title="The application may not read the topic any more",
    level=Level.MUST,
    rule="A commit without the right to read the topic has TOPIC_AUTHORIZATION_FAILED as the result of its partition.",
    source=_CALLBACK,
    needs=_EXPLICIT,
    cluster=_ORDERS,
)
def topic_authorization(run: CaseRun) -> None:
    """Acknowledgements of orders-0 are answered with TOPIC_AUTHORIZATION_FAILED."""
    consumer = join_explicit(run, "orders")
    records = _deliver(run, consumer, 1)
    refuse_acknowledgements(run, "TOPIC_AUTHORIZATION_FAILED")
    consumer.acknowledge(records)
    results = consumer.commit()

    sent = carrying(acknowledgements(run))
    failed = is_named(results.get(("orders", 0)), "TOPIC_AUTHORIZATION_FAILED")
    run.expect(failed, "TOPIC_AUTHORIZATION_FAILED for orders-0", seen=results, exchanges=sent)


def _deliver(run: CaseRun, consumer: ShareConsumerHandle, partitions: int) -> list[ConsumedRecord]:
    """Deliver one record of each partition, in one answer."""
    run.start_share_group(consumer, "shop", "orders")
    rows = [{"value": f"value-{partition}", "partition": partition} for partition in range(partitions)]
    run.cluster.produce_all("orders", rows)  # type: ignore[arg-type]
    return consumer.poll_until(records=partitions).records


def _refuse_fetches(run: CaseRun) -> None:
    """From now on no ShareFetch acquires records, so that the client cannot fetch ahead those whose locks expire."""
    condition = f"not ({HAS_ACKNOWLEDGEMENTS})"
    run.cluster.faults.add("ShareFetch", topic="orders", filter=condition, error="KAFKA_STORAGE_ERROR", optional=True)
    run.wire.wait_until(lambda: not run.wire.requests("ShareFetch").unanswered())
