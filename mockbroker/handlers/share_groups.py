"""ShareGroupHeartbeat (76) and ShareGroupDescribe (77)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from kwire.messages.share_group_describe import Assignment as DescribedAssignment
from kwire.messages.share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kwire.messages.share_group_describe import TopicPartitions as DescribedPartitions
from kwire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from mockbroker.context import Context
from mockbroker.handlers.committed import answer_when_committed
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.handlers.group_access import must_see
from mockbroker.handlers.group_describe import described_rows, refused_rows
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.persisters.default import Outcomes
from mockbroker.security.authorize import Operation, ResourceType, must
from mockbroker.state.group_kinds import Assignment as Assigned
from mockbroker.state.group_kinds import number
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_group import ASSIGNOR_NAME, ShareGroup, ShareJoin, ShareMember
from mockbroker.state.share_group_init import Initialise

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.node import Node

_LEAVE_EPOCH = -1
_MEMBER_ID_LENGTH_MAX = 36


def must_have_share_groups(ctx: Context, message: str | None = None) -> None:
    """Pass only when the feature share.version is on.

    Raises: UNSUPPORTED_VERSION, with the message if there is one; Kafka has one in some APIs only.
    """
    if ctx.cluster.features.get("share.version", 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)


@answer_when_committed
def share_group_heartbeat(request: ShareGroupHeartbeatRequest, ctx: Context) -> Outcome:
    """Join, stay in or leave a share group.

    Source: share-semantics 5.1 to 5.4; pinned by the conversations share-heartbeat-*.
    """
    must_have_share_groups(ctx)
    must(Operation.READ, ResourceType.GROUP, request.group_id, ctx)
    _validate_member_id(request, ctx)
    must_see(request.subscribed_topic_names, ctx)
    _validate(request)
    must_coordinate(request.group_id, ctx)
    is_to_be_known = request.member_epoch > 0 and ctx.cluster.rules.breaks_on_unknown
    if is_to_be_known and ctx.node.groups.find(request.group_id) is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    group = ctx.node.groups.share(request.group_id, create=request.member_epoch == 0)
    if request.member_epoch == _LEAVE_EPOCH:
        group.leave(request.member_id, now_ms=ctx.now_ms)
        return Reply(ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=_LEAVE_EPOCH))
    settings = ctx.cluster.configs.group(request.group_id)
    join = ShareJoin(
        request.member_id,
        request.member_epoch,
        request.rack_id,
        ctx.client_id or "",
        ctx.client_host,
        request.subscribed_topic_names,
    )
    heartbeat = group.heartbeat(join, settings=settings, broker=ctx.cluster.config, now_ms=ctx.now_ms)
    if heartbeat.initialise is not None:
        _initialise(heartbeat.initialise, ctx)
    return Reply(
        ShareGroupHeartbeatResponse(
            member_id=heartbeat.member.member_id,
            member_epoch=heartbeat.member.member_epoch,
            heartbeat_interval_ms=number(settings, "share.heartbeat.interval.ms"),
            assignment=_assignment(heartbeat.assignment),
        )
    )


def _validate_member_id(request: ShareGroupHeartbeatRequest, ctx: Context) -> None:
    if not ctx.cluster.rules.measures_member_ids:
        return
    if not request.member_id or len(request.member_id) > _MEMBER_ID_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)  # This path of Kafka's has no message.


def _validate(request: ShareGroupHeartbeatRequest) -> None:
    """Refuse what makes no sense, in Kafka's order: share-semantics 5.1 rules 6 and 7."""
    problem = None
    if not request.member_id.strip():
        problem = "MemberId is blank."
    elif not request.group_id.strip():
        problem = "GroupId is blank."
    elif request.rack_id is not None and not request.rack_id.strip():
        problem = "RackId is blank."
    elif request.member_epoch == 0 and not request.subscribed_topic_names:
        problem = "A first heartbeat has to name its SubscribedTopicNames."
    elif request.member_epoch < _LEAVE_EPOCH:
        problem = f"{request.member_epoch} is no MemberEpoch."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _initialise(initialise: Initialise, ctx: Context) -> None:
    """Have the share coordinators make the state of new partitions; the heartbeat's answer does not wait for it.

    All or nothing: one partition that fails has all of this call asked for again by a later heartbeat.
    Source: share-semantics 5.7.
    """
    groups = ctx.node.groups

    def done(outcomes: Outcomes, now_ms: int) -> None:
        group = groups.find(initialise.group_id)
        if not isinstance(group, ShareGroup):
            return
        if any(error is not None for error in outcomes.values()):
            group.states.fail(initialise.partitions)
        else:
            group.states.succeed(initialise.partitions)
            if ctx.cluster.rules.starts_at_once:
                _begin(initialise, ctx.cluster, now_ms)
        group.write(now_ms)

    group, start = groups.find(initialise.group_id), ctx.cluster.rules.added_partitions_start
    begun = group.states.initialized if isinstance(group, ShareGroup) and start >= 0 else {}
    ctx.node.persister.initialize_all(
        initialise.group_id,
        initialise.partitions,
        state_epoch=initialise.state_epoch,
        done=done,
        now_ms=ctx.now_ms,
        starts=dict.fromkeys(begun, start),
    )


