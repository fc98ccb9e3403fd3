"""The consumer group protocol of KIP-848."""

from __future__ import annotations

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError

#: The first version of OffsetCommit with STALE_MEMBER_EPOCH (KIP-848).
_STALE_EPOCHS_SINCE = 9
#: How long a client may try again before it reports an error: no source has a limit.
_REPORTED_S = 20.0


@case(
    "groups.consumer.fenced-epoch",
    title="A heartbeat is refused with FENCED_MEMBER_EPOCH",
    level=Level.MUST,
    rule="A fenced member gives up its partitions and joins again with the same member id and epoch 0.",
    source=Source("KIP-848", "Member ID and Epoch, ConsumerGroupHeartbeat, Error handling"),
    needs=("consumer.kip848",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    quick=True,
    decided_by=("ConsumerGroupHeartbeat",),
)
def fenced_epoch(run: CaseRun) -> None:
    """One heartbeat of the stable member is answered with FENCED_MEMBER_EPOCH."""
    consumer = run.consumer(group_id="shop", group_protocol="consumer", auto_offset_reset="earliest")
    consumer.subscribe("orders")
    run.cluster.produce("orders", "first")
    consumer.poll_until(records=1)
    run.cluster.faults.add("ConsumerGroupHeartbeat", times=1, error="FENCED_MEMBER_EPOCH")
    fenced = run.in_background(lambda: consumer.poll_until(lambda seen: "second" in seen.values, timeout_s=12))
    [refused] = run.wire.wait_for_request("ConsumerGroupHeartbeat", error="FENCED_MEMBER_EPOCH")

    rejoined = run.wire.wait_for_request("ConsumerGroupHeartbeat", where={"member_epoch": 0}, after=refused)
    run.cluster.produce("orders", "second")
    polled = fenced.result()

    run.expect(
        rejoined[0].request.member_id == refused.request.member_id,
        "the member joins again with its member id",
        seen=rejoined[0].request.member_id,
        exchanges=[refused, rejoined[0]],
    )
    run.expect("second" in polled.values, "the member consumes again", seen=polled.values, exchanges=rejoined)


def _recovered(name: str, error: str, reason: str, *, then_epoch: int | None = None) -> Case:
    """A case of an error of a heartbeat after which the member consumes again."""

    def play(run: CaseRun) -> None:
        consumer = run.consumer(group_id="shop", group_protocol="consumer", auto_offset_reset="earliest")
        consumer.subscribe("orders")
        run.cluster.produce("orders", "first")
        consumer.poll_until(records=1)
        fault = run.cluster.faults.add("ConsumerGroupHeartbeat", times=1, error=error)
        run.poll_for(consumer, lambda: fault.hits, "a heartbeat of the member")
        refused = run.wire.requests("ConsumerGroupHeartbeat").answered(error=error)
        run.poll_for(
            consumer,
            lambda: run.wire.requests("ConsumerGroupHeartbeat", after=refused[0]),
            f"a heartbeat after {error}",
        )
        after = run.wire.requests("ConsumerGroupHeartbeat", after=refused[0])
        if then_epoch is not None:
            epoch, member_id = after[0].request.member_epoch, after[0].request.member_id
            run.expect(
                epoch == then_epoch, f"the next heartbeat has epoch {then_epoch}", seen=epoch, exchanges=after[0]
            )
            is_same = member_id == refused[0].request.member_id
            run.should(is_same, "the member keeps its id", seen=member_id, exchanges=[refused[0], after[0]])
            if not is_same:
                return  # The coordinator still has the member with the other id, and gives the new one nothing.
        run.cluster.produce("orders", "second")
        polled = consumer.poll_until(condition=lambda seen: "second" in seen.values)

        run.expect("second" in polled.values, "the member consumes again", seen=polled.values)

    play.__doc__ = f"One heartbeat of the stable member is answered with {error}."
    decorate = case(
        f"groups.consumer.{name}",
        title=f"A heartbeat is refused with {error}",
        level=Level.MUST,
        rule=reason,
        source=Source("KIP-848", "ConsumerGroupHeartbeat API, Error handling"),
        needs=("consumer.kip848",),
        settings_needed=("auto_offset_reset",),
        cluster=ClusterPlan(topics={"orders": 1}),
        decided_by=("ConsumerGroupHeartbeat",),
    )
    return decorate(play)


unknown_member = _recovered(
    "unknown-member",
    "UNKNOWN_MEMBER_ID",
    "A member that the coordinator does not know gives up its partitions and joins again with epoch 0.",
    then_epoch=0,
)
coordinator_loading = _recovered(
    "coordinator-loading",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "The coordinator is not ready yet: the member sends the heartbeat again.",
)
not_coordinator = _recovered(
    "not-coordinator",
    "NOT_COORDINATOR",
    "The member asks for the coordinator again, and sends its heartbeats there.",
)


def _reported(name: str, error: str, reason: str, *settings: tuple[str, object]) -> Case:
    """A case of an error of a heartbeat that the application gets."""

    def play(run: CaseRun) -> None:
        run.cluster.faults.add("ConsumerGroupHeartbeat", error=error)
        consumer = run.consumer(
            group_id="shop",
            group_protocol="consumer",
            auto_offset_reset="earliest",
            **dict(settings),  # type: ignore[arg-type]
        )
        consumer.subscribe("orders")

        # A client may not have the name of the error, or only say that it is fatal; some report it after some attempts.
        run.expect_poll_error(consumer, error, "LOCAL_FATAL", "LOCAL_OTHER", timeout_s=_REPORTED_S)

    play.__doc__ = f"Every heartbeat is answered with {error}."
    decorate = case(
        f"groups.consumer.{name}",
        title=f"A heartbeat is refused with {error}",
        level=Level.MUST,
        rule=reason,
        source=Source("KIP-848", "ConsumerGroupHeartbeat API, Error handling"),
        needs=("consumer.kip848",),
        settings_needed=("auto_offset_reset", *(key for key, _ in settings)),
        cluster=ClusterPlan(topics={"orders": 1}),
        timeout_s=_REPORTED_S + 10,
        decided_by=("ConsumerGroupHeartbeat",),
    )
    return decorate(play)


authorization = _reported(
    "authorization", "GROUP_AUTHORIZATION_FAILED", "The error is not retriable: the application gets it."
)
unsupported_assignor = _reported(
    "unsupported-assignor",
    "UNSUPPORTED_ASSIGNOR",
    "The coordinator does not have the assignor: the error is fatal, and the application gets it.",
    ("remote_assignor", "uniform"),
)
unreleased_instance = _reported(
    "unreleased-instance-id",
    "UNRELEASED_INSTANCE_ID",
    "Another member still has the instance id: the error is fatal, and the application gets it.",
    ("group_instance_id", "till-1"),
)
group_full = _reported("group-full", "GROUP_MAX_SIZE_REACHED", "The error is not retriable: the application gets it.")


@case(
    "groups.consumer.leave-epoch",
    title="A member is closed",
    level=Level.MUST,
    rule="A dynamic member leaves with a last heartbeat that has epoch -1.",
    source=Source("KIP-848", "ConsumerGroupHeartbeat API, MemberEpoch"),
    needs=("consumer.kip848",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("ConsumerGroupHeartbeat",),
)
def leave_epoch(run: CaseRun) -> None:
    """No fault."""
    _consume_and_close(run)

    last = run.wire.requests("ConsumerGroupHeartbeat", group="shop")[-1]
    run.expect(last.request.member_epoch == -1, "epoch -1", seen=last.request.member_epoch, exchanges=last)


@case(
    "groups.consumer.static-leave-epoch",
    title="A static member is closed",
    level=Level.MUST,
    rule="A static member that will return leaves with a last heartbeat that has epoch -2.",
    source=Source("KIP-848", "ConsumerGroupHeartbeat API, MemberEpoch"),
    needs=("consumer.kip848",),
    settings_needed=("auto_offset_reset", "group_instance_id"),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    decided_by=("ConsumerGroupHeartbeat",),
)
def static_leave_epoch(run: CaseRun) -> None:
    """No fault: the member has group.instance.id."""
    _consume_and_close(run, group_instance_id="till-1")

    last = run.wire.requests("ConsumerGroupHeartbeat", group="shop")[-1]
    run.expect(last.request.member_epoch == -2, "epoch -2", seen=last.request.member_epoch, exchanges=last)


def _consume_and_close(run: CaseRun, **settings: str) -> None:
    run.produce("orders", "first")
    consumer = run.consumer(
        group_id="shop",
        group_protocol="consumer",
        auto_offset_reset="earliest",
        **settings,  # type: ignore[arg-type]
    )
    consumer.subscribe("orders")
    consumer.poll_until(records=1)
    consumer.close()


@case(
    "groups.consumer.first-heartbeat",
    title="The first heartbeat of a member",
    level=Level.MUST,
    rule="A member joins with epoch 0, and with all fields of its subscription; later heartbeats keep its member id.",
    source=Source("KIP-848", "ConsumerGroupHeartbeat API, Request"),
    needs=("consumer.kip848",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    on_kafka=True,
    quick=True,
    decided_by=("ConsumerGroupHeartbeat",),
)
def first_heartbeat(run: CaseRun) -> None:
    """No fault."""
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", group_protocol="consumer", auto_offset_reset="earliest")
    consumer.subscribe("orders")
    consumer.poll_until(records=1)

    first, *later = run.wire.requests("ConsumerGroupHeartbeat", group="shop")
    request = first.request
    run.expect(request.member_epoch == 0, "epoch 0", seen=request.member_epoch, exchanges=first)
    topics, timeout_ms = list(request.subscribed_topic_names or ()), request.rebalance_timeout_ms
    run.expect(topics == ["orders"], "the topic orders", seen=topics, exchanges=first)
    run.expect(timeout_ms > 0, "the rebalance timeout", seen=timeout_ms, exchanges=first)
    ids = {each.request.member_id for each in later}
    run.expect(ids == {first.response.member_id}, "the member id of the first answer", seen=ids, exchanges=later)


@case(
    "groups.consumer.heartbeat-interval",
    title="The heartbeat interval of the coordinator",
    level=Level.MUST,
    rule="A member with nothing new sends its heartbeats at the interval that the coordinator has given.",
    source=Source("KIP-848", "ConsumerGroupHeartbeat API, HeartbeatIntervalMs"),
    needs=("consumer.kip848",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1}),
    decided_by=("ConsumerGroupHeartbeat",),
)
def heartbeat_interval(run: CaseRun) -> None:
    """The interval is 200 ms; the member polls for two seconds."""
    run.cluster.faults.add(
        "ConsumerGroupHeartbeat", set_fields={"heartbeat_interval_ms": 200}, after=True, optional=True
    )
    run.produce("orders", "first")
    consumer = run.consumer(group_id="shop", group_protocol="consumer", auto_offset_reset="earliest")
    consumer.subscribe("orders")
    consumer.poll_until(records=1)
    settled = run.wire.requests("ConsumerGroupHeartbeat")[-1]
    consumer.poll(timeout_ms=2_000)

    sent = run.wire.requests("ConsumerGroupHeartbeat", after=settled)
    run.expect(2 <= len(sent) <= 14, "about ten heartbeats in two seconds", seen=len(sent), exchanges=sent)


@case(
    "groups.consumer.two-members",
    title="A second member joins",
    level=Level.MUST,
    rule="A member gives up a partition before another one gets it; each record is delivered once.",
    source=Source("KIP-848", "Rebalance Process"),
    needs=("consumer.kip848",),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 2}),
    on_kafka=True,
    timeout_s=25,
    decided_by=("ConsumerGroupHeartbeat",),
)
def two_members(run: CaseRun) -> None:
    """No fault: a second process of the driver joins the group of the first."""
    first = run.consumer(group_id="shop", group_protocol="consumer", auto_offset_reset="earliest")
    first.subscribe("orders")
    first.poll(timeout_ms=300)
    second = run.second_driver().consumer(group_id="shop", group_protocol="consumer", auto_offset_reset="earliest")
    second.subscribe("orders")

    def are_both_assigned() -> bool:
        second.poll(timeout_ms=100)
        return len(first.assignment()) == 1 and len(second.assignment()) == 1

    run.poll_for(first, are_both_assigned, "both members have one partition", timeout_s=20)
    run.produce("orders", "a", partition=0)
    run.produce("orders", "b", partition=1)
    one, other = first.poll_until(records=1), second.poll_until(records=1)

    values = sorted([*one.values, *other.values], key=str)
    run.expect(values == ["a", "b"], "each record once", seen=values)


