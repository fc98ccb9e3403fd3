"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of them.

Source: Kafka's GroupMetadataManager.classicGroupJoinToConsumerGroup and its neighbours (KIP-848).
"""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.context import Context
from mockbroker.coordinators.migration import assignment_bytes, subscription
from mockbroker.handlers.member_ids import random_kafka_uuid
from mockbroker.kafka_error import KafkaError
from mockbroker.state.assignors_consumer import ASSIGNORS
from mockbroker.state.classic_members import JoinAnswer, SyncAnswer
from mockbroker.state.consumer_group import ConsumerJoin
from mockbroker.state.consumer_members import by_topic
from mockbroker.state.group_facts import ClassicSide
from mockbroker.state.mixed_group import MixedGroup


def mixed_group(group_id: str, ctx: Context) -> MixedGroup | None:
    """The consumer group of this name if anybody is in it, else None."""
    group = ctx.node.groups.find(group_id)
    return group if isinstance(group, MixedGroup) and not group.is_deletable() else None


def join(group: MixedGroup, request: JoinGroupRequest, ctx: Context, *, must_know_id: bool) -> JoinAnswer:
    """Join; a sender without a member id may be sent back once with one.

    Raises: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    UNKNOWN_SERVER_ERROR for a subscription that cannot be read.
    """
    is_new = not request.member_id
    member_id = request.member_id or random_kafka_uuid(ctx.rng)
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
    names = [name for name, _ in protocols]
    group.check_join(member_id, request.protocol_type, names, broker=ctx.cluster.config)
    if is_new and must_know_id and request.group_instance_id is None:
        return JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    try:
        says = subscription(protocols[0][1], ctx.cluster.metadata)
    except WireError:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    configured = ctx.cluster.config["group.consumer.assignors"]
    assert isinstance(configured, list)
    return group.join_classic(
        ConsumerJoin(
            member_id,
            0,
            request.group_instance_id,
            says.rack_id,
            ctx.client_id or "",
            ctx.client_host,
            request.rebalance_timeout_ms,
            says.topic_names,
            "",
            None,
            says.owned,
            ClassicSide(request.session_timeout_ms, protocols),
        ),
        is_new=is_new,
        settings=ctx.cluster.configs.group(request.group_id),
        broker=ctx.cluster.config,
        assignor=next((name for name in configured if name in ASSIGNORS), next(iter(ASSIGNORS))),
        now_ms=ctx.now_ms,
    )


def sync(group: MixedGroup, request: SyncGroupRequest, ctx: Context) -> SyncAnswer:
    """Tell a member what it has, in the form that it would get from a leader. Raises: see `MixedGroup.sync_classic`."""
    member = group.sync_classic(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        now_ms=ctx.now_ms,
    )
    assert member.classic is not None
    assigned = assignment_bytes(by_topic(member.assigned.keys()), member.classic.protocols[0][1], ctx.cluster.metadata)
    return SyncAnswer(ErrorCode.NONE, request.protocol_type, request.protocol_name, assigned)
