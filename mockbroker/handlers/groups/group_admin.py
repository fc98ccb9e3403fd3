"""DescribeGroups (15), ListGroups (16) and DeleteGroups (42)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kwire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kwire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.share_coordinator.share_state_deletion import ShareStateDeletion
from mockbroker.handlers.shared.authorize import (
    AclOperation,
    ResourceType,
    authorize,
    authorized_operations,
    is_authorized,
    is_authorized_on_cluster,
)
from mockbroker.handlers.shared.await_replication import after_replication, combine_outcomes
from mockbroker.handlers.shared.fan_out import FanOut
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.classic_members import ClassicMember
from mockbroker.state.group.classic_rebalance import ClassicState
from mockbroker.state.group.group import Group
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.share.share_group import ShareGroup

#: From this version a missing group is an error; before, its state is "Dead".
_NOT_FOUND_SINCE = 6
_DEAD = "Dead"


def describe_groups(request: DescribeGroupsRequest, ctx: Context) -> Outcome:
    """Return members and assignments of classic groups; groups of other types do not exist here.

    Pinned by the conversations other-list-groups and other-classic-join-sync.
    """
    rows = [_describe_group(group_id, ctx) for group_id in request.groups]
    if request.include_authorized_operations:
        for row in rows:
            if row.error_code == ErrorCode.NONE:
                row.authorized_operations = authorized_operations(ResourceType.GROUP, row.group_id, ctx)
    return Reply(DescribeGroupsResponse(groups=rows))


def refuse_describe_groups(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    """One row with the error for each requested group."""
    return DescribeGroupsResponse(groups=[DescribedGroup(error.code, group_id=group_id) for group_id in request.groups])


def _describe_group(group_id: str, ctx: Context) -> DescribedGroup:
    try:
        authorize(AclOperation.DESCRIBE, ResourceType.GROUP, group_id, ctx)
        require_coordinator(group_id, ctx)
    except KafkaError as error:
        return DescribedGroup(error.code, group_id=group_id)
    group = ctx.node.group_log.committed_group(group_id, now_ms=ctx.now_ms)
    if isinstance(group, ClassicGroup):
        stable = group.state is ClassicState.STABLE
        protocol = group.protocol_name if stable else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=protocol or "",
            members=[_describe_member(member, protocol) for member in group.members.in_map_order()],
        )
    row = DescribedGroup(group_id=group_id, group_state=_DEAD)
    if ctx.api_version >= _NOT_FOUND_SINCE:
        row.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        problem = "not found" if group is None else "not a classic group"
        row.error_message = f"Group {group_id} is {problem}."
    return row


def _describe_member(member: ClassicMember, protocol: str | None) -> DescribedGroupMember:
    """protocol: that of a stable group, which may be empty; else None."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment,
    )


def list_groups(request: ListGroupsRequest, ctx: Context) -> Outcome:
    """List the groups that this node coordinates. A filter with an unknown state or type matches no group.

    Pinned by the conversations other-list-groups and share-list-groups.
    """
    if ctx.node.group_log.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {text.lower().strip() for text in request.states_filter}
    types = {text.lower() for text in request.types_filter}
    sees_all = is_authorized_on_cluster(AclOperation.DESCRIBE, ctx)
    rows = [
        ListedGroup(group.group_id, group.protocol_type, group.state_name, group.kind.value)
        for group in ctx.node.group_log.committed_groups(now_ms=ctx.now_ms)
        if (sees_all or is_authorized(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id, ctx))
        and (not states or _state_filter_name(group) in states)
        and (not types or group.kind.value in types)
    ]
    return Reply(ListGroupsResponse(groups=rows))


def _state_filter_name(group: Group) -> str:
    """The name of a group's state in filters; one of Kafka's states has a different name there."""
    return "not_ready" if group.state_name == "NotReady" else group.state_name.lower()


