"""Errors of the classic group protocol, in each request that can have them."""

from __future__ import annotations

from mockbroker.certify.case import Case, ClusterPlan, Level, Source, case
from mockbroker.certify.case_run import CaseRun
from mockbroker.certify.driver.failure import ClientError
from mockbroker.certify.driver.handles import Polled
from mockbroker.faults.control import FaultHandle

#: How long a client may try again before it reports an error: no source has a limit.
_REPORTED_S = 20.0
_ERRORS = Source("Kafka protocol guide", "Error Codes", "kafka-clients KafkaConsumer.poll")


def _recovered(
    api: str, name: str, error: str, reason: str, *, then: str, quick: bool = False, only: str | None = None
) -> Case:
    """A case of an error after which the member consumes again. then: the request that must follow the error.

    only: a condition on the request, without which no broker answers so; a client may send none.
    """
    # Heartbeats are refused when the member has its assignment: during a rebalance a client may ignore their errors.
    is_heartbeat = api == "Heartbeat"
    # A coordinator answers each Heartbeat so until the member joins again.
    times = None if is_heartbeat and error == "REBALANCE_IN_PROGRESS" else 1

    def play(run: CaseRun) -> None:
        def refuse() -> FaultHandle:
            is_optional = only is not None
            return run.cluster.faults.add(
                api, group="shop", times=times, error=error, filter=only, optional=is_optional
            )

        run.produce("orders", "first")
        fault = None if is_heartbeat else refuse()
        consumer = run.consumer(
            group_id="shop",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            # A member that joins again with another id waits until the coordinator has removed the earlier one.
            session_timeout_ms=2_000,
        )
        run.subscribe(consumer, "orders")
        polled = Polled([], [])
        run.poll_for(consumer, lambda: "first" in polled.values, "the first record", into=polled, may_fail=True)
        fault = refuse() if fault is None else fault
        if only is not None and not fault.hits:
            run.not_exercised(f"the client has sent no {api} with {only}, which brokers answer with {error}")
        run.poll_for(consumer, lambda: fault.hits, f"{api} of the member", may_fail=True)
        refused = run.wire.requests(api).answered(error=error)
        run.poll_for(
            consumer, lambda: run.wire.requests(then, after=refused[0]), f"{then} after {error}", may_fail=True
        )
        if times is None:
            fault.remove()
        run.produce("orders", "second")
        run.poll_for(consumer, lambda: "second" in polled.values, "the second record", into=polled, may_fail=True)

        run.expect({"first", "second"} <= set(polled.values), "both records", seen=polled.values, exchanges=refused)

    play.__doc__ = f"One {api} request of the group{f' with {only}' if only else ''} is answered with {error}."
    if times is None:
        play.__doc__ = f"{api} is answered with {error} until the member, which has read a record, sends {then}."
    decorate = case(
        f"groups.classic.{name}",
        title=f"{api} is refused with {error}",
        level=Level.MUST,
        rule=reason,
        source=_ERRORS,
        needs=("consumer.classic",),
        settings_needed=("auto_offset_reset", "heartbeat_interval_ms", "session_timeout_ms"),
        cluster=ClusterPlan(topics={"orders": 1}, properties={"group.min.session.timeout.ms": 1_000}),
        quick=quick,
        decided_by=(api, then),
    )
    return decorate(play)


join_coordinator_moved = _recovered(
    "JoinGroup",
    "join-not-coordinator",
    "NOT_COORDINATOR",
    "The client asks for the coordinator again, and joins there.",
    then="FindCoordinator",
)
join_loading = _recovered(
    "JoinGroup",
    "join-coordinator-loading",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "The coordinator is not ready yet: the client joins again later.",
    then="JoinGroup",
)
join_unknown_member = _recovered(
    "JoinGroup",
    "join-unknown-member",
    "UNKNOWN_MEMBER_ID",
    "The member id is not valid: the client joins again without it.",
    then="JoinGroup",
    only='member_id!=""',
)
sync_rebalance = _recovered(
    "SyncGroup",
    "sync-rebalance",
    "REBALANCE_IN_PROGRESS",
    "The group is rebalanced again: the member joins again.",
    then="JoinGroup",
)
sync_unknown_member = _recovered(
    "SyncGroup",
    "sync-unknown-member",
    "UNKNOWN_MEMBER_ID",
    "The member is not in the group: it joins again as a new one.",
    then="JoinGroup",
)
heartbeat_rebalance = _recovered(
    "Heartbeat",
    "heartbeat-rebalance",
    "REBALANCE_IN_PROGRESS",
    "The group is rebalanced: the member joins again.",
    then="JoinGroup",
    quick=True,
)
heartbeat_unknown_member = _recovered(
    "Heartbeat",
    "heartbeat-unknown-member",
    "UNKNOWN_MEMBER_ID",
    "The member is not in the group any more: it joins again as a new one.",
    then="JoinGroup",
)
heartbeat_illegal_generation = _recovered(
    "Heartbeat",
    "heartbeat-illegal-generation",
    "ILLEGAL_GENERATION",
    "The generation is not the group's: the member joins again.",
    then="JoinGroup",
)
heartbeat_coordinator_moved = _recovered(
    "Heartbeat",
    "heartbeat-not-coordinator",
    "NOT_COORDINATOR",
    "The client asks for the coordinator again, and goes on there.",
    then="FindCoordinator",
)
fetch_offsets_loading = _recovered(
    "OffsetFetch",
    "offsets-coordinator-loading",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "The coordinator is not ready yet: the client asks for the offsets again, and does not reset its positions.",
    then="OffsetFetch",
)


