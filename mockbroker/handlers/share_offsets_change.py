"""AlterShareGroupOffsets (91) and DeleteShareGroupOffsets (92): only for groups that nobody is in."""

from __future__ import annotations

from functools import partial

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
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
from mockbroker.context import Context
from mockbroker.handlers.committed import once_committed
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.handlers.gathering import Gathering
from mockbroker.handlers.share_groups import must_have_share_groups
from mockbroker.handlers.share_state_deletion import ShareStateDeletion
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_group import ShareGroup
from mockbroker.state.topics import Topic

_UNKNOWN = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")

_DENIED = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "READ of the topic is not allowed.")


def alter_share_group_offsets(request: AlterShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Have share-partitions begin at other offsets. The group is made if it is not there; its epoch stays.

    Source: share-semantics 6.4; pinned by the conversations share-offsets-alter*.
    """
    _must_be_served(Operation.READ, request.group_id, ctx)
    asked = [(row, ctx.cluster.metadata.topic(row.topic_name)) for row in request.topics]
    known = [(row, topic) for row, topic in asked if _may_read(row.topic_name, ctx)]
    denied_rows = [_not_altered(row, topic) for row, topic in asked if not _may_read(row.topic_name, ctx)]
    starts = {
        ShareKey(request.group_id, topic.topic_id, entry.partition_index): entry.start_offset
        for row, topic in known
        if topic is not None
        for entry in row.partitions
        if entry.partition_index < len(topic.partitions)
    }
    # A topic that exists makes the group, even if none of the partitions does.
    rules = ctx.cluster.rules
    is_made = not rules.offsets_need_group and any(topic is not None for _, topic in known)
    group = _empty_group(request.group_id, ctx, create=is_made)
    if group is None and rules.offsets_need_group:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    if group is None:
        nothing_known = AlterShareGroupOffsetsResponse(
            responses=[_altered(row, None, {}) for row, _ in known] + denied_rows
        )
        return once_committed(request.group_id, ctx, lambda _now: Reply(nothing_known))
    if rules.altering_bumps and starts:
        group.bump(now_ms=ctx.now_ms)
    if rules.fills_prefixes:
        lower = group.states.below(_by_topic(starts)).items()
        starts |= {ShareKey(group.group_id, topic_id, index): -1 for topic_id, indexes in lower for index in indexes}
    nothing = {topic.topic_id: frozenset[int]() for _, topic in known if topic is not None}
    group.states.start({**nothing, **_by_topic(starts)}, now_ms=ctx.now_ms)
    group.write(ctx.now_ms)
    state_epoch = group.group_epoch

    def initialize(now: Context) -> Outcome:
        if any(key.partition < 0 for key in starts):
            # Kafka's persister refuses to ask at all; what has been noted as on its way stays so.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a share-partition has an index of 0 or more")
        gathering: Gathering[ShareKey, None] = Gathering(starts, now)
        for key, start in starts.items():
            note = gathering.note(key)
            now.node.persister.initialize(
                key, state_epoch=state_epoch, start_offset=start, done=note, now_ms=now.now_ms
            )
        return gathering.then(lambda: respond(gathering), now)

    def respond(gathering: Gathering[ShareKey, None]) -> AlterShareGroupOffsetsResponse:
        errors = {key: gathering.error(key) for key in starts}
        if ctx.node.groups.find(request.group_id) is not group:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"Group {request.group_id} has another coordinator now.")
        if starts and not any(errors.values()):
            group.states.succeed(_by_topic(starts))
            group.write(gathering.answered_at_ms)
        rows = [_altered(row, topic, errors) for row, topic in known]
        return AlterShareGroupOffsetsResponse(responses=rows + denied_rows)

    return once_committed(request.group_id, ctx, initialize)


def _must_be_served(operation: Operation, group_id: str, ctx: Context) -> None:
    """Pass only for a group id that can be, on its coordinator, with share groups switched on, who may do this to it.

    Raises: UNSUPPORTED_VERSION, GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, each with a message.
    """
    must_have_share_groups(ctx, "Share groups are switched off: share.version is 0.")
    must(operation, ResourceType.GROUP, group_id, ctx, message=f"{operation.name} of group {group_id} is not allowed.")
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
    must_coordinate(group_id, ctx)


def _may_read(topic_name: str, ctx: Context) -> bool:
    return may(Operation.READ, ResourceType.TOPIC, topic_name, ctx)


def _empty_group(group_id: str, ctx: Context, *, create: bool) -> ShareGroup | None:
    """The group if nobody is in it; None if it is not there and not to be made.

    Raises: GROUP_ID_NOT_FOUND when the name is another type's, NON_EMPTY_GROUP.
    """
    if ctx.node.groups.find(group_id) is None and not create:
        return None
    group = ctx.node.groups.share(group_id, create=create)
    if group.members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} is not empty.")
    return group


def _by_topic(keys: dict[ShareKey, int]) -> dict[bytes, frozenset[int]]:
    grouped: dict[bytes, set[int]] = {}
    for key in keys:
        grouped.setdefault(key.topic_id, set()).add(key.partition)
    return {topic_id: frozenset(indexes) for topic_id, indexes in grouped.items()}


def _altered(
    row: AlterShareGroupOffsetsRequestTopic, topic: Topic | None, errors: dict[ShareKey, KafkaError | None]
) -> AlterShareGroupOffsetsResponseTopic:
    by_partition = {key.partition: error for key, error in errors.items() if topic and key.topic_id == topic.topic_id}
    answered = AlterShareGroupOffsetsResponseTopic(topic_name=row.topic_name, partitions=[])
    if topic is not None:
        answered.topic_id = topic.topic_id
    for entry in row.partitions:
        error = by_partition.get(entry.partition_index, _UNKNOWN)
        answered.partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=entry.partition_index,
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message if error else None,
            )
        )
    return answered


def _not_altered(row: AlterShareGroupOffsetsRequestTopic, topic: Topic | None) -> AlterShareGroupOffsetsResponseTopic:
    """The row of a topic that may not be read; it does tell the topic's id."""
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=row.topic_name,
        topic_id=uuids.ZERO if topic is None else topic.topic_id,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(entry.partition_index, _DENIED.code, _DENIED.message)
            for entry in row.partitions
        ],
    )