def _begin(initialise: Initialise, cluster: ClusterState, now_ms: int) -> None:
    """Have leaders choose now where partitions begin; who does not hear of it will when asked for records."""
    from mockbroker.handlers.share_leader import partition_of

    for topic_id, indexes in initialise.partitions.items():
        for index in sorted(indexes):
            key, place = ShareKey(initialise.group_id, topic_id, index), cluster.metadata.leader(topic_id, index)

            def load(node: Node, at_ms: int, key: ShareKey = key) -> None:
                partition_of(node, cluster, key, now_ms=at_ms)

            if place is not None:
                cluster.calls.call(to=place.leader, handle=load, done=lambda answer, at_ms: None, now_ms=now_ms)


def _assignment(assigned: Assigned | None) -> Assignment | None:
    if assigned is None:
        return None
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(indexes)))
            for topic_id, indexes in assigned.items()
        ]
    )


def share_group_describe(request: ShareGroupDescribeRequest, ctx: Context) -> Outcome:
    """Tell members and epochs of share groups, one row for each.

    Source: share-semantics 6.1; pinned by the conversation share-describe-rows.
    """
    must_have_share_groups(ctx)
    if "" in request.group_ids and ctx.cluster.rules.breaks_on_unknown:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    rows = described_rows(
        DescribedGroup,
        sorted(request.group_ids, key=bool),
        _described,
        _topics_of,
        ctx,
        tells_operations=request.include_authorized_operations,
    )
    for row in rows:
        if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            row.group_state = ctx.cluster.rules.state_names[-1]
    return Reply(ShareGroupDescribeResponse(groups=rows))


def refuse_share_group_describe(request: ShareGroupDescribeRequest, error: KafkaError) -> ShareGroupDescribeResponse:
    """One row with the error for each group that was asked for."""
    return ShareGroupDescribeResponse(groups=refused_rows(DescribedGroup, request.group_ids, error))


def _topics_of(row: DescribedGroup) -> Iterable[str]:
    for member in row.members:
        yield from (partitions.topic_name for partitions in member.assignment.topic_partitions)


def _described(group_id: str, ctx: Context) -> DescribedGroup:
    group = ctx.node.group_log.told(group_id, now_ms=ctx.now_ms).groups.share(group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR_NAME,
        members=[_described_member(member, ctx) for member in group.members.values()],
    )


def _described_member(member: ShareMember, ctx: Context) -> Member:
    topics = ((ctx.cluster.metadata.topic_by_id(topic_id), indexes) for topic_id, indexes in member.assigned.items())
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        assignment=DescribedAssignment(
            topic_partitions=[
                DescribedPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=tuple(sorted(indexes)))
                for topic, indexes in topics
                if topic is not None  # It was deleted since the member was told of it.
            ]
        ),
    )
