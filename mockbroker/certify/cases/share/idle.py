"""Requests and calls while there is nothing to be had, or the broker refuses: rates, wakeups, time limits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.handles import ShareConsumerHandle
from mockbroker.certify.share_group import QuietPolls, join
from mockbroker.journal import Exchange

_ORDERS = ClusterPlan(topics={"orders": 1})
_BACKOFF = Source("Kafka documentation", "retry.backoff.ms", "kafka-clients CommonClientConfigs.RETRY_BACKOFF_MS_DOC")
#: What a call may take longer than its time limit, seconds: the driver, and a busy machine.
_SLACK_S = 3.0
#: The requests of the same kind that a client may send in a second while each is refused; the default of
#: retry.backoff.ms, 100, allows 10.
_REFUSED_A_SECOND = 30
#: The time in which requests are counted, seconds.
_WINDOW_S = 1.0


@case(
    "share.idle.fetch-rate",
    title="No busy loop while there are no records",
    level=Level.SHOULD,
    rule="A ShareFetch waits at the broker for records, for MaxWaitMs: an idle client sends few requests.",
    source=Source("KIP-932", "ShareFetch API, MaxWaitMs", "kafka-clients ConsumerConfig.FETCH_MAX_WAIT_MS_DOC"),
    needs=("share",),
    cluster=_ORDERS,
    on_kafka=True,
)
def fetch_rate(run: CaseRun) -> None:
    """No fault, and no records, for a second."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")

    fetches = _count(run, consumer, "ShareFetch")

    run.expect(len(fetches) <= 10, "at most 10 ShareFetch a second", seen=f"{len(fetches)}", exchanges=fetches[:3])


@case(
    "share.idle.leader-unknown",
    title="No busy loop while the node answers NOT_LEADER_OR_FOLLOWER",
    level=Level.SHOULD,
    rule="Where an error does not go away the client waits before it tries again (retry.backoff.ms).",
    source=_BACKOFF,
    needs=("share",),
    cluster=_ORDERS,
)
def not_leader(run: CaseRun) -> None:
    """Each ShareFetch is answered with NOT_LEADER_OR_FOLLOWER for orders-0 for a second.

    Kafka's Java client 4.4.0 does not wait: it asks for metadata, and fetches at once. retry.backoff.ms is documented
    as the wait before a failed request to a partition is repeated, against a tight loop.
    """
    _expect_backoff(run, "NOT_LEADER_OR_FOLLOWER")


@case(
    "share.idle.unknown-topic-id",
    title="No busy loop while the node answers UNKNOWN_TOPIC_ID",
    level=Level.SHOULD,
    rule="Where an error does not go away the client waits before it tries again (retry.backoff.ms).",
    source=_BACKOFF,
    needs=("share",),
    cluster=_ORDERS,
)
def unknown_topic_id(run: CaseRun) -> None:
    """Each ShareFetch is answered with UNKNOWN_TOPIC_ID for orders-0 for a second.

    Kafka's Java client 4.4.0 does not wait here either; see share.idle.leader-unknown.
    """
    _expect_backoff(run, "UNKNOWN_TOPIC_ID")


@case(
    "share.idle.coordinator-away",
    title="No busy loop while there is no coordinator",
    level=Level.SHOULD,
    rule="Where an error does not go away the client waits before it tries again (retry.backoff.ms).",
    source=_BACKOFF,
    needs=("share",),
    cluster=_ORDERS,
)
def coordinator_away(run: CaseRun) -> None:
    """Each ShareGroupHeartbeat is answered with COORDINATOR_NOT_AVAILABLE for a second."""
    run.cluster.faults.add("ShareGroupHeartbeat", error="COORDINATOR_NOT_AVAILABLE")
    consumer = join(run, "orders")
    consumer.poll_until(lambda _: run.wire.requests("ShareGroupHeartbeat").answered())

    beats = _count(run, consumer, "ShareGroupHeartbeat")
    asked = run.wire.requests("FindCoordinator", client_id=consumer.name)

    seen = f"{len(beats)} heartbeats and {len(asked)} FindCoordinator"
    total = len(beats) + len(asked)
    run.expect(total <= _REFUSED_A_SECOND, f"at most {_REFUSED_A_SECOND} a second", seen=seen, exchanges=beats[:3])