def delete_share_group_offsets(request: DeleteShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Forget the state of whole topics; a later subscription begins them anew.

    Source: share-semantics 6.5; pinned by the conversation share-offsets-delete-errors.
    """
    _must_be_served(Operation.DELETE, request.group_id, ctx)
    try:
        group = _empty_group(request.group_id, ctx, create=False)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    except KafkaError as error:
        return once_committed(request.group_id, ctx, partial(_refuse, error))
    denied_rows = [_not_deleted(row.topic_name) for row in request.topics if not _may_read(row.topic_name, ctx)]
    names = {
        row.topic_name: ctx.cluster.metadata.topic(row.topic_name)
        for row in request.topics
        if _may_read(row.topic_name, ctx)
    }
    topics = {topic.topic_id for topic in names.values() if topic is not None}
    states = group.states
    with_state = topics & (states.initialized.keys() | states.deleting)
    deletion = ShareStateDeletion(group, with_state, ctx, keep_group=True)

    def delete(now: Context) -> Outcome:
        gathering: Gathering[str, dict[bytes, ErrorCode]] = Gathering(("all",), now)
        deletion.ask(now, gathering.note("all"))
        return gathering.then_go_on(partial(answer, gathering), now)

    def answer(gathering: Gathering[str, dict[bytes, ErrorCode]], now: Context) -> Outcome:
        errors = gathering.answers["all"]
        assert isinstance(errors, dict)
        # A group that never had any state has no rows at all, not even for unknown topics.
        rows = [_deleted(name, topic, errors) for name, topic in names.items()] if states.is_recorded else []
        response = DeleteShareGroupOffsetsResponse(responses=rows + denied_rows)
        return once_committed(request.group_id, now, lambda _now: Reply(response))

    return once_committed(request.group_id, ctx, delete)


def _refuse(error: KafkaError, _ctx: Context) -> Outcome:
    raise error


def _not_deleted(name: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(name, uuids.ZERO, _DENIED.code, _DENIED.message)


def _deleted(name: str, topic: Topic | None, errors: dict[bytes, ErrorCode]) -> DeleteShareGroupOffsetsResponseTopic:
    if topic is None or topic.topic_id not in errors:
        message = _UNKNOWN.message if topic is None else "There are no offsets of this topic to delete."
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=message
        )
    error = errors[topic.topic_id]
    if error is not ErrorCode.NONE:
        return DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=error, error_message=error.name)
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.topic_id)