def delete_groups(request: DeleteGroupsRequest, ctx: Context) -> Outcome:
    """Delete groups without members and their offsets; the state of a share group is deleted first.

    Source: share-semantics 6.6; pinned by the conversation share-delete-groups.
    """
    codes = {name: _check_deletable(name, ctx) for name in request.groups_names}
    by_shard: dict[int, list[str]] = {}
    for name, code in codes.items():
        shard = ctx.cluster.metadata.coordinator_partition_index(CoordinatorKind.GROUP, name) if code is None else -1
        by_shard.setdefault(shard, []).append(name)
    rejected = by_shard.pop(-1, [])

    def join(parts: list[msgspec.Struct]) -> DeleteGroupsResponse:
        rows = [row for part in cast(list[DeleteGroupsResponse], parts) for row in part.results]
        rows += [DeletableGroupResult(name, int(codes[name] or ErrorCode.NONE)) for name in rejected]
        return DeleteGroupsResponse(results=sorted(rows, key=lambda row: list(codes).index(row.group_id)))

    return combine_outcomes([delete_groups_of_coordinator(names, ctx) for names in by_shard.values()], ctx, join)


def refuse_delete_groups(request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    """One row with the error for each group that was to be deleted."""
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, error.code) for name in request.groups_names])


def _check_deletable(name: str, ctx: Context) -> ErrorCode | None:
    try:
        authorize(AclOperation.DELETE, ResourceType.GROUP, name, ctx)
        require_coordinator(name, ctx)
    except KafkaError as error:
        return error.code
    return None


def _delete_response(codes: Mapping[str, ErrorCode]) -> Reply:
    return Reply(DeleteGroupsResponse(results=[DeletableGroupResult(name, int(code)) for name, code in codes.items()]))


def delete_groups_of_coordinator(names: Sequence[str], ctx: Context) -> Outcome:
    """Delete groups of one partition of the offsets topic: first the state of share groups, then the groups.

    The response is one of DeleteGroups. Each step waits until it is replicated; if the first one times out, no group
    is deleted.
    Source: Kafka's GroupCoordinatorService.deleteGroups.
    """
    groups = {name: ctx.node.groups.find_group(name) for name in names}
    shares = {name: group for name, group in groups.items() if isinstance(group, ShareGroup)}
    codes = {name: ErrorCode.NON_EMPTY_GROUP for name, group in shares.items() if not group.is_deletable()}
    deletions = {
        name: ShareStateDeletion(group, group.partition_states.topic_ids_with_state(), ctx)
        for name, group in shares.items()
        if name not in codes
    }

    def delete_states(now: Context) -> Outcome:
        fan_out: FanOut[str, dict[bytes, ErrorCode]] = FanOut(deletions, now)
        for name, deletion in deletions.items():
            deletion.delete_states(now, fan_out.callback_for(name))

        def forget(later: Context) -> Outcome:
            for name, errors in fan_out.successes():
                failed = next((error for error in errors.values() if error is not ErrorCode.NONE), None)
                if failed is not None:
                    codes[name] = failed
            return _delete_groups_of_shard([name for name in names if name not in codes], codes, later)

        return fan_out.continue_when_complete(forget, now)

    def refuse(error: KafkaError) -> Reply:
        return _delete_response(dict.fromkeys(names, error.code))

    return after_replication(names[0], ctx, delete_states, refuse)


def _delete_groups_of_shard(names: Sequence[str], codes: Mapping[str, ErrorCode], ctx: Context) -> Outcome:
    """Delete those groups that exist and have no members. codes: of the groups that are not deleted."""
    if not names:
        return _delete_response(codes)
    results = {name: _delete_group(name, ctx) for name in names}
    return after_replication(
        names[0],
        ctx,
        lambda _now: _delete_response({**codes, **results}),
        lambda error: _delete_response({**codes, **dict.fromkeys(names, error.code)}),
    )


def _delete_group(name: str, ctx: Context) -> ErrorCode:
    """Delete a group. Returns: the error code of its row."""
    try:
        require_coordinator(name, ctx)
    except KafkaError as error:  # This node lost the partition while the state was deleted.
        return error.code
    group = ctx.node.groups.find_group(name)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_deletable():
        return ErrorCode.NON_EMPTY_GROUP
    ctx.cluster.topology_descriptions.remove(name)
    ctx.node.group_log.remove_group(name, now_ms=ctx.now_ms)
    return ErrorCode.NONE
