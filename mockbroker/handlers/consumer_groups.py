"""ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69): the group protocol of KIP-848."""

from __future__ import annotations

from collections.abc import Iterable, Set

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_describe import Assignment as DescribedAssignment
from kwire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from kwire.messages.consumer_group_describe import TopicPartitions as DescribedPartitions
from kwire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from mockbroker.context import Context
from mockbroker.handlers.committed import answer_when_committed
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.handlers.group_access import must_see
from mockbroker.handlers.group_describe import described_rows, refused_rows
from mockbroker.handlers.member_ids import random_kafka_uuid
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.assignors_consumer import ASSIGNORS
from mockbroker.state.classic_group import ClassicGroup
from mockbroker.state.consumer_group import ConsumerGroup, ConsumerJoin
from mockbroker.state.consumer_members import LEFT_FOR_A_WHILE, ConsumerMember, TopicPartition, by_topic, flat
from mockbroker.state.group_kinds import number
from mockbroker.state.mixed_group import MixedGroup

_LEAVE_EPOCH = -1
#: From this version clients make up their member ids themselves.
_OWN_MEMBER_ID_SINCE = 1
#: What describe says of members by the protocol that they speak.
_CLASSIC_PROTOCOL, _NEW_PROTOCOL = 0, 1


@answer_when_committed
def consumer_group_heartbeat(request: ConsumerGroupHeartbeatRequest, ctx: Context) -> Outcome:
    """Join, stay in or leave a consumer group. Pinned by the conversations other-consumer-*."""
    _must_have_consumer_groups(ctx)
    must(Operation.READ, ResourceType.GROUP, request.group_id, ctx)
    must_see(request.subscribed_topic_names, ctx)
    assignors = _assignors(ctx)
    _validate(request, assignors, ctx.api_version)
    must_coordinate(request.group_id, ctx)
    groups = ctx.node.groups
    if request.member_epoch < 0:
        group = groups.consumer(request.group_id)
        group.leave(request.member_id, request.instance_id, request.member_epoch, now_ms=ctx.now_ms)
        return Reply(ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch))
    group = _group_to_join(request, ctx) if request.member_epoch == 0 else groups.consumer(request.group_id)
    settings = ctx.cluster.configs.group(request.group_id)
    heartbeat = group.heartbeat(
        _join(request, ctx),
        settings=settings,
        broker=ctx.cluster.config,
        default_assignor=assignors[0],
        now_ms=ctx.now_ms,
    )
    if groups.find(request.group_id) is not group:
        groups.keep(group)
        if isinstance(group, MixedGroup):
            group.begin_sessions(now_ms=ctx.now_ms)
    if heartbeat.resolve:

        def is_shown(topic_name: str) -> bool:
            return may(Operation.DESCRIBE, ResourceType.TOPIC, topic_name, ctx)

        # Kafka looks topics up beside its coordinator; members hear of them by a later heartbeat.
        ctx.cluster.calls.later(0, lambda at_ms: group.resolve(now_ms=at_ms, is_shown=is_shown), now_ms=ctx.now_ms)
    return Reply(
        ConsumerGroupHeartbeatResponse(
            member_id=heartbeat.member.member_id,
            member_epoch=heartbeat.member.member_epoch,
            heartbeat_interval_ms=number(settings, "consumer.heartbeat.interval.ms"),
            assignment=_assignment(heartbeat.assigned),
        )
    )


def _group_to_join(request: ConsumerGroupHeartbeatRequest, ctx: Context) -> ConsumerGroup:
    """Find or make the group; a classic one with members is made a consumer group, if that may be.

    Raises: GROUP_ID_NOT_FOUND.
    """
    groups = ctx.node.groups
    group = groups.find(request.group_id)
    if isinstance(group, ClassicGroup) and not group.is_deletable():
        from mockbroker.coordinators.migration import upgraded

        return upgraded(group, groups, ctx.cluster.metadata, ctx.cluster.config)
    return groups.consumer(request.group_id, create=True)


def _assignors(ctx: Context) -> list[str]:
    """The assignors that the broker offers, its default first; classes of one's own are not among them."""
    configured = ctx.cluster.config["group.consumer.assignors"]
    assert isinstance(configured, list)
    return [name for name in configured if name in ASSIGNORS] or list(ASSIGNORS)


