"""The classic group protocol."""

from __future__ import annotations

from mockbroker.certify.case import ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.messages import PartitionsLost, PartitionsRevoked
from mockbroker.certify.partition_changes import add_partitions


@case(
    "groups.classic.commit-on-close",
    title="A consumer with automatic commits is closed",
    level=Level.MUST,
    rule="With enable.auto.commit the positions are committed on close, before the member leaves the group.",
    source=Source("Kafka documentation", "enable.auto.commit", "kafka-clients KafkaConsumer.close"),
    needs=("consumer.classic",),
    settings_needed=("enable_auto_commit", "auto_commit_interval_ms", "auto_offset_reset", "metadata_max_age_ms"),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    quick=True,
    decided_by=("JoinGroup", "OffsetCommit", "LeaveGroup"),
)
def commit_on_close(run: CaseRun) -> None:
    """No fault: the interval of automatic commits is longer than the case."""
    run.produce("orders", "first", "second")
    consumer = run.consumer(
        group_id="shop",
        enable_auto_commit=True,
        auto_commit_interval_ms=600_000,
        auto_offset_reset="earliest",
        metadata_max_age_ms=1_000,  # For clients that form the group before they know the partitions.
    )
    run.subscribe(consumer, "orders")
    consumer.poll_until(records=2)

    consumer.close()

    commits = run.wire.requests("OffsetCommit", group="shop", where={"topics.partitions.committed_offset": 2})
    leaves = run.wire.requests("LeaveGroup", group="shop")
    sent = run.wire.requests("OffsetCommit")
    run.expect(commits, "OffsetCommit of offset 2", seen=sent, exchanges=[*sent, *leaves])
    run.expect(leaves, "LeaveGroup", seen="none")
    is_before = commits[0].number < leaves[0].number
    run.expect(is_before, "the commit comes before LeaveGroup", seen="after it", exchanges=[commits[0], leaves[0]])


@case(
    "groups.classic.member-id-required",
    title="The first JoinGroup is answered with MEMBER_ID_REQUIRED",
    level=Level.MUST,
    rule="The client joins again at once with the member id of the answer.",
    source=Source("KIP-394", "Proposed Changes"),
    needs=("consumer.classic",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    quick=True,
    decided_by=("JoinGroup", "OffsetCommit", "LeaveGroup"),
)
def member_id_required(run: CaseRun) -> None:
    """No fault: a coordinator answers a dynamic member of JoinGroup version 4 or later so."""
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", auto_offset_reset="earliest")
    run.subscribe(consumer, "orders")
    consumer.poll_until(records=1)

    joins = run.wire.requests("JoinGroup", group="shop")
    if joins[0].api_version < 4:
        run.not_exercised(
            f"the client sends JoinGroup {joins[0].api_version}, which has no such answer before version 4"
        )
    given = joins[0].response.member_id
    run.expect(len(joins) > 1, "a second JoinGroup request", seen="none", exchanges=joins)
    run.expect(
        joins[1].request.member_id == given,
        "the second has the member id of the answer",
        seen=joins[1].request.member_id,
        exchanges=joins,
    )


@case(
    "groups.classic.two-members",
    title="A second member joins",
    level=Level.MUST,
    rule="After a rebalance each partition has one member, and each record after it is delivered once.",
    source=Source("kafka-clients documentation", "Consumer Groups and Topic Subscriptions"),
    needs=("consumer.classic",),
    settings_needed=("auto_offset_reset", "heartbeat_interval_ms", "session_timeout_ms"),
    cluster=ClusterPlan(topics={"orders": 2}),
    on_kafka=True,
    timeout_s=25,
    decided_by=("JoinGroup", "OffsetCommit", "LeaveGroup"),
)
def two_members(run: CaseRun) -> None:
    """No fault: a second process of the driver joins the group of the first."""
    common = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100, "session_timeout_ms": 6_000}
    first = run.consumer(group_id="shop", **common)  # type: ignore[arg-type]
    run.subscribe(first, "orders")
    first.poll(timeout_ms=200)
    second = run.second_driver().consumer(group_id="shop", **common)  # type: ignore[arg-type]
    second.subscribe("orders")

    def are_both_assigned() -> bool:
        second.poll(timeout_ms=100)
        return len(first.assignment()) == 1 and len(second.assignment()) == 1

    run.poll_for(first, are_both_assigned, "both members have one partition", timeout_s=20)
    run.produce("orders", "a", partition=0)
    run.produce("orders", "b", partition=1)
    one, other = first.poll_until(records=1), second.poll_until(records=1)

    run.expect(first.assignment() != second.assignment(), "different partitions", seen=first.assignment())
    values = sorted([*one.values, *other.values], key=str)
    run.expect(values == ["a", "b"], "each record once", seen=values)


