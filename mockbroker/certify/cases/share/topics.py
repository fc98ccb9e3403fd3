"""Topics of share groups: partitions added, topics created, deleted and created again, subscriptions changed."""

from __future__ import annotations

from typing import Any

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.handles import ShareConsumerHandle
from mockbroker.certify.partition_changes import add_partitions
from mockbroker.certify.share_group import QuietPolls, create_group, is_reached, join
from mockbroker.journal import Exchange

_SUBSCRIBE = Source("KIP-932", "Share group membership", "kafka-clients KafkaShareConsumer.subscribe")


@case(
    "share.topics.partitions-added",
    title="A topic gets more partitions",
    level=Level.MUST,
    rule="Partitions that are added to a subscribed topic are assigned to the members, which fetch from them.",
    source=_SUBSCRIBE,
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
)
def partitions_added(run: CaseRun) -> None:
    """No fault: orders gets a second partition while the member polls."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    add_partitions(run, "orders", 2)
    _poll_until_active(run, consumer, "orders", 1)
    run.produce("orders", "first", partition=1)

    [record] = consumer.poll_until(records=1).records

    seen = (record.partition, record.value)
    run.expect(seen == (1, "first"), "the record of the new partition", seen=seen)


@case(
    "share.topics.created-later",
    title="A topic is created after the subscription to it",
    level=Level.MUST,
    rule="A member may subscribe to a topic that does not exist; when it is created the member gets its partitions.",
    source=_SUBSCRIBE,
    needs=("share",),
    settings_needed=("metadata_max_age_ms",),
    cluster=ClusterPlan(properties={"auto.create.topics.enable": "false"}),
)
def created_later(run: CaseRun) -> None:
    """The topic is created after the member has joined. metadata_max_age_ms is 500."""
    consumer = run.share_consumer(group_id="shop", metadata_max_age_ms=500)
    consumer.subscribe("orders")
    polls = QuietPolls(consumer)
    polls.until(run, lambda _: _naming(run, "orders"))
    run.cluster.create_topic("orders")
    is_active = polls.until(run, lambda _: run.cluster.share_partition("shop", "orders", 0))
    run.expect(is_active, "ShareFetch of orders-0", seen="none", exchanges=_naming(run, "orders"))
    run.produce("orders", "first")
    polls.until(run, bool)

    values = polls.values
    run.expect(values == ["first"], "the record", seen=values, exchanges=run.wire.requests("ShareFetch"))


@case(
    "share.topics.deleted",
    title="One of two topics is deleted",
    level=Level.MUST,
    rule="The member goes on with its other topics when one is deleted.",
    source=_SUBSCRIBE,
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 1, "payments": 1}),
)
def deleted(run: CaseRun) -> None:
    """The topic payments is deleted while the member polls; errors that the application gets for it are allowed."""
    consumer = join(run, "orders", "payments")
    run.start_share_group(consumer, "shop", "orders", "payments")
    run.cluster.delete_topic("payments")
    run.produce("orders", "first")
    polls = QuietPolls(consumer)
    polls.until(run, lambda values: "first" in values)
    run.produce("orders", "second")
    polls.until(run, lambda values: "second" in values)

    values = polls.values
    run.expect(values == ["first", "second"], "the records of orders, each once", seen=values)


@case(
    "share.topics.recreated",
    title="A topic is deleted and created again",
    level=Level.MUST,
    rule="A topic that is created again is another one: the member fetches it by its new topic id.",
    source=Source("KIP-932", "Share group membership", "KIP-516, topic ids"),
    needs=("share",),
    settings_needed=("metadata_max_age_ms",),
    cluster=ClusterPlan(topics={"orders": 1}),
)
def recreated(run: CaseRun) -> None:
    """The topic orders is deleted, and created again, while the member polls. metadata_max_age_ms is 500."""
    consumer = join(run, "orders", metadata_max_age_ms=500)
    run.start_share_group(consumer, "shop", "orders")
    run.cluster.delete_topic("orders")
    run.cluster.create_topic("orders")
    last = run.wire.requests()[-1]
    polls = QuietPolls(consumer)
    view = polls.until(run, lambda _: run.cluster.share_partition("shop", "orders", 0), timeout_s=4)
    fetches = run.wire.requests("ShareFetch", after=last)[-3:]
    run.expect(view, "ShareFetch with the new topic id", seen="the id of the deleted topic", exchanges=fetches)
    run.produce("orders", "first")
    polls.until(run, bool)

    values = polls.values
    run.expect(values == ["first"], "the record of the new topic", seen=values, exchanges=fetches)


@case(
    "share.topics.subscription-changed",
    title="The application subscribes to another topic",
    level=Level.MUST,
    rule="A subscription replaces the one before: the next heartbeat has the new topics, and records of others do not "
    "come any more.",
    source=_SUBSCRIBE,
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 1, "payments": 1}),
    on_kafka=True,
)
def subscription_changed(run: CaseRun) -> None:
    """No fault: the application subscribes to orders, then to payments; then both get a record."""
    create_group(run, "payments")
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    consumer.subscribe("payments")
    _poll_until_active(run, consumer, "payments", 0)
    run.produce("orders", "no longer")
    run.produce("payments", "first")

    values = consumer.poll_until(records=1).values + consumer.poll(timeout_ms=600).values

    names = [each for each in run.wire.requests("ShareGroupHeartbeat") if each.request.subscribed_topic_names]
    last = list(names[-1].request.subscribed_topic_names)
    run.expect(last == ["payments"], "payments in the last heartbeat with topics", seen=last, exchanges=names)
    run.expect(values == ["first"], "the record of payments alone", seen=values, exchanges=names)


@case(
    "share.topics.unsubscribed",
    title="The application ends its subscription",
    level=Level.MUST,
    rule="After unsubscribe the member leaves the group, or has no topics there, and fetches no partitions.",
    source=Source("KIP-932", "Client programming interface", "kafka-clients KafkaShareConsumer.unsubscribe"),
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
)
def unsubscribed(run: CaseRun) -> None:
    """No fault: the application calls unsubscribe while it has nothing to acknowledge."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    last = run.wire.requests()[-1]
    consumer.unsubscribe()

    is_left = is_reached(run, lambda: _leaving(run, last.number), timeout_s=4)

    beats = run.wire.requests("ShareGroupHeartbeat", after=last)
    run.expect(is_left, "a heartbeat with epoch -1, or without topics", seen="neither", exchanges=beats)
    run.produce("orders", "first")
    fetched = [each for each in run.wire.requests("ShareFetch", after=beats[-1]) if each.request.topics]
    run.expect(not fetched, "no ShareFetch that adds partitions afterwards", seen=f"{len(fetched)}", exchanges=fetched)


