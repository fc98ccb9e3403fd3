"""ShareGroupHeartbeat (76) and ShareGroupDescribe (77)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import structs

from kwire.error_codes import ErrorCode
from kwire.messages import share_group_describe as describe
from kwire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from kwire.messages.share_group_heartbeat import Assignment, ShareGroupHeartbeatRequest, TopicPartitions
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse as HeartbeatResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.groups.group_access import require_describe
from mockbroker.handlers.groups.group_describe import describe_groups, error_rows
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize
from mockbroker.handlers.shared.await_replication import await_replication
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.default import Outcomes
from mockbroker.state.group.group import Assignment as Assigned
from mockbroker.state.settings import read_int
from mockbroker.state.share.share_group import ASSIGNOR_NAME, ShareGroup, ShareJoin, ShareMember
from mockbroker.state.share.share_group_initialization import InitializationRequest
from mockbroker.state.share_coordinator.share_coordinator import ShareKey

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node

_LEAVE_EPOCH = -1
_MEMBER_ID_LENGTH_MAX = 36


def require_share_groups(ctx: Context, message: str | None = None) -> None:
    """Check that the feature share.version is enabled.

    Raises: UNSUPPORTED_VERSION, with the message if there is one; Kafka has one in some APIs only.
    """
    if ctx.cluster.features.get("share.version", 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)


@await_replication
def share_group_heartbeat(request: ShareGroupHeartbeatRequest, ctx: Context) -> Outcome:
    """Join, stay in or leave a share group.

    Source: share-semantics 5.1 to 5.4; pinned by the conversations share-heartbeat-*.
    """
    require_share_groups(ctx)
    authorize(AclOperation.READ, ResourceType.GROUP, request.group_id, ctx)
    _validate_member_id(request, ctx)
    require_describe(request.subscribed_topic_names, ctx)
    _validate_request(request)
    require_coordinator(request.group_id, ctx)
    is_to_be_known = request.member_epoch > 0 and ctx.cluster.rules.groups.unknown_group_is_server_error
    if is_to_be_known and ctx.node.groups.find_group(request.group_id) is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    group = ctx.node.groups.get_share_group(request.group_id, create=request.member_epoch == 0, noun="Share group")
    if request.member_epoch == _LEAVE_EPOCH:
        group.leave(request.member_id, now_ms=ctx.now_ms)
        return Reply(HeartbeatResponse(member_id=request.member_id, member_epoch=_LEAVE_EPOCH))
    settings = ctx.node.group_config(request.group_id)
    join = ShareJoin(
        request.member_id,
        request.member_epoch,
        request.rack_id,
        ctx.client_id or "",
        ctx.client_host,
        request.subscribed_topic_names,
    )
    heartbeat = group.heartbeat(join, settings=settings, broker=ctx.node.config, now_ms=ctx.now_ms)
    if heartbeat.initialization is not None:
        _initialize_states(heartbeat.initialization, ctx)
    return Reply(
        HeartbeatResponse(
            member_id=heartbeat.member.member_id,
            member_epoch=heartbeat.member.member_epoch,
            heartbeat_interval_ms=read_int(settings, "share.heartbeat.interval.ms"),
            assignment=_assignment_row(heartbeat.assignment),
        )
    )


def _validate_member_id(request: ShareGroupHeartbeatRequest, ctx: Context) -> None:
    is_valid = request.member_id and len(request.member_id) <= _MEMBER_ID_LENGTH_MAX
    if ctx.cluster.rules.groups.validates_member_id_length and not is_valid:
        raise KafkaError(ErrorCode.INVALID_REQUEST)  # Kafka returns no message here.


def _validate_request(request: ShareGroupHeartbeatRequest) -> None:
    """Reject invalid requests, in Kafka's order: share-semantics 5.1 rules 6 and 7."""
    problem = None
    if not request.member_id.strip():
        problem = "MemberId is blank."
    elif not request.group_id.strip():
        problem = "GroupId is blank."
    elif request.rack_id is not None and not request.rack_id.strip():
        problem = "RackId is blank."
    elif request.member_epoch == 0 and not request.subscribed_topic_names:
        problem = "The first heartbeat has to contain SubscribedTopicNames."
    elif request.member_epoch < _LEAVE_EPOCH:
        problem = f"{request.member_epoch} is not a valid MemberEpoch."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _initialize_states(initialise: InitializationRequest, ctx: Context) -> None:
    """Initialize the state of new partitions at the share coordinators; the heartbeat's response does not wait for it.

    If one partition fails, a later heartbeat initializes all of them again. Source: share-semantics 5.7.
    """
    groups = ctx.node.groups

    def on_done(outcomes: Outcomes, now_ms: int) -> None:
        group = groups.find_group(initialise.group_id)
        if not isinstance(group, ShareGroup):
            return
        if any(error is not None for error in outcomes.values()):
            group.partition_states.fail_initializing(initialise.partitions)
        else:
            group.partition_states.complete_initializing(initialise.partitions)
            if ctx.cluster.rules.groups.chooses_start_on_subscription:
                _initialize_start_offsets(initialise, ctx.cluster, now_ms)
        # A failed write to the log has been reported, and the group is loaded again.
        with suppress(KafkaError):
            group.write_records(now_ms)

    start = ctx.cluster.rules.groups.added_partition_start
    ctx.node.persister.initialize_all(
        initialise.group_id,
        initialise.partitions,
        state_epoch=initialise.state_epoch,
        done=on_done,
        now_ms=ctx.now_ms,
        starts=dict.fromkeys(initialise.known_topics, start),
    )


