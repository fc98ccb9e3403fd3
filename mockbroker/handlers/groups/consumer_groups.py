"""ConsumerGroupHeartbeat (68) and ConsumerGroupDescribe (69): the group protocol of KIP-848."""

from __future__ import annotations

from collections.abc import Iterable, Set

from kwire.error_codes import ErrorCode
from kwire.messages import consumer_group_describe as describe
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kwire.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse as HeartbeatResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.groups.group_access import require_describe
from mockbroker.handlers.groups.group_describe import describe_groups, error_rows
from mockbroker.handlers.groups.member_ids import random_kafka_uuid
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.await_replication import await_replication
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.group.consumer_members import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerJoin,
    ConsumerMember,
    flatten_assignment,
)
from mockbroker.state.group.group import group_by_topic
from mockbroker.state.group.mixed_group import MixedGroup
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.settings import read_int

_LEAVE_EPOCH = -1
#: From this version clients generate their member ids.
_CLIENT_MEMBER_ID_SINCE = 1
#: The member types of ConsumerGroupDescribe, by protocol.
_CLASSIC_PROTOCOL, _NEW_PROTOCOL = 0, 1


@await_replication
def consumer_group_heartbeat(request: ConsumerGroupHeartbeatRequest, ctx: Context) -> Outcome:
    """Join, stay in or leave a consumer group. Pinned by the conversations other-consumer-*."""
    _require_consumer_groups(ctx)
    authorize(AclOperation.READ, ResourceType.GROUP, request.group_id, ctx)
    require_describe(request.subscribed_topic_names, ctx)
    assignors = _enabled_assignors(ctx)
    _validate_request(request, assignors, ctx.api_version)
    require_coordinator(request.group_id, ctx)
    groups = ctx.node.groups
    if request.member_epoch < 0:
        group = groups.get_consumer_group(request.group_id)
        group.leave(request.member_id, request.instance_id, request.member_epoch, now_ms=ctx.now_ms)
        return Reply(HeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch))
    if request.member_epoch == 0:
        group = _find_or_create_group(request, ctx)
    else:
        group = groups.get_consumer_group(request.group_id)
    join = _join_request(request, ctx)
    settings = ctx.node.group_config(request.group_id)
    heartbeat = group.heartbeat(
        join, settings=settings, broker=ctx.node.config, default_assignor=assignors[0], now_ms=ctx.now_ms
    )
    if groups.find_group(request.group_id) is not group:
        groups.register(group)
        if isinstance(group, MixedGroup):
            group.start_classic_sessions(now_ms=ctx.now_ms)
    if heartbeat.needs_regex_resolution:

        def is_shown(topic_name: str) -> bool:
            return is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, topic_name, ctx)

        # Kafka resolves expressions outside the coordinator; members get the topics with a later heartbeat.
        ctx.cluster.inter_broker.schedule(
            0, lambda at_ms: group.resolve_regexes(now_ms=at_ms, is_shown=is_shown), now_ms=ctx.now_ms
        )
    return Reply(
        HeartbeatResponse(
            member_id=heartbeat.member.member_id,
            member_epoch=heartbeat.member.member_epoch,
            heartbeat_interval_ms=read_int(settings, "consumer.heartbeat.interval.ms"),
            assignment=_assignment_row(heartbeat.assigned),
        )
    )


def _find_or_create_group(request: ConsumerGroupHeartbeatRequest, ctx: Context) -> ConsumerGroup:
    """Find or create the group; a classic group with members is converted to a consumer group if possible.

    Raises: GROUP_ID_NOT_FOUND.
    """
    groups = ctx.node.groups
    group = groups.find_group(request.group_id)
    if isinstance(group, ClassicGroup) and not group.is_deletable():
        from mockbroker.coordinators.group.group_migration import upgrade_group

        return upgrade_group(group, groups, ctx.cluster.metadata, ctx.node.config)
    return groups.get_consumer_group(request.group_id, create=True)


def _enabled_assignors(ctx: Context) -> list[str]:
    """The enabled assignors, the default first."""
    return ctx.node.config.consumer_assignors


