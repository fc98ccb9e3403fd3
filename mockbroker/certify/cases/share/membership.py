"""Membership of share groups: joining, fencing, refusals, and the coordinator."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.share_group import join

_ORDERS = ClusterPlan(topics={"orders": 1})
_HEARTBEAT = Source("KIP-932", "ShareGroupHeartbeat API")
#: The longest member id that brokers accept.
_MEMBER_ID_LENGTH = 36


@case(
    "share.membership.join",
    title="The heartbeats of a new member",
    level=Level.MUST,
    rule="A member joins with a member id of its own, epoch 0 and its topics; later heartbeats have the epoch of the "
    "last answer. The same member id stands in ShareFetch.",
    source=_HEARTBEAT,
    needs=("share",),
    cluster=_ORDERS,
    on_kafka=True,
    quick=True,
)
def join_group(run: CaseRun) -> None:
    """No fault: a member joins a group that does not exist yet."""
    consumer = run.share_consumer(group_id="shop")
    consumer.subscribe("orders")
    run.start_share_group(consumer, "shop", "orders")

    beats = run.wire.requests("ShareGroupHeartbeat", group="shop")
    first = beats[0].request
    run.expect(first.member_epoch == 0, "epoch 0 first", seen=first.member_epoch, exchanges=beats[0])
    run.expect(list(first.subscribed_topic_names) == ["orders"], "orders", seen=first, exchanges=beats[0])
    is_valid = 0 < len(first.member_id) <= _MEMBER_ID_LENGTH
    run.expect(is_valid, "a member id of 1 to 36 characters", seen=first.member_id, exchanges=beats[0])
    members = {each.request.member_id for each in [*beats, *run.wire.requests("ShareFetch")]}
    run.expect(members == {first.member_id}, "one member id in all requests", seen=members, exchanges=beats)
    for earlier, later in zip(beats, list(beats)[1:], strict=False):
        expected, seen = earlier.response.member_epoch, later.request.member_epoch
        run.expect(seen == expected, f"epoch {expected}", seen=seen, exchanges=[earlier, later])


@case(
    "share.membership.fenced",
    title="A heartbeat is refused with FENCED_MEMBER_EPOCH",
    level=Level.MUST,
    rule="A fenced member gives up its assignment and joins again with epoch 0 and the same member id.",
    source=_HEARTBEAT,
    needs=("share",),
    cluster=_ORDERS,
    quick=True,
)
def fenced(run: CaseRun) -> None:
    """One heartbeat of the member is answered with FENCED_MEMBER_EPOCH."""
    _rejoin_after(run, "FENCED_MEMBER_EPOCH")


@case(
    "share.membership.unknown-member",
    title="A heartbeat is refused with UNKNOWN_MEMBER_ID",
    level=Level.MUST,
    rule="A member that the coordinator does not know any more joins again with epoch 0 and the same member id.",
    source=_HEARTBEAT,
    needs=("share",),
    cluster=_ORDERS,
)
def unknown_member(run: CaseRun) -> None:
    """One heartbeat of the member is answered with UNKNOWN_MEMBER_ID."""
    _rejoin_after(run, "UNKNOWN_MEMBER_ID")


@case(
    "share.membership.group-full",
    title="The group is full",
    level=Level.MUST,
    rule="GROUP_MAX_SIZE_REACHED is fatal for the member: the application gets it from poll.",
    source=Source("KIP-932", "ShareGroupHeartbeat API, errors", "kafka-clients KafkaShareConsumer.poll"),
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 1}, properties={"group.share.max.size": 1}),
)
def group_full(run: CaseRun) -> None:
    """No fault: group.share.max.size is 1, and the group has a member."""
    first = join(run, "orders", name="first")
    first.poll_until(lambda _: run.wire.requests("ShareGroupHeartbeat").answered(error="NONE"))
    second = run.share_consumer("second", group_id="shop")
    second.subscribe("orders")

    with run.expect_error("GROUP_MAX_SIZE_REACHED"):
        second.poll_until(records=1, timeout_s=4)


@case(
    "share.membership.authorization",
    title="The application may not read the group",
    level=Level.MUST,
    rule="GROUP_AUTHORIZATION_FAILED is given to the application by poll.",
    source=Source("KIP-932", "ShareGroupHeartbeat API, errors", "kafka-clients KafkaShareConsumer.poll"),
    needs=("share",),
    cluster=_ORDERS,
)
def authorization(run: CaseRun) -> None:
    """Each ShareGroupHeartbeat is answered with GROUP_AUTHORIZATION_FAILED."""
    run.cluster.faults.add("ShareGroupHeartbeat", error="GROUP_AUTHORIZATION_FAILED")
    consumer = join(run, "orders")

    with run.expect_error("GROUP_AUTHORIZATION_FAILED"):
        consumer.poll_until(records=1, timeout_s=4)


@case(
    "share.membership.no-share-groups",
    title="The cluster has no share groups",
    level=Level.MUST,
    rule="Where share.version is 0 the broker answers UNSUPPORTED_VERSION: the application gets an error from poll.",
    source=Source("KIP-932", "Compatibility, Deprecation, and Migration Plan", "kafka-clients KafkaShareConsumer.poll"),
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 1}, features=("share.version=0",)),
)
def no_share_groups(run: CaseRun) -> None:
    """No fault: the feature share.version is 0, and ApiVersions lists the APIs all the same, as Kafka's does."""
    consumer = run.share_consumer(group_id="shop")
    consumer.subscribe("orders")

    with run.expect_error("UNSUPPORTED_VERSION", "LOCAL_UNSUPPORTED"):
        consumer.poll_until(records=1, timeout_s=4)


