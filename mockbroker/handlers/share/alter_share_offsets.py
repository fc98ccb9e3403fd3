"""AlterShareGroupOffsets (91) and DeleteShareGroupOffsets (92), for groups without members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kwire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.share.share_groups import require_share_groups
from mockbroker.handlers.share_coordinator.share_state_deletion import ShareStateDeletion
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.await_replication import after_replication
from mockbroker.handlers.shared.fan_out import FanOut
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.topics import Topic
from mockbroker.state.share.share_group import ShareGroup
from mockbroker.state.share_coordinator.share_coordinator import ShareKey

_UNKNOWN_PARTITION = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")

_READ_DENIED = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "READ of the topic is not allowed.")


def alter_share_group_offsets(request: AlterShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Set the start offsets of share-partitions. A missing group is created; the group epoch does not change.

    Source: share-semantics 6.4; pinned by the conversations share-offsets-alter*.
    """
    _require_share_group_access(AclOperation.READ, request.group_id, ctx)
    requested = [(row, ctx.cluster.metadata.topic(row.topic_name)) for row in _merge_topics(request.topics)]
    # An unknown topic without partitions has no row.
    requested = [(row, topic) for row, topic in requested if row.partitions or topic is not None]
    readable = [(row, topic) for row, topic in requested if _may_read(row.topic_name, ctx)]
    denied = [(row, topic) for row, topic in requested if row.partitions and not _may_read(row.topic_name, ctx)]
    denied_rows = [_denied_topic_row(row, topic) for row, topic in denied]
    starts = {
        ShareKey(request.group_id, topic.topic_id, entry.partition_index): entry.start_offset
        for row, topic in readable
        if topic is not None
        for entry in row.partitions
        if entry.partition_index < len(topic.partitions)
    }
    # The group is created if a topic exists, even without any existing partition.
    rules = ctx.cluster.rules
    creates_group = not rules.offsets.requires_group and any(topic is not None for _, topic in readable)
    group = _find_empty_group(request.group_id, ctx, create=creates_group)
    if group is None and rules.offsets.requires_group:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    if group is None:
        unknown_response = AlterShareGroupOffsetsResponse(
            responses=[_altered_topic_row(row, None, {}) for row, _ in readable] + denied_rows
        )
        return after_replication(request.group_id, ctx, lambda _now: Reply(unknown_response))
    if rules.offsets.alteration_bumps_group_epoch and starts:
        group.bump_group_epoch(now_ms=ctx.now_ms)
    if rules.group_records.lists_partition_counts:
        missing_partitions = group.partition_states.uninitialized_below(_group_by_topic(starts)).items()
        starts |= {
            ShareKey(group.group_id, topic_id, index): -1
            for topic_id, indexes in missing_partitions
            for index in indexes
        }
    initializing = _listed_partitions(request.topics, [topic for _, topic in readable if topic is not None])
    if rules.group_records.lists_partition_counts:
        initializing |= _group_by_topic(starts)
    group.partition_states.start_initializing(initializing, now_ms=ctx.now_ms)
    group.write_records(ctx.now_ms)
    state_epoch = group.group_epoch

    def initialize(now: Context) -> Outcome:
        if any(key.partition < 0 for key in starts):
            # Kafka's persister sends no request; the recorded initialization stays.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the index of a share-partition must not be negative")
        fan_out: FanOut[ShareKey, None] = FanOut(starts, now)
        for key, start in starts.items():
            on_done = fan_out.callback_for(key)
            now.node.persister.initialize_states(
                key, state_epoch=state_epoch, start_offset=start, done=on_done, now_ms=now.now_ms
            )
        return fan_out.reply_when_complete(lambda: respond(fan_out), now)

    def respond(fan_out: FanOut[ShareKey, None]) -> AlterShareGroupOffsetsResponse:
        errors = {key: fan_out.error_for(key) for key in starts}
        if ctx.node.groups.find_group(request.group_id) is not group:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"Group {request.group_id} has another coordinator now.")
        if starts and not any(errors.values()):
            group.partition_states.complete_initializing(_group_by_topic(starts))
            group.write_records(fan_out.answered_at_ms)
        rows = [_altered_topic_row(row, topic, errors) for row, topic in readable]
        return AlterShareGroupOffsetsResponse(responses=rows + denied_rows)

    return after_replication(request.group_id, ctx, initialize)