@case(
    "groups.consumer.regex",
    title="A subscription by a regular expression",
    level=Level.MUST,
    rule="The expression is sent to the coordinator, which finds the topics.",
    source=Source(
        "KIP-848", "ConsumerGroupHeartbeat API, SubscribedTopicRegex", "KafkaConsumer.subscribe(SubscriptionPattern)"
    ),
    needs=("consumer.kip848", "consumer.kip848.regex"),
    settings_needed=("auto_offset_reset",),
    cluster=ClusterPlan(topics={"orders": 1, "stock": 1}),
    on_kafka=True,
    decided_by=("ConsumerGroupHeartbeat",),
)
def regex(run: CaseRun) -> None:
    """No fault: the expression fits one of two topics."""
    run.produce("orders", "first")
    run.produce("stock", "other")
    consumer = run.consumer(group_id="shop", group_protocol="consumer", auto_offset_reset="earliest")
    consumer.subscribe(pattern="^ord.*")

    polled = consumer.poll_until(records=1)

    sent = run.wire.requests("ConsumerGroupHeartbeat", where={"subscribed_topic_regex": lambda text: text})
    run.expect(polled.values == ["first"], "the record of the topic that fits", seen=polled.values)
    run.expect(sent, "SubscribedTopicRegex in a heartbeat", seen="none")