@case(
    "share.membership.coordinator-moved",
    title="The group's coordinator moves",
    level=Level.MUST,
    rule="After NOT_COORDINATOR the member asks for the coordinator, and goes on there with its member id and epoch.",
    source=_HEARTBEAT,
    needs=("share",),
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}),
)
def coordinator_moved(run: CaseRun) -> None:
    """The partition of the group in __consumer_offsets gets the other node as leader while the member polls."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    old = run.cluster.coordinator("shop")
    last = run.wire.requests()[-1]
    run.cluster.move_coordinator("shop")
    consumer.poll_until(lambda _: run.wire.requests("ShareGroupHeartbeat", node=1 - old, after=last).answered())
    run.produce("orders", "first")
    values = consumer.poll_until(records=1).values

    moved = run.wire.requests("ShareGroupHeartbeat", node=1 - old, after=last)
    epoch = moved[0].request.member_epoch
    run.expect(epoch > 0, "the member's epoch, since it is still a member", seen=epoch, exchanges=moved[0])
    run.expect(values == ["first"], "the record arrives", seen=values, exchanges=moved)


@case(
    "share.membership.coordinator-loading",
    title="The coordinator is loading when the member joins",
    level=Level.MUST,
    rule="COORDINATOR_LOAD_IN_PROGRESS is retried: the member joins when the coordinator is ready.",
    source=_HEARTBEAT,
    needs=("share",),
    cluster=_ORDERS,
)
def coordinator_loading(run: CaseRun) -> None:
    """The first three heartbeats are answered with COORDINATOR_LOAD_IN_PROGRESS."""
    run.cluster.faults.add("ShareGroupHeartbeat", times=3, error="COORDINATOR_LOAD_IN_PROGRESS")
    consumer = join(run, "orders")
    run.produce("orders", "first")

    values = consumer.poll_until(records=1).values

    run.expect(values == ["first"], "the record", seen=values, exchanges=run.wire.requests("ShareGroupHeartbeat"))


@case(
    "share.membership.heartbeat-interval",
    title="The interval of heartbeats",
    level=Level.SHOULD,
    rule="A member sends its heartbeats in the interval that the answers name, not more often.",
    source=Source("KIP-932", "ShareGroupHeartbeat API, HeartbeatIntervalMs"),
    needs=("share",),
    cluster=ClusterPlan(
        topics={"orders": 1},
        properties={"group.share.min.heartbeat.interval.ms": 100, "group.share.heartbeat.interval.ms": 400},
    ),
)
def heartbeat_interval(run: CaseRun) -> None:
    """No fault: the interval is 400 ms, and nothing changes in the group for five heartbeats."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    last = run.wire.requests()[-1]
    consumer.poll_until(lambda _: len(run.wire.requests("ShareGroupHeartbeat", after=last)) >= 5)

    beats = run.wire.requests("ShareGroupHeartbeat", after=last)
    mean_ms = (beats[4].arrived_ns - beats[0].arrived_ns) / 4 / 1e6
    run.expect(mean_ms >= 300, "400 ms between heartbeats", seen=f"{mean_ms:.0f} ms", exchanges=beats[:5])


