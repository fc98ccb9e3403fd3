"""Administration of share-group offsets by the leaders of the share-partitions, as in revision r3 of KIP-932.

A leader handles the partitions that it leads, and refuses the others. First the group's coordinator checks that the
group exists and is empty; then the share coordinator stores the change; then the group's coordinator records it. The
messages are those of the drafts: one group in each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.drafts.r4 import alter_share_group_offsets as alter
from kwire.messages.drafts.r4 import delete_share_group_offsets as delete
from kwire.messages.drafts.r4 import describe_share_group_offsets as describe
from mockbroker.broker.node import Node
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.share.share_groups import require_share_groups
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.fan_out import FanOut
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.group import Assignment
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from mockbroker.state.share.share_group import ShareGroup
from mockbroker.state.share.share_partition import PartitionStatus
from mockbroker.state.share_coordinator.share_coordinator import ShareKey

T = TypeVar("T")
TopicPartition = tuple[str, int]
Errors = dict[TopicPartition, KafkaError | None]
ErrorOfRow = Callable[[str, int], KafkaError | None]
GroupOperation = Callable[[ShareGroup, Node, int], T]
_NO_START = -1


class _OffsetsRequest(NamedTuple):
    """A validated request: the errors of refused rows, and the share partitions of the others."""

    group_id: str
    refused: dict[TopicPartition, KafkaError]
    keys: dict[TopicPartition, ShareKey]


def describe_at_leaders(request: describe.DescribeShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Describe start offsets of share partitions: from the leader's memory, else as stored."""
    valid = _validate_request(request, AclOperation.DESCRIBE, ctx)
    group_calls = _call_coordinator(valid, lambda group, _node, _now_ms: group.group_epoch, ctx)

    def read_starts(now: Context) -> Outcome:
        starts: FanOut[TopicPartition, int] = FanOut(valid.keys, now)
        for partition_name, key in valid.keys.items():
            _read_start(key, starts.callback_for(partition_name), now)

        def respond() -> describe.DescribeShareGroupOffsetsResponse:
            error = group_calls.error_for("group") if valid.keys else None
            errors = _collect_errors(valid, error, {})
            found = {name: _NO_START if error else _start_offset(answer) for name, answer in starts.answers.items()}

            def row(name: str, index: int) -> describe.DescribeShareGroupOffsetsResponsePartition:
                code, message = _error_fields(errors[name, index])
                start = found.get((name, index), _NO_START)
                return describe.DescribeShareGroupOffsetsResponsePartition(index, start, code, message)

            topics = _build_topics(request, describe.DescribeShareGroupOffsetsResponseTopic, row, now)
            return describe.DescribeShareGroupOffsetsResponse(responses=topics)

        return starts.reply_when_complete(respond, now) if valid.keys else Reply(respond())

    return group_calls.continue_when_complete(read_starts, ctx)


def refuse_describe_at_leaders(
    request: describe.DescribeShareGroupOffsetsRequest, error: KafkaError
) -> describe.DescribeShareGroupOffsetsResponse:
    """A row with the error for each requested partition."""

    def row(_name: str, index: int) -> describe.DescribeShareGroupOffsetsResponsePartition:
        return describe.DescribeShareGroupOffsetsResponsePartition(index, _NO_START, error.code, error.message)

    topics = _build_topics(request, describe.DescribeShareGroupOffsetsResponseTopic, row)
    return describe.DescribeShareGroupOffsetsResponse(responses=topics)