@case(
    "share.idle.throttled",
    title="The throttle time of an answer",
    level=Level.SHOULD,
    rule="A client sends no request on a connection until the throttle time of the last answer is over.",
    source=Source("KIP-219", "Proposed Changes"),
    needs=("share",),
    cluster=_ORDERS,
)
def throttled(run: CaseRun) -> None:
    """One ShareFetch is answered with a throttle time of 1000 ms."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    run.cluster.faults.add("ShareFetch", times=1, set_fields={"throttle_time_ms": 1_000})
    consumer.poll_until(
        lambda _: _throttled(run) and len(run.wire.requests("ShareFetch", after=_throttled(run)[0])) > 0
    )

    [slow] = _throttled(run)
    following = next(iter(run.wire.requests(connection=slow.connection_id, after=slow)))
    after_ms = (following.arrived_ns - slow.departed_ns) / 1e6
    run.expect(after_ms >= 900, "1000 ms without a request", seen=f"{after_ms:.0f} ms", exchanges=[slow, following])


@case(
    "share.poll.timeout",
    title="A poll without records ends in time",
    level=Level.MUST,
    rule="A poll returns without records when its time limit is over.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.poll"),
    needs=("share",),
    cluster=_ORDERS,
    on_kafka=True,
)
def poll_timeout(run: CaseRun) -> None:
    """No fault, and no records: the poll gets 300 ms."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    began = time.monotonic()
    polled = consumer.poll(timeout_ms=300)
    took_s = time.monotonic() - began

    run.expect(not polled.records, "no records", seen=polled.records)
    run.expect(took_s <= 0.3 + _SLACK_S, "the poll ends within 0.3 s", seen=f"{took_s:.1f} s")


@case(
    "share.poll.wakeup",
    title="A poll is woken up",
    level=Level.MUST,
    rule="A wakeup from another thread ends a poll that waits, before its time limit.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.wakeup"),
    needs=("share", "share.wakeup"),
    cluster=_ORDERS,
    on_kafka=True,
)
def wakeup(run: CaseRun) -> None:
    """No fault, and no records: a poll with 8 s is woken up after 200 ms; then a record arrives."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    began = time.monotonic()
    consumer.poll(timeout_ms=8_000, wakeup_after_ms=200)
    took_s = time.monotonic() - began
    run.expect(took_s <= 0.2 + _SLACK_S, "the poll ends after 0.2 s", seen=f"{took_s:.1f} s")
    run.produce("orders", "first")

    values = consumer.poll_until(records=1).values

    run.expect(values == ["first"], "the consumer goes on afterwards", seen=values)


@case(
    "share.poll.not-subscribed",
    title="A poll without a subscription",
    level=Level.SHOULD,
    rule="A poll before any subscription is wrong use of the client, and fails.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.poll"),
    needs=("share",),
    cluster=_ORDERS,
    on_kafka=True,
)
def not_subscribed(run: CaseRun) -> None:
    """No fault: the application polls without having subscribed."""
    consumer = run.share_consumer(group_id="shop")

    with run.expect_error("LOCAL_ILLEGAL_STATE"):
        consumer.poll(timeout_ms=300)


@case(
    "share.poll.topic-authorization",
    title="The application may not read a topic",
    level=Level.MUST,
    rule="TOPIC_AUTHORIZATION_FAILED in the row of a partition is given to the application by poll.",
    source=Source("KIP-932", "ShareFetch API, errors", "kafka-clients KafkaShareConsumer.poll"),
    needs=("share",),
    cluster=_ORDERS,
)
def topic_authorization(run: CaseRun) -> None:
    """Each ShareFetch is answered with TOPIC_AUTHORIZATION_FAILED for orders-0."""
    run.cluster.faults.add("ShareFetch", topic="orders", error="TOPIC_AUTHORIZATION_FAILED")
    consumer = join(run, "orders")

    with run.expect_error("TOPIC_AUTHORIZATION_FAILED"):
        consumer.poll_until(lambda seen: seen.records, timeout_s=4)


@case(
    "share.poll.other-partition",
    title="One of two partitions is refused",
    level=Level.MUST,
    rule="An error in the row of one partition does not keep the records of the others from the application.",
    source=Source("KIP-932", "ShareFetch API, Response schema"),
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 2}),
)
def other_partition(run: CaseRun) -> None:
    """Each ShareFetch is answered with NOT_LEADER_OR_FOLLOWER for orders-1; orders-0 is handled as always."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    error = "NOT_LEADER_OR_FOLLOWER"
    run.cluster.faults.add("ShareFetch", topic="orders", partition=1, error=error)
    consumer.poll_until(lambda _: run.wire.requests("ShareFetch").answered(error=error))
    run.produce("orders", "first", partition=0)

    values = consumer.poll_until(records=1).values

    fetches = run.wire.requests("ShareFetch")[-3:]
    run.expect(values == ["first"], "the record of orders-0", seen=values, exchanges=fetches)