def _validate_request(request: ConsumerGroupHeartbeatRequest, assignors: list[str], api_version: int) -> None:
    """Reject invalid requests, in Kafka's order.

    Raises: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    problem = _check_ids(request, api_version) or _check_epoch(request)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        problem = f"ServerAssignor {request.server_assignor} is not one of {', '.join(assignors)}."
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, problem)


def _check_ids(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str | None:
    is_member = request.member_epoch > 0 or request.member_epoch == _LEAVE_EPOCH
    needs_id = api_version >= _CLIENT_MEMBER_ID_SINCE or is_member
    texts = (
        ("MemberId", request.member_id if needs_id else None),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    )
    return next((f"{name} is blank." for name, text in texts if text is not None and not text.strip()), None)


def _check_epoch(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.member_epoch == 0:
        if request.rebalance_timeout_ms == -1:
            return "The first heartbeat has to contain RebalanceTimeoutMs."
        if request.topic_partitions is None or request.topic_partitions:
            return "TopicPartitions of a joining member have to be an empty list."
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "The first heartbeat has to contain SubscribedTopicNames or SubscribedTopicRegex."
    elif request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH and request.instance_id is None:
        return "Only a member with an InstanceId can leave temporarily."
    elif request.member_epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        return f"{request.member_epoch} is not a valid MemberEpoch."
    return None


def _join_request(request: ConsumerGroupHeartbeatRequest, ctx: Context) -> ConsumerJoin:
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
        owned_topic_ids=frozenset(row.topic_id for row in owned or ()),
    )


def _assignment_row(partitions: Set[TopicPartitionKey] | None) -> Assignment | None:
    if partitions is None:
        return None
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(indexes)))
            for topic_id, indexes in group_by_topic(sorted(partitions)).items()
        ]
    )


def consumer_group_describe(request: ConsumerGroupDescribeRequest, ctx: Context) -> Outcome:
    """Return members, epochs and assignments of consumer groups, one row for each group."""
    _require_consumer_groups(ctx)
    rows = describe_groups(describe.DescribedGroup, request, _describe_group, _row_topics, ctx)
    return Reply(ConsumerGroupDescribeResponse(groups=rows))


def _require_consumer_groups(ctx: Context) -> None:
    """Check that the feature group.version and the consumer protocol of the coordinator are enabled.

    Raises: UNSUPPORTED_VERSION. Pinned by other-update-features-group and other-classic-protocol-only.
    """
    protocols = ctx.node.config["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, list)
    if ctx.cluster.features.get("group.version", 0) < 1 or "consumer" not in protocols:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def refuse_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    """One row with the error for each requested group."""
    return ConsumerGroupDescribeResponse(groups=error_rows(describe.DescribedGroup, request.group_ids, error))


def _row_topics(row: describe.DescribedGroup) -> Iterable[str]:
    for member in row.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (partitions.topic_name for partitions in assignment.topic_partitions)


def _describe_group(group_id: str, ctx: Context) -> describe.DescribedGroup:
    group = ctx.node.group_log.committed_state(group_id, now_ms=ctx.now_ms).groups.get_consumer_group(group_id)
    return describe.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor_name(_enabled_assignors(ctx)[0]),
        members=[_describe_member(member, group, ctx) for member in group.members.in_map_order().values()],
    )


def _describe_member(member: ConsumerMember, group: ConsumerGroup, ctx: Context) -> describe.Member:
    return describe.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        # A partition that is being revoked still belongs to the member.
        assignment=_describe_assignment(member.assigned.keys() | member.revoking.keys(), ctx),
        target_assignment=_describe_assignment(flatten_assignment(group.target.get(member.member_id, {})), ctx),
        member_type=_NEW_PROTOCOL if member.classic is None else _CLASSIC_PROTOCOL,
    )


def _describe_assignment(partitions: Set[TopicPartitionKey], ctx: Context) -> describe.Assignment:
    metadata = ctx.cluster.metadata
    assignment = group_by_topic(sorted(partitions))
    topics = ((metadata.topic_by_id(topic_id), indexes) for topic_id, indexes in assignment.items())
    existing = ((topic, indexes) for topic, indexes in topics if topic is not None)  # One may have been deleted.
    return describe.Assignment(
        [describe.TopicPartitions(topic.topic_id, topic.name, tuple(sorted(indexes))) for topic, indexes in existing]
    )
