"""DescribeGroups (15), ListGroups (16) and DeleteGroups (42): what an administrator asks of groups."""

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
from mockbroker.context import Context
from mockbroker.handlers.committed import once_committed, together
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.handlers.gathering import Gathering
from mockbroker.handlers.share_state_deletion import ShareStateDeletion
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may, must, operations_on
from mockbroker.state.classic_group import ClassicGroup
from mockbroker.state.classic_members import ClassicMember
from mockbroker.state.classic_rebalance import ClassicState
from mockbroker.state.group_kinds import Group
from mockbroker.state.share_group import ShareGroup
from mockbroker.state.topics import CoordinatorKind

#: From this version a group that is not there is an error, not just dead.
_NOT_FOUND_SINCE = 6
_DEAD = "Dead"


def describe_groups(request: DescribeGroupsRequest, ctx: Context) -> Outcome:
    """Tell members and assignments of classic groups; groups of other types are not there.

    Pinned by the conversations other-list-groups and other-classic-join-sync.
    """
    rows = [_described(group_id, ctx) for group_id in request.groups]
    if request.include_authorized_operations:
        for row in rows:
            if row.error_code == ErrorCode.NONE:
                row.authorized_operations = operations_on(ResourceType.GROUP, row.group_id, ctx)
    return Reply(DescribeGroupsResponse(groups=rows))


def refuse_describe_groups(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    """One row with the error for each group that was asked for."""
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.groups]
    )


def _described(group_id: str, ctx: Context) -> DescribedGroup:
    try:
        must(Operation.DESCRIBE, ResourceType.GROUP, group_id, ctx)
        must_coordinate(group_id, ctx)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    group = ctx.node.group_log.told_group(group_id, now_ms=ctx.now_ms)
    if isinstance(group, ClassicGroup):
        stable = group.state is ClassicState.STABLE
        protocol = group.protocol_name or "" if stable else ""
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=protocol,
            members=[_described_member(member, protocol) for member in group.members.all()],
        )
    row = DescribedGroup(group_id=group_id, group_state=_DEAD)
    if ctx.api_version >= _NOT_FOUND_SINCE:
        row.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        what = "not found" if group is None else "not a classic group"
        row.error_message = f"Group {group_id} is {what}."
    return row


def _described_member(member: ClassicMember, protocol: str) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) if protocol else b"",
        member_assignment=member.assignment,
    )


def list_groups(request: ListGroupsRequest, ctx: Context) -> Outcome:
    """List the groups that this node coordinates. A filter for a state or type that is not known matches none.

    Pinned by the conversations other-list-groups and share-list-groups.
    """
    if ctx.node.group_log.loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {text.lower().strip() for text in request.states_filter}
    types = {text.lower() for text in request.types_filter}
    sees_all = may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    rows = [
        _listed(group)
        for group in ctx.node.group_log.told_groups(now_ms=ctx.now_ms)
        if sees_all or may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, ctx)
    ]
    return Reply(
        ListGroupsResponse(
            groups=[
                row
                for row in rows
                if (not states or _filtered(row) in states) and (not types or row.group_type in types)
            ]
        )
    )


def _filtered(row: ListedGroup) -> str:
    """The name of a group's state in filters; one of Kafka's states has another name there than it shows."""
    return "not_ready" if row.group_state == "NotReady" else row.group_state.lower()


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state_name,
        group_type=group.kind.value,
    )


def delete_groups(request: DeleteGroupsRequest, ctx: Context) -> Outcome:
    """Delete groups that nobody is in, with their offsets; a share group's state is deleted first.

    Source: share-semantics 6.6; pinned by the conversation share-delete-groups.
    """
    codes = {name: _refused(name, ctx) for name in request.groups_names}
    by_shard: dict[int, list[str]] = {}
    for name, code in codes.items():
        shard = ctx.cluster.metadata.coordinator_partition(CoordinatorKind.GROUP, name) if code is None else -1
        by_shard.setdefault(shard, []).append(name)
    refused = by_shard.pop(-1, [])

    def join(parts: list[msgspec.Struct]) -> DeleteGroupsResponse:
        rows = [row for part in cast(list[DeleteGroupsResponse], parts) for row in part.results]
        rows += [DeletableGroupResult(name, int(codes[name] or ErrorCode.NONE)) for name in refused]
        return DeleteGroupsResponse(results=sorted(rows, key=lambda row: list(codes).index(row.group_id)))

    return together([_delete_of_shard(names, ctx) for names in by_shard.values()], ctx, join)


def refuse_delete_groups(request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    """One row with the error for each group that was to be deleted."""
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=error.code) for name in request.groups_names]
    )


def _refused(name: str, ctx: Context) -> ErrorCode | None:
    try:
        must(Operation.DELETE, ResourceType.GROUP, name, ctx)
        must_coordinate(name, ctx)
    except KafkaError as error:
        return error.code
    return None


def _rows(codes: Mapping[str, ErrorCode]) -> Reply:
    return Reply(DeleteGroupsResponse(results=[DeletableGroupResult(name, int(code)) for name, code in codes.items()]))


def _delete_of_shard(names: Sequence[str], ctx: Context) -> Outcome:
    """Delete groups of one partition: first what is stored for share groups, then all whose state is gone.

    Each of the two waits until it is committed; if the first is not in time, nothing else happens to any of them.
    Source: Kafka's GroupCoordinatorService.deleteGroups.
    """
    found = {name: ctx.node.groups.find(name) for name in names}
    shares = {name: group for name, group in found.items() if isinstance(group, ShareGroup)}
    codes = {name: ErrorCode.NON_EMPTY_GROUP for name, group in shares.items() if not group.is_deletable()}
    deletions = {
        name: ShareStateDeletion(group, group.states.topic_ids(), ctx)
        for name, group in shares.items()
        if name not in codes
    }

    def delete_states(now: Context) -> Outcome:
        gathering: Gathering[str, dict[bytes, ErrorCode]] = Gathering(deletions, now)
        for name, deletion in deletions.items():
            deletion.ask(now, gathering.note(name))

        def forget(later: Context) -> Outcome:
            for name, errors in gathering.values():
                failed = next((error for error in errors.values() if error is not ErrorCode.NONE), None)
                if failed is not None:
                    codes[name] = failed
            return _forget([name for name in names if name not in codes], codes, later)

        return gathering.then_go_on(forget, now)

    return once_committed(names[0], ctx, delete_states, lambda error: _rows(dict.fromkeys(names, error.code)))


def _forget(names: Sequence[str], codes: Mapping[str, ErrorCode], ctx: Context) -> Outcome:
    """Strike groups out, as far as they are there and nobody is in them; codes: of those that go no further."""
    if not names:
        return _rows(codes)
    done = {name: _removed(name, ctx) for name in names}
    return once_committed(
        names[0],
        ctx,
        lambda _now: _rows({**codes, **done}),
        lambda error: _rows({**codes, **dict.fromkeys(names, error.code)}),
    )


def _removed(name: str, ctx: Context) -> ErrorCode:
    """Strike a group out. Returns: what there is to say of it."""
    try:
        must_coordinate(name, ctx)
    except KafkaError as error:  # Its partition has been lost while the state was deleted.
        return error.code
    group = ctx.node.groups.find(name)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_deletable():
        return ErrorCode.NON_EMPTY_GROUP
    ctx.node.group_log.remove(name, now_ms=ctx.now_ms)
    return ErrorCode.NONE