def _initialize_start_offsets(initialise: InitializationRequest, cluster: ClusterState, now_ms: int) -> None:
    """Let leaders determine start offsets now; a leader that misses this does so on the first fetch."""
    from mockbroker.handlers.share.share_leader import get_partition_of_node

    for topic_id, indexes in initialise.partitions.items():
        for index in sorted(indexes):
            share_key = ShareKey(initialise.group_id, topic_id, index)
            partition = cluster.metadata.find_partition(topic_id, index)

            def load(node: Node, at_ms: int, key: ShareKey = share_key) -> None:
                get_partition_of_node(node, cluster, key, now_ms=at_ms)

            if partition is not None:
                leader = partition.leader
                cluster.inter_broker.call(to=leader, handle=load, done=lambda answer, at_ms: None, now_ms=now_ms)


def _assignment_row(assigned: Assigned | None) -> Assignment | None:
    if assigned is None:
        return None
    return Assignment([TopicPartitions(topic_id, tuple(sorted(indexes))) for topic_id, indexes in assigned.items()])


def share_group_describe(request: ShareGroupDescribeRequest, ctx: Context) -> Outcome:
    """Return members and epochs of share groups, one row for each group.

    Source: share-semantics 6.1; pinned by the conversation share-describe-rows.
    """
    require_share_groups(ctx)
    if "" in request.group_ids and ctx.cluster.rules.groups.unknown_group_is_server_error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    by_name = structs.replace(request, group_ids=tuple(sorted(request.group_ids, key=bool)))
    rows = describe_groups(
        describe.DescribedGroup, by_name, _describe_group, _row_topics, ctx, has_coordinator_text=True
    )
    for row in rows:
        if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            row.group_state = ctx.cluster.rules.groups.state_names[-1]
    return Reply(ShareGroupDescribeResponse(groups=rows))


def refuse_share_group_describe(request: ShareGroupDescribeRequest, error: KafkaError) -> ShareGroupDescribeResponse:
    """One row with the error for each requested group."""
    return ShareGroupDescribeResponse(groups=error_rows(describe.DescribedGroup, request.group_ids, error))


def _row_topics(row: describe.DescribedGroup) -> Iterable[str]:
    for member in row.members:
        yield from (partitions.topic_name for partitions in member.assignment.topic_partitions)


def _describe_group(group_id: str, ctx: Context) -> describe.DescribedGroup:
    group = ctx.node.group_log.committed_state(group_id, now_ms=ctx.now_ms).groups.get_share_group(group_id)
    return describe.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR_NAME,
        members=[_describe_member(member, ctx) for member in group.members.in_map_order().values()],
    )


def _describe_member(member: ShareMember, ctx: Context) -> describe.Member:
    topics = ((ctx.cluster.metadata.topic_by_id(topic_id), indexes) for topic_id, indexes in member.assigned.items())
    return describe.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        assignment=describe.Assignment(
            [
                describe.TopicPartitions(topic.topic_id, topic.name, tuple(sorted(indexes)))
                for topic, indexes in topics
                if topic is not None  # The topic may have been deleted.
            ]
        ),
    )
