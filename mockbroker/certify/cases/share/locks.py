"""Acquisition locks: the timeout that the client shows, and their renewal."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import ShareConsumerHandle
from mockbroker.certify.driver.messages import ConsumedRecord
from mockbroker.certify.share_group import (
    RENEW,
    QuietPolls,
    acknowledgements,
    carrying,
    join,
    join_explicit,
    set_group_config,
)
from mockbroker.state.share.in_flight_batch import RecordState

_ORDERS = ClusterPlan(topics={"orders": 1})
_RENEW = ("share.explicit", "share.commit", "share.renew")
_KIP_1222 = Source("KIP-1222", "Proposed Changes", "kafka-clients KafkaShareConsumer, renewal acknowledgement")


@case(
    "share.locks.timeout-shown",
    title="The client shows the acquisition lock timeout of the last fetch",
    level=Level.MUST,
    rule="acquisitionLockTimeoutMs is the AcquisitionLockTimeoutMs of the answer with the last records.",
    source=Source("KIP-1222", "Public Interfaces", "kafka-clients KafkaShareConsumer.acquisitionLockTimeoutMs"),
    needs=("share", "share.lock_timeout"),
    cluster=_ORDERS,
)
def timeout_shown(run: CaseRun) -> None:
    """The group's share.record.lock.duration.ms is 17 s, not the default of 30 s."""
    set_group_config(run, "share.record.lock.duration.ms", 17_000)
    consumer = join(run, "orders")
    before = consumer.lock_timeout()
    run.produce("orders", "first")
    consumer.poll_until(records=1)

    shown = consumer.lock_timeout()

    fetches = run.wire.requests("ShareFetch")
    run.expect(before is None, "no timeout before the first records", seen=before)
    run.expect(shown == 17_000, "17000 ms, as the answer says", seen=shown, exchanges=fetches[:1])


@case(
    "share.locks.timeout-changed",
    title="The acquisition lock timeout of the group changes",
    level=Level.MUST,
    rule="The timeout that the client shows follows the answers: it is that of the last records, not of the first.",
    source=Source("KIP-1222", "Public Interfaces", "kafka-clients KafkaShareConsumer.acquisitionLockTimeoutMs"),
    needs=("share", "share.lock_timeout"),
    cluster=_ORDERS,
)
def timeout_changed(run: CaseRun) -> None:
    """The group's share.record.lock.duration.ms changes from the default to 21 s between two records."""
    consumer = join(run, "orders")
    run.produce("orders", "first")
    consumer.poll_until(records=1)
    set_group_config(run, "share.record.lock.duration.ms", 21_000)
    run.produce("orders", "second")
    consumer.poll_until(records=1)
    run.produce("orders", "third")
    consumer.poll_until(records=1)

    shown = consumer.lock_timeout()

    run.expect(shown == 21_000, "21000 ms", seen=shown, exchanges=run.wire.requests("ShareFetch"))


@case(
    "share.locks.renew",
    title="A lock is renewed",
    level=Level.MUST,
    rule="RENEW is sent as type 4 in a request with IsRenewAck, which fetches nothing; the lock "
    "then has its full duration again.",
    source=_KIP_1222,
    needs=_RENEW,
    cluster=_ORDERS,
    quick=True,
)
def renew(run: CaseRun) -> None:
    """The clock moves by 20 s, the application renews, the clock moves by 20 s again: the lock of 30 s is valid."""
    consumer = join_explicit(run, "orders")
    record = _deliver_one(run, consumer)
    run.cluster.clock.advance(20_000)
    consumer.acknowledge(record, "renew")
    results = consumer.commit()
    sent = acknowledgements(run)
    run.expect([each.type for each in sent] == [RENEW], "type 4 for offset 0", seen=sent, exchanges=carrying(sent))
    request = sent[0].exchange.request
    run.expect(request.is_renew_ack, "IsRenewAck", seen="false", exchanges=carrying(sent))
    if sent[0].exchange.api_name == "ShareFetch":
        limits = (request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records)
        run.expect(limits == (0, 0, 0, 0), "no limits but 0", seen=limits, exchanges=carrying(sent))
    run.expect(results == {("orders", 0): None}, "success for orders-0", seen=results, exchanges=carrying(sent))
    run.cluster.clock.advance(20_000)

    view = run.cluster.share_partition("shop", "orders", 0)
    state = view.state_of(0) if view is not None else None
    run.expect(state is RecordState.ACQUIRED, "the record is locked after 40 s", seen=state, exchanges=carrying(sent))