@case(
    "share.membership.second-member",
    title="A second member joins and leaves",
    level=Level.MUST,
    rule="Each member fetches from the partitions that its assignment names, and from all when the others have left.",
    source=Source("KIP-932", "Share group membership, The SimpleAssignor"),
    needs=("share",),
    cluster=ClusterPlan(topics={"orders": 2}),
    on_kafka=True,
)
def second_member(run: CaseRun) -> None:
    """No fault: a second member joins, gets one of the two partitions, and leaves."""
    first = join(run, "orders", name="first")
    run.start_share_group(first, "shop", "orders")
    second = run.share_consumer("second", group_id="shop")
    second.subscribe("orders")
    second.poll_until(lambda _: run.wire.requests("ShareFetch", client_id="second").answered())
    second.close()
    first.poll_until(lambda _: _is_assigned(run, "first", 2))
    for partition in range(2):
        run.produce("orders", f"value-{partition}", partition=partition)

    values = sorted(str(value) for value in first.poll_until(records=2).values)

    expected = ["value-0", "value-1"]
    run.expect(values == expected, "the records of both partitions", seen=values)


def _is_assigned(run: CaseRun, client_id: str, partitions: int) -> bool:
    """Whether the last assignment that a member got has this many partitions."""
    beats = run.wire.requests("ShareGroupHeartbeat", client_id=client_id)
    given = [each.response.assignment for each in beats if each.response and each.response.assignment is not None]
    return bool(given) and sum(len(topic.partitions) for topic in given[-1].topic_partitions) == partitions


def _rejoin_after(run: CaseRun, error: str) -> None:
    """Refuse one heartbeat, and expect that the member joins again and gets records."""
    consumer = join(run, "orders")
    run.start_share_group(consumer, "shop", "orders")
    run.cluster.faults.add("ShareGroupHeartbeat", times=1, error=error)
    polling = run.in_background(lambda: consumer.poll_until(records=1, timeout_s=12))
    [refused] = run.wire.wait_for_request("ShareGroupHeartbeat", error=error)
    rejoined = run.wire.wait_for_request("ShareGroupHeartbeat", where={"member_epoch": 0}, after=refused)
    run.wire.wait_for_request("ShareFetch", after=rejoined[0])  # A fetch from before may be dropped with its records.
    run.produce("orders", "first")
    values = polling.result().values

    member, before = rejoined[0].request.member_id, refused.request.member_id
    run.expect(member == before, f"the member id {before}", seen=member, exchanges=[refused, rejoined[0]])
    following = [
        each for each in run.wire.requests("ShareGroupHeartbeat", after=refused) if each.number < rejoined[0].number
    ]
    run.expect(not following, "the next heartbeat has epoch 0", seen=following, exchanges=[refused, *following])
    run.expect(values == ["first"], "the member gets records again", seen=values, exchanges=rejoined)