def _merge_topics(rows: Sequence[AlterShareGroupOffsetsRequestTopic]) -> list[AlterShareGroupOffsetsRequestTopic]:
    """The rows of a topic as one row. Pinned by the conversation share-offsets-double-rows."""
    partitions: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for row in rows:
        partitions.setdefault(row.topic_name, []).extend(row.partitions)
    return [AlterShareGroupOffsetsRequestTopic(name, entries) for name, entries in partitions.items()]


def _listed_partitions(
    rows: Sequence[AlterShareGroupOffsetsRequestTopic], topics: Sequence[Topic]
) -> dict[bytes, frozenset[int]]:
    """The partitions of each topic that are recorded as being initialized: of a topic listed twice, the last row's.

    Pinned by the conversation share-offsets-alter-half.
    """
    by_name = {topic.name: topic for topic in topics}
    listed: dict[bytes, frozenset[int]] = {}
    for row in rows:
        topic = by_name.get(row.topic_name)
        if topic is not None:
            indexes = (entry.partition_index for entry in row.partitions)
            listed[topic.topic_id] = frozenset(index for index in indexes if index < len(topic.partitions))
    return listed


def _require_share_group_access(operation: AclOperation, group_id: str, ctx: Context) -> None:
    """Check the group id, the coordinator, the feature share.version, and the client's permission.

    Raises: UNSUPPORTED_VERSION, GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, each with a message.
    """
    require_share_groups(ctx, "Share groups are disabled: share.version is 0.")
    authorize(
        operation, ResourceType.GROUP, group_id, ctx, message=f"{operation.name} of group {group_id} is not allowed."
    )
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
    require_coordinator(group_id, ctx, has_text=True)


def _may_read(topic_name: str, ctx: Context) -> bool:
    return is_authorized(AclOperation.READ, ResourceType.TOPIC, topic_name, ctx)


def _find_empty_group(group_id: str, ctx: Context, *, create: bool) -> ShareGroup | None:
    """The group if it has no members; None if it does not exist and is not created.

    Raises: GROUP_ID_NOT_FOUND for a group of another type, NON_EMPTY_GROUP.
    """
    if ctx.node.groups.find_group(group_id) is None and not create:
        return None
    group = ctx.node.groups.get_share_group(group_id, create=create)
    if group.members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} is not empty.")
    return group


def _group_by_topic(keys: dict[ShareKey, int]) -> dict[bytes, frozenset[int]]:
    grouped: dict[bytes, set[int]] = {}
    for key in keys:
        grouped.setdefault(key.topic_id, set()).add(key.partition)
    return {topic_id: frozenset(indexes) for topic_id, indexes in grouped.items()}


def _altered_topic_row(
    row: AlterShareGroupOffsetsRequestTopic, topic: Topic | None, errors: dict[ShareKey, KafkaError | None]
) -> AlterShareGroupOffsetsResponseTopic:
    by_partition = {key.partition: error for key, error in errors.items() if topic and key.topic_id == topic.topic_id}
    answered = AlterShareGroupOffsetsResponseTopic(topic_name=row.topic_name, partitions=[])
    if topic is not None:
        answered.topic_id = topic.topic_id
    for entry in row.partitions:
        error = by_partition.get(entry.partition_index, _UNKNOWN_PARTITION)
        answered.partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=entry.partition_index,
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message if error else None,
            )
        )
    return answered