def _validate(request: ConsumerGroupHeartbeatRequest, assignors: list[str], api_version: int) -> None:
    """Refuse what makes no sense, in Kafka's order.

    Raises: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    problem = _problem_of_ids(request, api_version) or _problem_of_epoch(request)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is none of {', '.join(assignors)}.",
        )


def _problem_of_ids(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str | None:
    needs_id = api_version >= _OWN_MEMBER_ID_SINCE or request.member_epoch > 0 or request.member_epoch == _LEAVE_EPOCH
    texts = (
        ("MemberId", request.member_id if needs_id else None),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    )
    return next((f"{name} is blank." for name, text in texts if text is not None and not text.strip()), None)


def _problem_of_epoch(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.member_epoch == 0:
        if request.rebalance_timeout_ms == -1:
            return "A first heartbeat has to say its RebalanceTimeoutMs."
        if request.topic_partitions is None or request.topic_partitions:
            return "Who joins has no TopicPartitions yet, and has to say so."
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "A first heartbeat has to say its SubscribedTopicNames or its SubscribedTopicRegex."
    elif request.member_epoch == LEFT_FOR_A_WHILE and request.instance_id is None:
        return "Only a member with an InstanceId can leave for a while."
    elif request.member_epoch < LEFT_FOR_A_WHILE:
        return f"{request.member_epoch} is no MemberEpoch."
    return None


def _join(request: ConsumerGroupHeartbeatRequest, ctx: Context) -> ConsumerJoin:
    owned = request.topic_partitions
    return ConsumerJoin(
        request.member_id or random_kafka_uuid(ctx.rng),
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        ctx.client_id or "",
        ctx.client_host,
        request.rebalance_timeout_ms,
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
        None if owned is None else frozenset((row.topic_id, index) for row in owned for index in row.partitions),
    )


def _assignment(partitions: Set[TopicPartition] | None) -> Assignment | None:
    if partitions is None:
        return None
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(indexes)))
            for topic_id, indexes in by_topic(partitions).items()
        ]
    )


def consumer_group_describe(request: ConsumerGroupDescribeRequest, ctx: Context) -> Outcome:
    """Tell members, epochs and assignments of consumer groups, one row for each."""
    _must_have_consumer_groups(ctx)
    rows = described_rows(
        DescribedGroup,
        request.group_ids,
        _described,
        _topics_of,
        ctx,
        tells_operations=request.include_authorized_operations,
    )
    return Reply(ConsumerGroupDescribeResponse(groups=rows))


def _must_have_consumer_groups(ctx: Context) -> None:
    """Pass only when the feature group.version is on.

    Raises: UNSUPPORTED_VERSION. Pinned by the conversation other-update-features-group.
    """
    if ctx.cluster.features.get("group.version", 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def refuse_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    """One row with the error for each group that was asked for."""
    return ConsumerGroupDescribeResponse(groups=refused_rows(DescribedGroup, request.group_ids, error))


def _topics_of(row: DescribedGroup) -> Iterable[str]:
    for member in row.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (partitions.topic_name for partitions in assignment.topic_partitions)


def _described(group_id: str, ctx: Context) -> DescribedGroup:
    group = ctx.node.group_log.told(group_id, now_ms=ctx.now_ms).groups.consumer(group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor_name(_assignors(ctx)[0]),
        members=[_described_member(member, group, ctx) for member in group.members.values()],
    )


def _described_member(member: ConsumerMember, group: ConsumerGroup, ctx: Context) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        # Until it has given a partition up the member is the one that has it.
        assignment=_described_assignment(member.assigned.keys() | member.revoking.keys(), ctx),
        target_assignment=_described_assignment(flat(group.target.get(member.member_id, {})), ctx),
        member_type=_NEW_PROTOCOL if member.classic is None else _CLASSIC_PROTOCOL,
    )


def _described_assignment(partitions: Set[TopicPartition], ctx: Context) -> DescribedAssignment:
    metadata = ctx.cluster.metadata
    topics = ((metadata.topic_by_id(topic_id), indexes) for topic_id, indexes in by_topic(partitions).items())
    return DescribedAssignment(
        topic_partitions=[
            DescribedPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=tuple(sorted(indexes)))
            for topic, indexes in topics
            if topic is not None  # It was deleted since.
        ]
    )
