"""Requests of consumer group members that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Source: Kafka's GroupMetadataManager.classicGroupJoinToConsumerGroup and related methods (KIP-848).
"""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.coordinators.group.group_migration import decode_subscription, encode_assignment
from mockbroker.engine.context import Context
from mockbroker.handlers.groups.member_ids import random_kafka_uuid
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_members import JoinResult, SyncResult
from mockbroker.state.group.consumer_members import ConsumerJoin
from mockbroker.state.group.coordinator_records import ClassicProtocolMetadata
from mockbroker.state.group.group import group_by_topic
from mockbroker.state.group.mixed_group import MixedGroup

#: From this version JoinGroup has a rebalance timeout beside the session timeout.
_REBALANCE_TIMEOUT_SINCE = 1


def find_mixed_group(group_id: str, ctx: Context) -> MixedGroup | None:
    """The consumer group of this id if it has members, else None."""
    group = ctx.node.groups.find_group(group_id)
    return group if isinstance(group, MixedGroup) and not group.is_deletable() else None


def join_rebalance_timeout_ms(request: JoinGroupRequest, api_version: int) -> int:
    """The rebalance timeout of a join, negative ones included; version 0 has one timeout for both."""
    return request.rebalance_timeout_ms if api_version >= _REBALANCE_TIMEOUT_SINCE else request.session_timeout_ms


def join_mixed_group(group: MixedGroup, request: JoinGroupRequest, ctx: Context, *, must_know_id: bool) -> JoinResult:
    """Join; a client without a member id may be required to join again with one.

    Raises: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    and the error of the release for a subscription that cannot be read.
    """
    is_new = not request.member_id
    member_id = request.member_id or random_kafka_uuid(ctx.rng)
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
    names = [name for name, _ in protocols]
    instance_id = request.group_instance_id
    group.check_join(member_id, request.protocol_type, names, instance_id=instance_id, broker=ctx.node.config)
    if is_new and must_know_id and request.group_instance_id is None:
        return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    if request.group_instance_id is not None and not is_new:
        group.find_static_member(request.group_instance_id, member_id)
    try:
        parsed_subscription = decode_subscription(protocols[0][1], ctx.cluster.metadata)
    except WireError:
        raise KafkaError(ctx.cluster.release.groups.unreadable_subscription_error) from None
    return group.join_classic(
        ConsumerJoin(
            member_id,
            0,
            request.group_instance_id,
            parsed_subscription.rack_id,
            ctx.client_id or "",
            ctx.client_host,
            join_rebalance_timeout_ms(request, ctx.api_version),
            parsed_subscription.topic_names,
            "",
            None,
            parsed_subscription.owned,
            ClassicProtocolMetadata(request.session_timeout_ms, protocols),
        ),
        settings=ctx.node.group_config(request.group_id),
        broker=ctx.node.config,
        assignor=ctx.node.config.consumer_assignors[0],
        now_ms=ctx.now_ms,
    )


def sync_mixed_group(group: MixedGroup, request: SyncGroupRequest, ctx: Context) -> SyncResult:
    """Return a member's assignment in the format of a classic leader. Raises: see `MixedGroup.sync_classic`."""
    member = group.sync_classic(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        now_ms=ctx.now_ms,
    )
    assert member.classic is not None
    assigned = encode_assignment(
        group_by_topic(sorted(member.assigned)), member.classic.protocols[0][1], ctx.cluster.metadata
    )
    return SyncResult(ErrorCode.NONE, request.protocol_type, request.protocol_name, assigned)