def _denied_topic_row(
    row: AlterShareGroupOffsetsRequestTopic, topic: Topic | None
) -> AlterShareGroupOffsetsResponseTopic:
    """The row of a topic that the client may not read; it contains the topic's id."""
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=row.topic_name,
        topic_id=uuids.ZERO if topic is None else topic.topic_id,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(entry.partition_index, _READ_DENIED.code, _READ_DENIED.message)
            for entry in row.partitions
        ],
    )


def delete_share_group_offsets(request: DeleteShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Delete the state of whole topics; a later subscription initializes them again.

    Source: share-semantics 6.5; pinned by the conversation share-offsets-delete-errors.
    """
    _require_share_group_access(AclOperation.DELETE, request.group_id, ctx)
    try:
        group = _find_empty_group(request.group_id, ctx, create=False)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    except KafkaError as error:
        return after_replication(request.group_id, ctx, partial(_raise_error, error))
    denied_rows = [_denied_deletion_row(row.topic_name) for row in request.topics if not _may_read(row.topic_name, ctx)]
    readable_topics = {
        row.topic_name: ctx.cluster.metadata.topic(row.topic_name)
        for row in request.topics
        if _may_read(row.topic_name, ctx)
    }
    topics = {topic.topic_id for topic in readable_topics.values() if topic is not None}
    states = group.partition_states
    with_state = topics & (states.initialized.keys() | states.deleting)
    counts = Counter(row.topic_name for row in request.topics)
    listed_twice = [topic.topic_id for name, topic in readable_topics.items() if topic is not None and counts[name] > 1]
    deletion = ShareStateDeletion(group, with_state, ctx, keep_group=True, listed_twice=listed_twice)

    def delete(now: Context) -> Outcome:
        fan_out: FanOut[str, dict[bytes, ErrorCode]] = FanOut(("all",), now)
        deletion.delete_states(now, fan_out.callback_for("all"))
        return fan_out.continue_when_complete(partial(answer, fan_out), now)

    def answer(fan_out: FanOut[str, dict[bytes, ErrorCode]], now: Context) -> Outcome:
        errors = fan_out.answers["all"]
        assert isinstance(errors, dict)
        names = [row.topic_name for row in request.topics if row.topic_name in readable_topics]
        # A group that never had any state gets no rows at all, not even for unknown topics.
        rows = _deleted_topic_rows(names, readable_topics, errors) if states.is_recorded else []
        response = DeleteShareGroupOffsetsResponse(responses=rows + denied_rows)
        return after_replication(request.group_id, now, lambda _now: Reply(response))

    return after_replication(request.group_id, ctx, delete)


def _raise_error(error: KafkaError, _ctx: Context) -> Outcome:
    raise error


def _denied_deletion_row(name: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(name, uuids.ZERO, _READ_DENIED.code, _READ_DENIED.message)


def _deleted_topic_rows(
    names: Sequence[str], topics: Mapping[str, Topic | None], errors: dict[bytes, ErrorCode]
) -> list[DeleteShareGroupOffsetsResponseTopic]:
    """A topic without state has a row each time that it is listed, one with state only one.

    Pinned by the conversation share-offsets-double-topics.
    """
    with_state = {name for name, topic in topics.items() if topic is not None and topic.topic_id in errors}
    without_state = [name for name in names if name not in with_state]
    listed = [*(name for name in topics if name in with_state), *without_state]
    return [_deleted_topic_row(name, topics[name], errors) for name in listed]


def _deleted_topic_row(
    name: str, topic: Topic | None, errors: dict[bytes, ErrorCode]
) -> DeleteShareGroupOffsetsResponseTopic:
    if topic is None or topic.topic_id not in errors:
        message = _UNKNOWN_PARTITION.message if topic is None else "There are no offsets of this topic to delete."
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=message
        )
    error = errors[topic.topic_id]
    if error is not ErrorCode.NONE:
        return DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=error, error_message=error.name)
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.topic_id)