def _reported(api: str, name: str, error: str, reason: str, *settings: tuple[str, object]) -> Case:
    """A case of an error that the application gets."""

    def play(run: CaseRun) -> None:
        run.cluster.faults.add(api, group="shop", error=error)
        extra = dict(settings)
        consumer = run.consumer(group_id="shop", auto_offset_reset="earliest", **extra)  # type: ignore[arg-type]
        run.subscribe(consumer, "orders")

        # A client may not have the name of the error, or only say that it is fatal; some report it after some attempts.
        run.expect_poll_error(consumer, error, "LOCAL_FATAL", "LOCAL_OTHER", timeout_s=_REPORTED_S)

    play.__doc__ = f"Every {api} request of the group is answered with {error}."
    decorate = case(
        f"groups.classic.{name}",
        title=f"{api} is refused with {error}",
        level=Level.MUST,
        rule=reason,
        source=_ERRORS,
        needs=("consumer.classic",) + (("consumer.classic.static",) if settings else ()),
        settings_needed=("auto_offset_reset", *(key for key, _ in settings)),
        cluster=ClusterPlan(topics={"orders": 1}),
        timeout_s=_REPORTED_S + 10,
        decided_by=(api,),
    )
    return decorate(play)


group_authorization = _reported(
    "JoinGroup",
    "join-authorization",
    "GROUP_AUTHORIZATION_FAILED",
    "The error is not retriable: the application gets it.",
)
group_full = _reported(
    "JoinGroup", "join-group-full", "GROUP_MAX_SIZE_REACHED", "The error is not retriable: the application gets it."
)
inconsistent_protocol = _reported(
    "JoinGroup",
    "join-inconsistent-protocol",
    "INCONSISTENT_GROUP_PROTOCOL",
    "The error is not retriable: the application gets it.",
)
fenced_instance = _reported(
    "JoinGroup",
    "join-fenced-instance",
    "FENCED_INSTANCE_ID",
    "Another member has the instance id: the error is fatal, and the application gets it.",
    ("group_instance_id", "till-1"),
)


def _commit(name: str, error: str, reason: str, *, is_retried: bool) -> Case:
    """A case of an error of OffsetCommit: retried, or reported by a commit that waits."""

    def play(run: CaseRun) -> None:
        run.produce("orders", "first")
        consumer = run.consumer(group_id="shop", auto_offset_reset="earliest", enable_auto_commit=False)
        run.subscribe(consumer, "orders")
        consumer.poll_until(records=1)
        run.cluster.faults.add("OffsetCommit", group="shop", times=1 if is_retried else None, error=error)
        raised = ""
        try:
            consumer.commit(("orders", 0, 1))
        except ClientError as failed:
            raised = failed.name

        sent = run.wire.requests("OffsetCommit")
        if is_retried:
            run.expect(not raised, "the commit succeeds", seen=raised, exchanges=sent)
            run.expect(len(sent) > 1, "OffsetCommit is sent again", seen=f"{len(sent)} requests", exchanges=sent)
        else:
            run.expect(raised, "the application gets an error", seen="the commit succeeds", exchanges=sent)
            run.note(f"the client reports {raised}")
            count = f"{len(sent)} requests"
            run.should(len(sent) == 1, "OffsetCommit is not sent again", seen=count, exchanges=sent)

    play.__doc__ = f"{'The first' if is_retried else 'Every'} OffsetCommit request is answered with {error}."
    decorate = case(
        f"groups.commit.{name}",
        title=f"A commit is refused with {error}",
        level=Level.MUST,
        rule=reason,
        source=Source("Kafka protocol guide", "Error Codes", "kafka-clients KafkaConsumer.commitSync"),
        needs=("consumer.classic", "consumer.offsets"),
        settings_needed=("auto_offset_reset", "enable_auto_commit"),
        cluster=ClusterPlan(topics={"orders": 1}),
        decided_by=("OffsetCommit",),
    )
    return decorate(play)


commit_moved = _commit(
    "not-coordinator",
    "NOT_COORDINATOR",
    "The error is retriable: the client asks for the coordinator, and commits there.",
    is_retried=True,
)
commit_loading = _commit(
    "coordinator-loading",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "The error is retriable: the client commits again.",
    is_retried=True,
)
commit_unknown_member = _commit(
    "unknown-member",
    "UNKNOWN_MEMBER_ID",
    "The member has lost its partitions: a commit that waits does not succeed.",
    is_retried=False,
)
commit_illegal_generation = _commit(
    "illegal-generation",
    "ILLEGAL_GENERATION",
    "The generation is over: a commit that waits does not succeed.",
    is_retried=False,
)
commit_too_large = _commit(
    "metadata-too-large",
    "OFFSET_METADATA_TOO_LARGE",
    "The error is not retriable: a commit that waits does not succeed.",
    is_retried=False,
)
commit_authorization = _commit(
    "authorization",
    "GROUP_AUTHORIZATION_FAILED",
    "The error is not retriable: a commit that waits does not succeed.",
    is_retried=False,
)
