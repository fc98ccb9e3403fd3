"""JoinGroup (11), Heartbeat (12), LeaveGroup (13) and SyncGroup (14): the classic group protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.classic_members import (
    find_mixed_group,
    join_mixed_group,
    join_rebalance_timeout_ms,
    sync_mixed_group,
)
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.groups.member_ids import random_uuid
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.await_replication import await_replication
from mockbroker.handlers.shared.parking import park_until
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_group import ClassicGroup, JoinRequest
from mockbroker.state.group.classic_members import JoinResult, PendingResponse, SyncResult
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.group.mixed_group import MixedGroup
from mockbroker.state.settings import Settings, read_int
from mockbroker.state.streams.streams_group import StreamsGroup

T = TypeVar("T")

#: From this version a dynamic member has to join again with the id that it was given (KIP-394).
_KNOWN_ID_SINCE = 4
#: From this version a restarted static leader can be instructed to skip the assignment.
_SKIPS_ASSIGNMENT_SINCE = 9
#: From this version protocol names can be null in a JoinGroup response, and an empty one is.
_NULL_PROTOCOL_SINCE = 7
#: From this version a SyncGroup has to contain the protocol (KIP-559).
_PROTOCOL_REQUIRED_SINCE = 5
#: From this version several members can leave in one request, each with its own error code (KIP-345).
_BATCHED_LEAVE_SINCE = 3


@await_replication
def join_group(request: JoinGroupRequest, ctx: Context) -> Outcome:
    """Join a classic group; the response is sent when the join phase ends.

    Pinned by the conversations other-classic-*.
    """
    broker = ctx.node.config
    if not is_authorized(AclOperation.READ, ResourceType.GROUP, request.group_id, ctx):
        return Reply(_join_response(JoinResult(ErrorCode.GROUP_AUTHORIZATION_FAILED), ctx.api_version))
    try:
        _check_join_request(request, broker)
        require_coordinator(request.group_id, ctx)
        mixed = find_mixed_group(request.group_id, ctx)
        if mixed is not None:
            return Reply(_join_response(_join_mixed_group(mixed, request, ctx), ctx.api_version))
        found = _find_or_create_group(request, ctx)
    except KafkaError as error:
        # This response repeats the member id; the general error response does not.
        return Reply(_join_response(JoinResult(error.code, request.member_id), ctx.api_version))
    if found is None:
        return Reply(_join_response(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), ctx.api_version))
    group, is_new = found
    pending = group.join(_join_request(request, ctx), broker=broker, now_ms=ctx.now_ms, is_new=is_new)
    version = ctx.api_version
    return _reply_when_complete(pending, request.group_id, lambda answer: _join_response(answer, version), ctx)


def _join_mixed_group(group: MixedGroup, request: JoinGroupRequest, ctx: Context) -> JoinResult:
    """Join a consumer group. Unlike that of a classic group, its error response does not repeat the member id.

    Source: GroupCoordinatorService.joinGroup; ConsumerProtocolMigrationTest of Kafka 4.3.0 (tests/foreign).
    """
    try:
        return join_mixed_group(group, request, ctx, must_know_id=ctx.api_version >= _KNOWN_ID_SINCE)
    except KafkaError as error:
        return JoinResult(error.code)


def _check_join_request(request: JoinGroupRequest, broker: Settings) -> None:
    """Reject an empty group id, and session timeouts that the broker does not allow.

    Raises: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT.
    """
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    shortest = read_int(broker, "group.min.session.timeout.ms")
    longest = read_int(broker, "group.max.session.timeout.ms")
    if not shortest <= request.session_timeout_ms <= longest:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)


def _require_group_access(group_id: str, ctx: Context) -> None:
    """Check that the group id is valid, this node coordinates it, and the client may read the group.

    Raises: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR.
    """
    authorize(AclOperation.READ, ResourceType.GROUP, group_id, ctx)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    require_coordinator(group_id, ctx)


def _find_or_create_group(request: JoinGroupRequest, ctx: Context) -> tuple[ClassicGroup, bool] | None:
    """Find or create the group; None when a group of another protocol has this id.

    A consumer or streams group without members is replaced. Returns: the group, and whether it is new.
    Raises: UNKNOWN_MEMBER_ID when the group does not exist and the request has a member id. A group
    that would be replaced is lost in memory then. Pinned by the conversation other-classic-join-empty-consumer-group.
    """
    groups = ctx.node.groups
    group = groups.find_group(request.group_id)
    if isinstance(group, ClassicGroup):
        return group, False
    if group is not None and not (isinstance(group, ConsumerGroup | StreamsGroup) and group.is_deletable()):
        return None
    if request.member_id:
        ctx.node.group_log.drop_group(request.group_id)
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    ctx.cluster.topology_descriptions.remove(request.group_id)
    return groups.create_classic_group(request.group_id), True


def _join_request(request: JoinGroupRequest, ctx: Context) -> JoinRequest:
    prefix = request.group_instance_id if request.group_instance_id is not None else ctx.client_id or ""
    return JoinRequest(
        request.member_id,
        "" if request.member_id else f"{prefix}-{random_uuid(ctx.rng)}",
        request.group_instance_id,
        ctx.client_id or "",
        ctx.client_host,
        request.session_timeout_ms,
        join_rebalance_timeout_ms(request, ctx.api_version),
        request.protocol_type,
        tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        must_know_id=ctx.api_version >= _KNOWN_ID_SINCE,
        skips_assignment=ctx.api_version >= _SKIPS_ASSIGNMENT_SINCE,
    )


def _join_response(answer: JoinResult, api_version: int) -> JoinGroupResponse:
    name = answer.protocol_name
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=(name or None) if api_version >= _NULL_PROTOCOL_SINCE else name or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(member_id, instance_id, metadata)
            for member_id, instance_id, metadata in answer.members
        ],
    )


def _reply_when_complete(
    pending: PendingResponse[T], group_id: str, respond: Callable[[T], msgspec.Struct], ctx: Context
) -> Outcome:
    def attempt(_now: Context) -> Outcome | None:
        return None if pending.response is None else Reply(respond(pending.response))

    return park_until(("group", group_id), attempt, ctx)


@await_replication
def sync_group(request: SyncGroupRequest, ctx: Context) -> Outcome:
    """Return the member's assignment once the group's leader has sent it."""
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if ctx.api_version >= _PROTOCOL_REQUIRED_SINCE and not has_protocol:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    _require_group_access(request.group_id, ctx)
    mixed = find_mixed_group(request.group_id, ctx)
    if mixed is not None:
        return Reply(_sync_response(sync_mixed_group(mixed, request, ctx)))
    pending = _require_classic_group(request.group_id, ctx).sync(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={row.member_id: bytes(row.assignment) for row in request.assignments},
        now_ms=ctx.now_ms,
    )
    return _reply_when_complete(pending, request.group_id, _sync_response, ctx)


def _sync_response(answer: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


def _require_classic_group(group_id: str, ctx: Context) -> ClassicGroup:
    """The classic group; for these requests a group of another type does not exist.

    Raises: UNKNOWN_MEMBER_ID, as a group that is not there has no members.
    """
    group = ctx.node.groups.find_classic_group(group_id)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id} is not found")
    return group


@await_replication
def heartbeat(request: HeartbeatRequest, ctx: Context) -> Outcome:
    """Stay in a classic group."""
    try:
        _require_group_access(request.group_id, ctx)
    except KafkaError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Kafka accepts heartbeats while the coordinator is loading.
            return Reply(HeartbeatResponse())
        raise
    mixed = find_mixed_group(request.group_id, ctx)
    beat = mixed.heartbeat_classic if mixed is not None else _require_classic_group(request.group_id, ctx).heartbeat
    beat(request.member_id, request.group_instance_id, request.generation_id, now_ms=ctx.now_ms)
    return Reply(HeartbeatResponse())


@await_replication
def leave_group(request: LeaveGroupRequest, ctx: Context) -> Outcome:
    """Leave a classic group. Where the response has rows, an unknown group is an error of the rows."""
    _require_group_access(request.group_id, ctx)
    leavers = request.members if ctx.api_version >= _BATCHED_LEAVE_SINCE else [MemberIdentity(request.member_id)]
    identities = [(leaver.member_id, leaver.group_instance_id) for leaver in leavers]
    group = ctx.node.groups.find_classic_group(request.group_id)
    mixed = find_mixed_group(request.group_id, ctx)
    if mixed is not None:
        codes = mixed.leave_classic(identities, now_ms=ctx.now_ms)
    elif group is None:
        codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
    else:
        codes = group.leave(identities, now_ms=ctx.now_ms)
    if ctx.api_version < _BATCHED_LEAVE_SINCE:
        return Reply(LeaveGroupResponse(error_code=codes[0]))
    rows = [MemberResponse(*identity, code) for identity, code in zip(identities, codes, strict=True)]
    return Reply(LeaveGroupResponse(members=rows))