@case(
    "groups.classic.static-restart",
    title="A static member restarts",
    level=Level.MUST,
    rule="A closed static member does not leave the group, and gets its partitions again without a rebalance.",
    source=Source("KIP-345", "Proposed Changes, Leave Group Logic Change"),
    needs=("consumer.classic", "consumer.classic.static"),
    settings_needed=("group_instance_id", "auto_offset_reset"),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("JoinGroup", "OffsetCommit", "LeaveGroup"),
)
def static_restart(run: CaseRun) -> None:
    """No fault: the member with group.instance.id is closed, and opened again."""
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", group_instance_id="till-1", auto_offset_reset="earliest")
    run.subscribe(consumer, "orders")
    consumer.poll_until(records=1)
    generation = run.wire.requests("JoinGroup", group="shop").answered(error="NONE")[-1].response.generation_id
    consumer.close()
    leaves = run.wire.requests("LeaveGroup", group="shop")
    again = run.consumer("again", group_id="shop", group_instance_id="till-1", auto_offset_reset="earliest")
    again.subscribe("orders")
    run.produce("orders", "second")
    again.poll_until(condition=lambda seen: "second" in seen.values)

    joins = run.wire.requests("JoinGroup", client_id="again").answered(error="NONE")
    run.expect(not leaves, "no LeaveGroup", seen="LeaveGroup", exchanges=leaves)
    run.expect(
        joins[0].response.generation_id == generation,
        f"the member is in generation {generation} again",
        seen=joins[0].response.generation_id,
        exchanges=joins,
    )