@case(
    "share.topics.subscribed-again",
    title="The application subscribes again after unsubscribe",
    level=Level.MUST,
    rule="After unsubscribe a subscription makes the consumer a member again, with the records of its topics.",
    source=_SUBSCRIBE,
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
)
def subscribed_again(run: CaseRun) -> None:
    """No fault: a record, unsubscribe, subscribe, and another record."""
    consumer = join(run, "orders")
    run.produce("orders", "first")
    consumer.poll_until(records=1)
    consumer.unsubscribe()
    consumer.subscribe("orders")
    run.produce("orders", "second")

    values = consumer.poll_until(lambda seen: "second" in seen.values).values

    run.expect("second" in values, "the second record", seen=values, exchanges=run.wire.requests("ShareFetch"))


def _poll_until_active(run: CaseRun, consumer: ShareConsumerHandle, topic: str, partition: int) -> None:
    """Poll until a fetch of a partition was answered without an error."""
    consumer.poll_until(
        lambda _: run.wire.requests("ShareFetch", topic=topic, partition=partition).answered(error="NONE")
    )


def _naming(run: CaseRun, topic: str) -> list[Exchange[Any, Any]]:
    """The requests by which a client can learn of a topic."""
    return [*run.wire.requests("ShareGroupHeartbeat", topic=topic), *run.wire.requests("Metadata", topic=topic)]


def _leaving(run: CaseRun, after: int) -> list[Exchange[Any, Any]]:
    beats = run.wire.requests("ShareGroupHeartbeat", after=after)
    return [each for each in beats if each.request.member_epoch == -1 or each.request.subscribed_topic_names == ()]
