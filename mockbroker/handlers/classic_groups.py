"""JoinGroup (11), Heartbeat (12), LeaveGroup (13) and SyncGroup (14): the classic group protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kwire.error_codes import ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from mockbroker.context import Context
from mockbroker.handlers.classic_members import join as join_mixed
from mockbroker.handlers.classic_members import mixed_group
from mockbroker.handlers.classic_members import sync as sync_mixed
from mockbroker.handlers.committed import answer_when_committed
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.handlers.member_ids import random_uuid
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Park, Reply
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.classic_group import ClassicGroup, Join
from mockbroker.state.classic_members import JoinAnswer, Promise, SyncAnswer
from mockbroker.state.consumer_group import ConsumerGroup
from mockbroker.state.group_kinds import Settings, number
from mockbroker.state.streams_group import StreamsGroup

T = TypeVar("T")

#: Before this version a dynamic member need not come back with its id (KIP-394).
_KNOWN_ID_SINCE = 4
#: Before this version a static leader that came back cannot be told to leave the assignment as it is.
_SKIPS_ASSIGNMENT_SINCE = 9
#: Before this version the names of protocols cannot be null in a JoinGroup answer.
_NULL_PROTOCOL_SINCE = 7
#: From this version a SyncGroup has to say what it believes the protocol to be (KIP-559).
_PROTOCOL_SAID_SINCE = 5
#: From this version several members can leave at once, each with a code of its own (KIP-345).
_BATCHED_LEAVE_SINCE = 3
#: A waiting join or sync is woken by its group, whose own deadlines are the real ones; this only looks again.
_LOOK_AGAIN_MS = 3_600_000


@answer_when_committed
def join_group(request: JoinGroupRequest, ctx: Context) -> Outcome:
    """Take part in a classic group; answered when the join phase ends.

    Pinned by the conversations other-classic-*.
    """
    broker = ctx.cluster.config
    if not may(Operation.READ, ResourceType.GROUP, request.group_id, ctx):
        return Reply(_joined(JoinAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED), ctx.api_version))
    try:
        _must_fit(request, broker)
        must_coordinate(request.group_id, ctx)
        mixed = mixed_group(request.group_id, ctx)
        if mixed is not None:
            must_know_id = ctx.api_version >= _KNOWN_ID_SINCE
            return Reply(_joined(join_mixed(mixed, request, ctx, must_know_id=must_know_id), ctx.api_version))
        group = _group_to_join(request, ctx)
    except KafkaError as error:
        # This answer repeats the member id, which the general one does not know of.
        return Reply(_joined(JoinAnswer(error.code, request.member_id), ctx.api_version))
    if group is None:
        return Reply(_joined(JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), ctx.api_version))
    promise = group.join(_join(request, ctx), broker=broker, now_ms=ctx.now_ms)
    version = ctx.api_version
    return _when_kept(promise, request.group_id, lambda answer: _joined(answer, version), ctx)


def _must_fit(request: JoinGroupRequest, broker: Settings) -> None:
    """Refuse an empty group id, and session timeouts that the broker does not allow.

    Raises: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT.
    """
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    shortest = number(broker, "group.min.session.timeout.ms")
    longest = number(broker, "group.max.session.timeout.ms")
    if not shortest <= request.session_timeout_ms <= longest:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)


def _must_be_group(group_id: str, ctx: Context) -> None:
    """Pass only for a group id that classic groups may have, on its coordinator, and for those who may read it.

    Raises: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR.
    """
    must(Operation.READ, ResourceType.GROUP, group_id, ctx)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    must_coordinate(group_id, ctx)


def _group_to_join(request: JoinGroupRequest, ctx: Context) -> ClassicGroup | None:
    """Find or make the group; None when the name is taken by a group of another protocol.

    A consumer or streams group that nobody is in gives its name up.
    Raises: UNKNOWN_MEMBER_ID when a member with an id comes to a group that is not there.
    """
    groups = ctx.node.groups
    group = groups.find(request.group_id)
    if isinstance(group, ClassicGroup):
        return group
    if group is not None and not (isinstance(group, ConsumerGroup | StreamsGroup) and group.is_deletable()):
        return None
    if request.member_id:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return groups.make_classic(request.group_id)


def _join(request: JoinGroupRequest, ctx: Context) -> Join:
    prefix = request.group_instance_id if request.group_instance_id is not None else ctx.client_id or ""
    rebalance_timeout_ms = request.rebalance_timeout_ms
    return Join(
        request.member_id,
        "" if request.member_id else f"{prefix}-{random_uuid(ctx.rng)}",
        request.group_instance_id,
        ctx.client_id or "",
        ctx.client_host,
        request.session_timeout_ms,
        # Version 0 has one timeout for both.
        rebalance_timeout_ms if rebalance_timeout_ms >= 0 else request.session_timeout_ms,
        request.protocol_type,
        tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        must_know_id=ctx.api_version >= _KNOWN_ID_SINCE,
        skips_assignment=ctx.api_version >= _SKIPS_ASSIGNMENT_SINCE,
    )


def _joined(answer: JoinAnswer, api_version: int) -> JoinGroupResponse:
    name = answer.protocol_name
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=name if api_version >= _NULL_PROTOCOL_SINCE else name or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in answer.members
        ],
    )


def _when_kept(
    promise: Promise[T], group_id: str, respond: Callable[[T], JoinGroupResponse | SyncGroupResponse], ctx: Context
) -> Outcome:
    """Answer once the promise is kept."""

    def look(now: Context) -> Outcome:
        if promise.answer is not None:
            return Reply(respond(promise.answer))
        return Park(now.now_ms + _LOOK_AGAIN_MS, (("group", group_id),), look)

    return look(ctx)


@answer_when_committed
def sync_group(request: SyncGroupRequest, ctx: Context) -> Outcome:
    """Ask for one's part of the assignment; answered when the leader has sent it."""
    said = request.protocol_type is not None and request.protocol_name is not None
    if ctx.api_version >= _PROTOCOL_SAID_SINCE and not said:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    _must_be_group(request.group_id, ctx)
    mixed = mixed_group(request.group_id, ctx)
    if mixed is not None:
        return Reply(_synced(sync_mixed(mixed, request, ctx)))
    promise = _known_group(request.group_id, ctx).sync(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={row.member_id: bytes(row.assignment) for row in request.assignments},
        now_ms=ctx.now_ms,
    )
    return _when_kept(promise, request.group_id, _synced, ctx)