def alter_at_leaders(request: alter.AlterShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Alter start offsets of share partitions; the leader drops them from its memory."""
    offsets = {(t.topic_name, row.partition_index): row.start_offset for t in request.topics for row in t.partitions}
    valid = _validate_request(request, AclOperation.READ, ctx)
    altered = _group_by_topic(valid.keys.values())

    def begin(group: ShareGroup, _node: Node, now_ms: int) -> tuple[int, Assignment]:
        _require_empty_group(group)
        lower = group.partition_states.uninitialized_below(altered)
        group.partition_states.start_initializing(_merge_assignments(altered, lower), now_ms=now_ms)
        group.write_records(now_ms)
        return group.group_epoch, lower

    def store(started: tuple[int, Assignment], now: Context) -> FanOut[ShareKey, None]:
        epoch, lower = started
        starts = {key: offsets[partition_name] for partition_name, key in valid.keys.items()}
        starts |= {ShareKey(valid.group_id, tid, at): _NO_START for tid, indexes in lower.items() for at in indexes}
        gathering: FanOut[ShareKey, None] = FanOut(starts, now)
        for key, start in starts.items():
            done = gathering.callback_for(key)
            now.node.persister.initialize_states(
                key, state_epoch=epoch, start_offset=start, done=done, now_ms=now.now_ms
            )
        return gathering

    def end(group: ShareGroup, done: Iterable[ShareKey], failed: Iterable[ShareKey], now_ms: int) -> None:
        group.partition_states.fail_initializing(_group_by_topic(failed))
        group.partition_states.complete_initializing(_group_by_topic(done))
        group.write_records(now_ms)

    def respond(errors: Errors) -> alter.AlterShareGroupOffsetsResponse:
        return _build_alter_response(request, lambda name, index: errors[name, index], ctx)

    return _change_offsets(valid, begin, store, end, respond=respond, ctx=ctx)


def refuse_alter_at_leaders(
    request: alter.AlterShareGroupOffsetsRequest, error: KafkaError
) -> alter.AlterShareGroupOffsetsResponse:
    """A row with the error for each partition of the alteration."""
    return _build_alter_response(request, lambda _name, _index: error)


def _build_alter_response(
    request: alter.AlterShareGroupOffsetsRequest, error_of: ErrorOfRow, ctx: Context | None = None
) -> alter.AlterShareGroupOffsetsResponse:
    def row(name: str, index: int) -> alter.AlterShareGroupOffsetsResponsePartition:
        return alter.AlterShareGroupOffsetsResponsePartition(index, *_error_fields(error_of(name, index)))

    topics = _build_topics(request, alter.AlterShareGroupOffsetsResponseTopic, row, ctx)
    return alter.AlterShareGroupOffsetsResponse(responses=topics)


def delete_at_leaders(request: delete.DeleteShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Delete the state of share partitions. A topic is being deleted until all of its leaders have deleted theirs."""
    valid = _validate_request(request, AclOperation.DELETE, ctx)
    topics = _group_by_topic(valid.keys.values())

    def begin(group: ShareGroup, _node: Node, now_ms: int) -> None:
        _require_empty_group(group)
        group.partition_states.start_deleting_partly(topics.keys(), ctx.cluster.metadata)
        group.write_records(now_ms)

    def store(_started: None, now: Context) -> FanOut[ShareKey, None]:
        keys = list(valid.keys.values())
        gathering: FanOut[ShareKey, None] = FanOut(keys, now)
        for key in keys:
            now.node.persister.delete_states(key, done=gathering.callback_for(key), now_ms=now.now_ms)
        return gathering

    def end(group: ShareGroup, done: Iterable[ShareKey], _failed: Iterable[ShareKey], now_ms: int) -> None:
        group.partition_states.complete_deleting_partly(_group_by_topic(done))
        group.write_records(now_ms)

    def respond(errors: Errors) -> delete.DeleteShareGroupOffsetsResponse:
        return _build_delete_response(request, lambda name, index: errors[name, index], ctx)

    return _change_offsets(valid, begin, store, end, respond=respond, ctx=ctx)


def refuse_delete_at_leaders(
    request: delete.DeleteShareGroupOffsetsRequest, error: KafkaError
) -> delete.DeleteShareGroupOffsetsResponse:
    """A row with the error for each partition of the deletion."""
    return _build_delete_response(request, lambda _name, _index: error)


def _build_delete_response(
    request: delete.DeleteShareGroupOffsetsRequest, error_of: ErrorOfRow, ctx: Context | None = None
) -> delete.DeleteShareGroupOffsetsResponse:
    def row(name: str, index: int) -> delete.DeleteShareGroupOffsetsResponsePartition:
        return delete.DeleteShareGroupOffsetsResponsePartition(index, *_error_fields(error_of(name, index)))

    topics = _build_topics(request, delete.DeleteShareGroupOffsetsResponseTopic, row, ctx)
    return delete.DeleteShareGroupOffsetsResponse(responses=topics)


# Functions of all three requests.


def _partitions_by_topic(request: Any) -> Iterator[tuple[str, list[int]]]:
    """Topic names and partition indexes; in an alteration each index has a row with its start offset."""
    for topic in request.topics:
        yield topic.topic_name, [getattr(row, "partition_index", row) for row in topic.partitions]


def _validate_request(request: Any, operation: AclOperation, ctx: Context) -> _OffsetsRequest:
    """Raises: UNSUPPORTED_VERSION, GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID."""
    require_share_groups(ctx, "Share groups are disabled: share.version is 0.")
    group_id = request.group_id
    message = f"{operation.name} of group {group_id} is not allowed."
    authorize(operation, ResourceType.GROUP, group_id, ctx, message=message)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
    valid = _OffsetsRequest(group_id, {}, {})
    on_topics = AclOperation.DESCRIBE if operation is AclOperation.DESCRIBE else AclOperation.READ
    for name, indexes in _partitions_by_topic(request):
        for index in indexes:
            try:
                valid.keys[name, index] = _find_led_partition(group_id, name, index, on_topics, ctx)
            except KafkaError as error:
                valid.refused[name, index] = error
    return valid


def _find_led_partition(group_id: str, name: str, index: int, operation: AclOperation, ctx: Context) -> ShareKey:
    if not is_authorized(operation, ResourceType.TOPIC, name, ctx):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{operation.name} of the topic is not allowed.")
    topic = ctx.cluster.metadata.topic(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
    if topic.partitions[index].leader != ctx.node.node_id:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another node leads the partition.")
    return ShareKey(group_id, topic.topic_id, index)


def _call_coordinator(valid: _OffsetsRequest, operation: GroupOperation[T], ctx: Context) -> FanOut[str, T]:
    """Run an operation on the group at its coordinator; the result has the key "group"."""
    group_id, cluster = valid.group_id, ctx.cluster
    gathering: FanOut[str, T] = FanOut(("group",) if valid.keys else (), ctx)
    if not valid.keys:
        return gathering

    def handle(node: Node, now_ms: int) -> T:
        if cluster.metadata.coordinator_id(CoordinatorKind.GROUP, group_id) != node.node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"node {node.node_id} does not coordinate group {group_id}")
        node.group_log.require_loaded(group_id)
        return operation(node.groups.get_share_group(group_id), node, now_ms)

    node_id = cluster.metadata.coordinator_id(CoordinatorKind.GROUP, group_id)
    cluster.inter_broker.call(to=node_id, handle=handle, done=gathering.callback_for("group"), now_ms=ctx.now_ms)
    return gathering


def _change_offsets(
    valid: _OffsetsRequest,
    begin: GroupOperation[T],
    store: Callable[[T, Context], FanOut[ShareKey, None]],
    end: Callable[[ShareGroup, Iterable[ShareKey], Iterable[ShareKey], int], None],
    *,
    respond: Callable[[Errors], Any],
    ctx: Context,
) -> Outcome:
    """Start at the group's coordinator, store the change, end at the group's coordinator, and reply."""
    group_calls = _call_coordinator(valid, begin, ctx)

    def store_changes(now: Context) -> Outcome:
        if not valid.keys:
            return Reply(respond(_collect_errors(valid, None, {})))
        started = group_calls.answers["group"]
        if isinstance(started, KafkaError):
            return Reply(respond(_collect_errors(valid, started, {})))
        stored = store(started, now)
        return stored.continue_when_complete(lambda later: finish(stored, later), now)

    def finish(stored: FanOut[ShareKey, None], now: Context) -> Outcome:
        failed = {key: error for key in stored.answers if (error := stored.error_for(key)) is not None}
        done = [key for key in stored.answers if key not in failed]
        for key in done:
            partition = now.node.share_partitions.get(*key)
            if partition is not None:
                now.node.share_partitions.drop_partition(partition)
        ended = _call_coordinator(valid, lambda group, _node, now_ms: end(group, done, failed, now_ms), now)
        return ended.reply_when_complete(lambda: respond(_collect_errors(valid, ended.error_for("group"), failed)), now)

    return group_calls.continue_when_complete(store_changes, ctx)


def _collect_errors(valid: _OffsetsRequest, error: KafkaError | None, failed: Mapping[ShareKey, KafkaError]) -> Errors:
    """The error of each row: its own, else that of its write, else that of the group."""
    found: Errors = {partition_name: failed.get(key, error) for partition_name, key in valid.keys.items()}
    return {**found, **valid.refused}


def _require_empty_group(group: ShareGroup) -> None:
    if group.members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {group.group_id} is not empty.")


def _read_start(key: ShareKey, done: Callable[[Any, int], None], ctx: Context) -> None:
    partition = ctx.node.share_partitions.get(*key)
    if partition is not None and partition.status is PartitionStatus.ACTIVE:
        done(partition.start_offset, ctx.now_ms)
    else:
        ctx.node.persister.read_summary(key, done=done, now_ms=ctx.now_ms)


def _start_offset(answer: Any) -> int:
    """The start offset of a leader's number or a stored summary; -1 if none is stored."""
    if isinstance(answer, KafkaError):
        return _NO_START
    return answer if isinstance(answer, int) else int(answer.start_offset)


def _group_by_topic(keys: Iterable[ShareKey]) -> Assignment:
    grouped: dict[bytes, frozenset[int]] = {}
    for key in keys:
        grouped[key.topic_id] = grouped.get(key.topic_id, frozenset()) | {key.partition}
    return grouped


def _merge_assignments(one: Assignment, other: Assignment) -> Assignment:
    none: frozenset[int] = frozenset()
    return {topic_id: one.get(topic_id, none) | other.get(topic_id, none) for topic_id in {**one, **other}}


def _error_fields(error: KafkaError | None) -> tuple[int, str | None]:
    return (ErrorCode.NONE, None) if error is None else (error.code, error.message)


def _build_topics(
    request: Any, topic_class: Callable[..., T], row: Callable[[str, int], Any], ctx: Context | None = None
) -> list[T]:
    """The topics of a response with a row for each requested partition; without a context they have no ids."""
    topics = []
    for name, indexes in _partitions_by_topic(request):
        topic = None if ctx is None else ctx.cluster.metadata.topic(name)
        topic_id = uuids.ZERO if topic is None else topic.topic_id
        topics.append(topic_class(name, topic_id, [row(name, index) for index in indexes]))
    return topics