@case(
    "share.poll.corrupt-batch",
    title="A record batch with a wrong CRC",
    level=Level.MUST,
    rule="With check.crcs a batch whose CRC is wrong is not delivered to the application.",
    source=Source("Kafka documentation", "check.crcs", "kafka-clients ConsumerConfig.CHECK_CRCS_DOC"),
    needs=("share",),
    settings_needed=("check_crcs",),
    cluster=_ORDERS,
)
def corrupt_batch(run: CaseRun) -> None:
    """The answers with the record "broken" have a wrong CRC, until one was sent; then the record "whole" comes."""
    run.produce("orders", "broken")
    run.cluster.faults.add("ShareFetch", topic="orders", corrupt_records=True)
    consumer = join(run, "orders", check_crcs=True)
    polls = QuietPolls(consumer)
    polls.until(run, lambda _: _has_records(run))
    seen = polls.poll()
    fetches = [each for each in run.wire.requests("ShareFetch") if each.faults]
    run.expect(not seen, "no record while the CRC is wrong", seen=seen, exchanges=fetches)
    run.cluster.faults.clear()
    last = run.wire.requests()[-1]
    polls.until(run, lambda _: run.wire.requests("ShareFetch", after=last))
    run.produce("orders", "whole")
    polls.until(run, lambda values: "whole" in values, timeout_s=6)

    run.expect("whole" in seen, "the record after it", seen=seen, exchanges=fetches)


def _expect_backoff(run: CaseRun, error: str) -> None:
    """Refuse each fetch of the partition for a second, then deliver a record."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    refusal = run.cluster.faults.add("ShareFetch", topic="orders", error=error)
    polls = QuietPolls(consumer)
    polls.until(run, lambda _: run.wire.requests("ShareFetch").answered(error=error))

    fetches = _count(run, consumer, "ShareFetch")

    seen, limit = f"{len(fetches)}", _REFUSED_A_SECOND
    run.expect(len(fetches) <= limit, f"at most {limit} ShareFetch a second", seen=seen, exchanges=fetches[:3])
    refusal.remove()
    run.produce("orders", "first")
    polls.until(run, bool)
    run.expect(polls.values == ["first"], "the record, when the error is gone", seen=polls.values)


def _count(run: CaseRun, consumer: ShareConsumerHandle, api: str) -> Sequence[Exchange[Any, Any]]:
    """Poll for a second. Returns: the requests of an API in this time."""
    last = run.wire.requests()[-1]
    polls = QuietPolls(consumer)
    until = time.monotonic() + _WINDOW_S
    while time.monotonic() < until:
        polls.poll()
    return run.wire.requests(api, after=last)


def _throttled(run: CaseRun) -> list[Exchange[Any, Any]]:
    return [each for each in run.wire.requests("ShareFetch").answered() if each.faults]


def _has_records(run: CaseRun) -> bool:
    """Whether an answer had acquired records."""
    answers = [each.response for each in run.wire.requests("ShareFetch").answered()]
    rows = [row for answer in answers for topic in answer.responses for row in topic.partitions]
    return any(row.acquired_records for row in rows)