def _synced(answer: SyncAnswer) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


def _known_group(group_id: str, ctx: Context) -> ClassicGroup:
    """The classic group; to these requests a group of another type is one that is not there.

    Raises: UNKNOWN_MEMBER_ID, as a group that is not there has no members.
    """
    group = ctx.node.groups.classic(group_id)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id} is not found")
    return group


@answer_when_committed
def heartbeat(request: HeartbeatRequest, ctx: Context) -> Outcome:
    """Stay in a classic group."""
    try:
        _must_be_group(request.group_id, ctx)
    except KafkaError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Kafka takes the member's word for it until it knows better.
            return Reply(HeartbeatResponse())
        raise
    mixed = mixed_group(request.group_id, ctx)
    beat = mixed.heartbeat_classic if mixed is not None else _known_group(request.group_id, ctx).heartbeat
    beat(request.member_id, request.group_instance_id, request.generation_id, now_ms=ctx.now_ms)
    return Reply(HeartbeatResponse())


@answer_when_committed
def leave_group(request: LeaveGroupRequest, ctx: Context) -> Outcome:
    """Leave a classic group. A group that is not there is an error of the rows, where there are rows."""
    _must_be_group(request.group_id, ctx)
    leavers = request.members if ctx.api_version >= _BATCHED_LEAVE_SINCE else [MemberIdentity(request.member_id)]
    group = ctx.node.groups.classic(request.group_id)
    mixed = mixed_group(request.group_id, ctx)
    if mixed is not None:
        identities = [(leaver.member_id, leaver.group_instance_id) for leaver in leavers]
        codes = mixed.leave_classic(identities, now_ms=ctx.now_ms)
    elif group is None:
        codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
    else:
        codes = group.leave([(leaver.member_id, leaver.group_instance_id) for leaver in leavers], now_ms=ctx.now_ms)
    if ctx.api_version < _BATCHED_LEAVE_SINCE:
        return Reply(LeaveGroupResponse(error_code=codes[0]))
    rows = [
        MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=code)
        for leaver, code in zip(leavers, codes, strict=True)
    ]
    return Reply(LeaveGroupResponse(members=rows))