@case(
    "groups.consumer.commit-stale-epoch",
    title="A commit is refused with STALE_MEMBER_EPOCH",
    level=Level.MUST,
    rule="The member's epoch has changed: the commit is sent again with the new one, or the application gets an error.",
    source=Source("KIP-848", "OffsetCommit API, Error handling"),
    needs=("consumer.kip848", "consumer.offsets"),
    settings_needed=("auto_offset_reset", "enable_auto_commit"),
    cluster=ClusterPlan(topics={"orders": 1}),
    decided_by=("ConsumerGroupHeartbeat",),
)
def commit_stale_epoch(run: CaseRun) -> None:
    """The first OffsetCommit request is answered with STALE_MEMBER_EPOCH."""
    run.produce("orders", "first")
    consumer = run.consumer(
        group_id="shop", group_protocol="consumer", auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.subscribe("orders")
    consumer.poll_until(records=1)
    run.cluster.faults.add("OffsetCommit", times=1, error="STALE_MEMBER_EPOCH")
    raised = ""
    try:
        consumer.commit(("orders", 0, 1))
    except ClientError as error:
        raised = error.name
        run.note(f"the client reports {raised}")

    sent = run.wire.requests("OffsetCommit")
    if sent and sent[0].api_version < _STALE_EPOCHS_SINCE:
        run.not_exercised(f"the client sends OffsetCommit {sent[0].api_version}: brokers answer so from version 9 on")
    is_committed = bool(sent.answered(error="NONE"))
    run.expect(bool(raised) != is_committed, "an error, or a second commit", seen=raised or "neither", exchanges=sent)
