"""FindCoordinator (10), and the question every group request begins with: is this node the coordinator?"""

from __future__ import annotations

import re

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.errors import InvalidValue
from kwire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from mockbroker.context import Context
from mockbroker.coordinators.first_use import find
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, must
from mockbroker.state.metadata import CoordinatorKind

#: Before this version one key is asked for, and the answer is at the top.
_BATCHED_SINCE = 4
#: KIP-932: share coordinators came with this version.
_SHARE_SINCE = 6
#: In the key of a share-partition; 4.0.0 takes no others, not even in a group's name.
_COLONS = 2
_INT32 = range(-(2**31), 2**31)


def find_coordinator(request: FindCoordinatorRequest, ctx: Context) -> Outcome:
    """Tell who coordinates a group, a transactional id or a share-partition.

    Source: share-semantics 7.1; pinned by the conversations other-find-coordinator and share-find-coordinator.
    """
    if ctx.api_version >= _BATCHED_SINCE:
        rows = [_row(request.key_type, key, ctx) for key in request.coordinator_keys]
        if not ctx.cluster.rules.finds_share_coordinators and request.key_type == CoordinatorKind.SHARE:
            _lose(rows, ctx)
        return Reply(FindCoordinatorResponse(coordinators=rows))
    row = _row(request.key_type, request.key, ctx)
    code = ErrorCode(row.error_code)
    return Reply(
        FindCoordinatorResponse(
            error_code=row.error_code,
            # Kafka says "NONE" here when all is well, and the name is as good a text as any for the rest.
            error_message=row.error_message or code.name,
            node_id=row.node_id,
            host=row.host,
            port=row.port,
        )
    )


def _row(key_type: int, key: str, ctx: Context) -> Coordinator:
    try:
        _must_find(key_type, key, ctx)
        kind, text = _resolve(key_type, key, ctx)
        if kind is CoordinatorKind.SHARE and ctx.cluster.rules.state_in_log:
            node_id = _leader(text, ctx)
        else:
            node_id = find(ctx.cluster.metadata, ctx.cluster.calls, kind, text, now_ms=ctx.now_ms)
        node = ctx.cluster.nodes.get(node_id)
        if node is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    except KafkaError as error:
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message or "")
    # Kafka leaves the text of a row empty, not null, unless it has something to say.
    host, port = node.endpoint(ctx.connection.listener)
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message="")


def _leader(key: str, ctx: Context) -> int:
    """Who has the state of a share-partition in its log; -1 for nobody."""
    _, topic_id, index = key.rsplit(":", _COLONS)
    partition = ctx.cluster.metadata.leader(uuids.from_text(topic_id), int(index))
    return -1 if partition is None else partition.leader


def _lose(rows: list[Coordinator], ctx: Context) -> None:
    """What 4.0.0 makes of rows about share-partitions: it compares a partition's number with nothing, and finds none.

    Source: KafkaApis.getCoordinator of 4.0.0; a key that is none breaks the request.
    """
    is_wrong = any(row.error_code == ErrorCode.INVALID_REQUEST or row.key.count(":") != _COLONS for row in rows)
    if ctx.api_version >= _SHARE_SINCE and is_wrong:
        text, lost = "the key of a share-partition is wrong", ErrorCode.UNKNOWN_SERVER_ERROR
        rows[:] = [Coordinator(row.key, -1, port=-1, error_code=lost, error_message=text) for row in rows]
    for row in rows:
        if row.error_code == ErrorCode.NONE:
            row.error_code, row.node_id, row.host, row.port = ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1


def _must_find(key_type: int, key: str, ctx: Context) -> None:
    """Pass only for those who may describe the group or the transactional id.

    Raises: GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    if key_type == CoordinatorKind.GROUP:
        must(Operation.DESCRIBE, ResourceType.GROUP, key, ctx)
    elif key_type == CoordinatorKind.TRANSACTION:
        must(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key, ctx)


def _resolve(key_type: int, key: str, ctx: Context) -> tuple[CoordinatorKind, str]:
    """Read the kind and the text that is hashed.

    Raises: INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED.
    """
    try:
        kind = CoordinatorKind(key_type)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key_type} is no type of coordinator") from None
    if kind is not CoordinatorKind.SHARE:
        return kind, key
    if ctx.api_version < _SHARE_SINCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    message = "CLUSTER_ACTION is not allowed."
    must(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message=message)
    return kind, share_key(key)


def share_key(text: str) -> str:
    """The key of a share-partition, "group:topicId:partition", as it is hashed; the group id may have colons in it.

    Neither topic nor partition need exist, and the number may be below zero: only its form is looked at.
    Raises: INVALID_REQUEST, without a message.
    """
    group_id, _, rest = text.rpartition(":")
    group_id, _, topic_id = group_id.rpartition(":")
    try:
        if not group_id.strip() or not re.fullmatch(r"[+-]?[0-9]+", rest) or int(rest) not in _INT32:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return f"{group_id}:{uuids.to_text(uuids.from_text(topic_id))}:{int(rest)}"
    except InvalidValue:
        raise KafkaError(ErrorCode.INVALID_REQUEST) from None


def must_coordinate(group_id: str, ctx: Context) -> None:
    """Pass only on the node that coordinates this group, once it has its records in memory.

    Raises: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    """
    if ctx.cluster.metadata.coordinator_for(CoordinatorKind.GROUP, group_id) != ctx.node.node_id:
        raise KafkaError(ErrorCode.NOT_COORDINATOR, f"node {ctx.node.node_id} does not coordinate group {group_id}")
    ctx.node.group_log.must_be_loaded(group_id)
