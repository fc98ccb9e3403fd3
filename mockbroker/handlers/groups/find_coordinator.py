"""FindCoordinator (10), and the coordinator check of group requests."""

from __future__ import annotations

import re

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.errors import InvalidValue
from kwire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from mockbroker.coordinators.find_coordinator import lookup_coordinator
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, authorize_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import CoordinatorKind

#: Before this version a request has one key, and the result is at the top level.
_BATCHED_SINCE = 4
#: From this version share coordinators can be requested (KIP-932).
_SHARE_SINCE = 6
#: Colons in the key of a share-partition; 4.0.0 accepts no others, not even in the group id.
_COLONS = 2
_INT32 = range(-(2**31), 2**31)


def find_coordinator(request: FindCoordinatorRequest, ctx: Context) -> Outcome:
    """Return the coordinator of a group, a transactional id or a share-partition.

    Source: share-semantics 7.1; pinned by the conversations other-find-coordinator and share-find-coordinator.
    """
    if ctx.api_version >= _BATCHED_SINCE:
        rows = [_coordinator_row(request.key_type, key, ctx) for key in request.coordinator_keys]
        if not ctx.cluster.rules.state.coordinator_is_discoverable and request.key_type == CoordinatorKind.SHARE:
            _hide_share_coordinators(rows, ctx)
        return Reply(FindCoordinatorResponse(coordinators=rows))
    row = _coordinator_row(request.key_type, request.key, ctx)
    # Kafka returns "NONE" without an error; for errors the code's name is used.
    message = row.error_message or ErrorCode(row.error_code).name
    response = FindCoordinatorResponse(
        error_code=row.error_code, error_message=message, node_id=row.node_id, host=row.host, port=row.port
    )
    return Reply(response)


def refuse_find_coordinator(request: FindCoordinatorRequest, error: KafkaError) -> FindCoordinatorResponse:
    """A response with the error in every row, or at the top for a request with one key."""
    message = error.message or error.code.name
    if not request.coordinator_keys:
        return FindCoordinatorResponse(error_code=error.code, error_message=message, node_id=-1, port=-1)
    rows = [
        Coordinator(key, -1, port=-1, error_code=error.code, error_message=message) for key in request.coordinator_keys
    ]
    return FindCoordinatorResponse(coordinators=rows)


def _coordinator_row(key_type: int, key: str, ctx: Context) -> Coordinator:
    try:
        _require_describe(key_type, key, ctx)
        kind, text = _parse_key(key_type, key, ctx)
        if kind is CoordinatorKind.SHARE and ctx.cluster.rules.state.in_partition_log:
            node_id = _partition_leader(text, ctx)
        else:
            node_id = lookup_coordinator(ctx.cluster.metadata, ctx.cluster.inter_broker, kind, text, now_ms=ctx.now_ms)
        node = ctx.cluster.nodes.get(node_id)
        if node is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    except KafkaError as error:
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message or "")
    # Without an error Kafka's message is empty, not null.
    host, port = node.endpoint(ctx.connection.listener)
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message="")


def _partition_leader(key: str, ctx: Context) -> int:
    """The leader of a share-partition that stores the state in its log; -1 without a leader."""
    _, topic_id, index = key.rsplit(":", _COLONS)
    partition = ctx.cluster.metadata.find_partition(uuids.from_text(topic_id), int(index))
    return -1 if partition is None else partition.leader


def _hide_share_coordinators(rows: list[Coordinator], ctx: Context) -> None:
    """Replace the rows of share-partitions as 4.0.0 does: it finds no coordinator for any of them.

    Source: KafkaApis.getCoordinator of 4.0.0; an invalid key fails the whole request.
    """
    is_wrong = any(row.error_code == ErrorCode.INVALID_REQUEST or row.key.count(":") != _COLONS for row in rows)
    if ctx.api_version >= _SHARE_SINCE and is_wrong:
        text, code = "the key of a share-partition is invalid", ErrorCode.UNKNOWN_SERVER_ERROR
        rows[:] = [Coordinator(row.key, -1, port=-1, error_code=code, error_message=text) for row in rows]
    for row in rows:
        if row.error_code == ErrorCode.NONE:
            row.error_code, row.node_id, row.host, row.port = ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1


def _require_describe(key_type: int, key: str, ctx: Context) -> None:
    """Check the DESCRIBE permission for the group or the transactional id.

    Raises: GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    """
    if key_type == CoordinatorKind.GROUP:
        authorize(AclOperation.DESCRIBE, ResourceType.GROUP, key, ctx)
    elif key_type == CoordinatorKind.TRANSACTION:
        authorize(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key, ctx)


def _parse_key(key_type: int, key: str, ctx: Context) -> tuple[CoordinatorKind, str]:
    """Parse the coordinator type and the text that is hashed.

    Raises: INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED.
    """
    try:
        kind = CoordinatorKind(key_type)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key_type} is not a coordinator type") from None
    if kind is not CoordinatorKind.SHARE:
        return kind, key
    if ctx.api_version < _SHARE_SINCE:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    message = "CLUSTER_ACTION is not allowed."
    authorize_cluster(AclOperation.CLUSTER_ACTION, ctx, message=message)
    return kind, normalize_share_key(key)


def normalize_share_key(text: str) -> str:
    """The key of a share-partition, "group:topicId:partition", as it is hashed; the group id may contain colons.

    Only the format is checked: topic and partition need not exist, and the number may be negative.
    Raises: INVALID_REQUEST, without a message.
    """
    group_id, _, partition = text.rpartition(":")
    group_id, _, topic_id = group_id.rpartition(":")
    try:
        if not group_id.strip() or not re.fullmatch(r"[+-]?[0-9]+", partition) or int(partition) not in _INT32:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return f"{group_id}:{uuids.to_text(uuids.from_text(topic_id))}:{int(partition)}"
    except InvalidValue:
        raise KafkaError(ErrorCode.INVALID_REQUEST) from None


def require_coordinator(group_id: str, ctx: Context, *, has_text: bool = False) -> None:
    """Check that this node coordinates the group and has loaded its records.

    has_text: whether the error has a message; with most APIs Kafka returns none.
    Raises: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
    """
    try:
        partition = ctx.cluster.metadata.find_coordinator_partition(CoordinatorKind.GROUP, group_id)
        if partition.leader != ctx.node.node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        ctx.node.group_log.loading.require_finished(partition.index)
    except KafkaError as error:
        state = "is loading" if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else "does not coordinate"
        text = f"node {ctx.node.node_id} {state} group {group_id}" if has_text else None
        raise KafkaError(error.code, text) from error