@case(
    "groups.classic.leave-on-close",
    title="A dynamic member is closed",
    level=Level.SHOULD,
    rule="A member that is closed leaves the group, so that others get its partitions at once.",
    source=Source("Kafka protocol guide", "LeaveGroup API", "kafka-clients KafkaConsumer.close"),
    needs=("consumer.classic",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("JoinGroup", "OffsetCommit", "LeaveGroup"),
)
def leave_on_close(run: CaseRun) -> None:
    """No fault."""
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", auto_offset_reset="earliest")
    run.subscribe(consumer, "orders")
    consumer.poll_until(records=1)

    consumer.close()

    run.expect(run.wire.requests("LeaveGroup", group="shop"), "LeaveGroup", seen="none")


@case(
    "groups.classic.coordinator-moved",
    title="The coordinator moves",
    level=Level.MUST,
    rule="A member finds the new coordinator, and goes on with heartbeats and commits there.",
    source=Source("Kafka protocol guide", "Error Codes, NOT_COORDINATOR", "kafka-clients NotCoordinatorException"),
    needs=("consumer.classic", "consumer.offsets"),
    settings_needed=("auto_offset_reset", "heartbeat_interval_ms"),
    cluster=ClusterPlan(nodes=2, topics={"orders": 1}, properties={"offsets.topic.replication.factor": 2}),
    decided_by=("JoinGroup", "OffsetCommit", "LeaveGroup"),
)
def coordinator_moved(run: CaseRun) -> None:
    """The other node becomes the coordinator of the group."""
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", auto_offset_reset="earliest", heartbeat_interval_ms=100)
    run.subscribe(consumer, "orders")
    consumer.poll_until(records=1)
    run.cluster.move_coordinator("shop")
    to = run.cluster.coordinator("shop")

    def commits() -> bool:
        try:
            consumer.commit(("orders", 0, 1))
        except ClientError as error:
            run.note(f"a commit fails with {error.name}")
            return False
        return True

    run.poll_for(consumer, commits, "a commit succeeds after the coordinator has moved")

    commit = run.wire.requests("OffsetCommit", node=to)
    run.expect(commit.answered(error="NONE"), f"a commit at node {to}", seen="none", exchanges=commit)
    run.expect(consumer.committed("orders", 0) == 1, "offset 1 is committed", seen=consumer.committed("orders", 0))


@case(
    "groups.classic.partitions-added",
    title="Partitions are added to a topic",
    level=Level.MUST,
    rule="After metadata shows more partitions the leader of the group rebalances, and they are read from the start.",
    source=Source("kafka-clients documentation", "Consumer Groups and Topic Subscriptions", "metadata.max.age.ms"),
    needs=("consumer.classic",),
    settings_needed=("auto_offset_reset", "metadata_max_age_ms", "heartbeat_interval_ms"),
    cluster=ClusterPlan(topics={"orders": 1}),
    timeout_s=20,
    decided_by=("JoinGroup", "OffsetCommit", "LeaveGroup"),
)
def partitions_added(run: CaseRun) -> None:
    """The topic gets a second partition while it is read."""
    run.produce("orders", "first")
    consumer = run.consumer(
        group_id="shop", auto_offset_reset="earliest", metadata_max_age_ms=300, heartbeat_interval_ms=100
    )
    run.subscribe(consumer, "orders")
    consumer.poll_until(records=1)
    add_partitions(run, "orders", 2)
    run.produce("orders", "second", partition=1)

    polled = consumer.poll_until(records=1)

    run.expect(polled.values == ["second"], "the record of the new partition", seen=polled.values)
    run.expect(len(consumer.assignment()) == 2, "both partitions", seen=consumer.assignment())


@case(
    "groups.classic.cooperative",
    title="Cooperative rebalancing when a second member joins",
    level=Level.MUST,
    rule="With cooperative assignors a member gives up only the partitions that another member gets.",
    source=Source("KIP-429", "Consumer Rebalance Protocol"),
    needs=("consumer.classic", "consumer.classic.cooperative", "consumer.rebalance_events"),
    settings_needed=("assignors", "auto_offset_reset", "heartbeat_interval_ms"),
    cluster=ClusterPlan(topics={"orders": 2}),
    on_kafka=True,
    timeout_s=25,
    decided_by=("JoinGroup", "OffsetCommit", "LeaveGroup"),
)
def cooperative(run: CaseRun) -> None:
    """No fault: a second process of the driver joins the group of the first."""
    common = {
        "assignors": ["cooperative-sticky"],
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
    }
    first = run.consumer(group_id="shop", **common)  # type: ignore[arg-type]
    run.subscribe(first, "orders")
    run.poll_for(first, lambda: len(first.assignment()) == 2, "the only member has both partitions")
    second = run.second_driver().consumer(group_id="shop", **common)  # type: ignore[arg-type]
    second.subscribe("orders")

    def are_both_assigned() -> bool:
        second.poll(timeout_ms=100)
        return len(first.assignment()) == 1 and len(second.assignment()) == 1

    polled = run.poll_for(first, are_both_assigned, "both members have one partition", timeout_s=20)
    polled.events.extend(first.poll(timeout_ms=300).events)  # A driver may have the event a moment later.

    revoked = {
        (each.topic, each.partition)
        for event in polled.events
        if isinstance(event, PartitionsRevoked | PartitionsLost)
        for each in event.partitions
    }
    joins = run.wire.requests("JoinGroup", group="shop")
    run.expect(revoked == second.assignment(), "one partition is given up", seen=revoked, exchanges=joins)