@case(
    "share.locks.renewed-returned-again",
    title="A renewed record is returned by the next poll",
    level=Level.SHOULD,
    rule="A record that was renewed is returned again by poll, so that the application can acknowledge it then.",
    source=_KIP_1222,
    needs=_RENEW,
    cluster=_ORDERS,
    on_kafka=True,
)
def renewed_returned_again(run: CaseRun) -> None:
    """No fault: the application renews a record and polls."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records
    consumer.acknowledge(record, "renew")
    consumer.commit()

    polls = QuietPolls(consumer)
    polls.until(run, bool, timeout_s=2)

    sent = carrying(acknowledgements(run))
    run.expect(polls.values == ["first"], "the record again", seen=polls.values or "no record", exchanges=sent)


@case(
    "share.locks.renew-with-next-poll",
    title="A renewal without a commit",
    level=Level.SHOULD,
    rule="The next poll sends the renewal like other acknowledgements; a ShareFetch with IsRenewAck has "
    "only zero limits.",
    source=_KIP_1222,
    needs=("share.explicit", "share.renew"),
    cluster=_ORDERS,
    on_kafka=True,
)
def renew_with_next_poll(run: CaseRun) -> None:
    """No fault: the application renews a record and polls."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records
    consumer.acknowledge(record, "renew")
    consumer.poll(timeout_ms=1_000)

    renewals = [each for each in acknowledgements(run) if each.type == RENEW]
    errors = [each.error for each in renewals]
    sent = acknowledgements(run)
    seen = [(each.offset, each.type, each.error) for each in sent]
    run.expect(errors == ["NONE"], "one acknowledgement of type 4, carried out", seen=seen, exchanges=carrying(sent))
    flags = [each.exchange.request.is_renew_ack for each in renewals]
    run.expect(flags == [True], "IsRenewAck", seen=flags, exchanges=carrying(renewals))


@case(
    "share.locks.renew-refused",
    title="The group does not allow renewals",
    level=Level.MUST,
    rule="Where renewals are disabled for the group the commit has the broker's error INVALID_RECORD_STATE.",
    source=_KIP_1222,
    needs=_RENEW,
    cluster=_ORDERS,
)
def renew_refused(run: CaseRun) -> None:
    """The group's share.renew.acknowledge.enable is false."""
    set_group_config(run, "share.renew.acknowledge.enable", "false")
    consumer = join_explicit(run, "orders")
    record = _deliver_one(run, consumer)
    consumer.acknowledge(record, "renew")
    results = consumer.commit()

    sent = carrying(acknowledgements(run))
    error = results.get(("orders", 0))
    failed = error is not None and error.name == "INVALID_RECORD_STATE"
    run.expect(failed, "INVALID_RECORD_STATE for orders-0", seen=results, exchanges=sent)


@case(
    "share.locks.renew-older-broker",
    title="A broker without renewals",
    level=Level.MUST,
    rule="Version 1 of ShareFetch and ShareAcknowledge has no type 4: it is not sent there, and the "
    "application gets an error.",
    source=Source("KIP-1222", "Compatibility, Deprecation, and Migration Plan"),
    needs=_RENEW,
    cluster=ClusterPlan(topics={"orders": 1}, versions={"ShareFetch": 1, "ShareAcknowledge": 1}),
)
def renew_older_broker(run: CaseRun) -> None:
    """ApiVersions lists ShareFetch and ShareAcknowledge up to version 1; the application renews a record."""
    consumer = join_explicit(run, "orders")
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records
    outcome = _try_to_renew(consumer, record)

    sent = acknowledgements(run)
    renewals = [each for each in sent if each.type == RENEW]
    seen = [f"type 4 in {each.exchange.api_name} v1, refused with {each.error}" for each in renewals]
    run.expect(not renewals, "no type 4 in version 1", seen=", ".join(seen), exchanges=carrying(renewals))
    run.expect(outcome, "the application gets an error", seen="success or no result", exchanges=carrying(sent))
    run.note(f"the error: {outcome}")


def _try_to_renew(consumer: ShareConsumerHandle, record: ConsumedRecord) -> str:
    """Renew a record with a commit. Returns: the error that the application gets, or nothing."""
    try:
        consumer.acknowledge(record, "renew")
        results = consumer.commit(timeout_ms=2_000)
    except ClientError as error:
        return str(error)
    return "".join(str(error) for error in results.values() if error is not None)


def _deliver_one(run: CaseRun, consumer: ShareConsumerHandle) -> ConsumedRecord:
    """Deliver a record."""
    run.produce("orders", "first")
    [record] = consumer.poll_until(records=1).records
    return record
