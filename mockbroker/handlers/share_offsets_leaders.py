"""The administration of share groups' offsets by the leaders of their share-partitions, as page 003 of KIP-932 has it.

A leader answers for the partitions that it leads, and refuses the others. It asks the group's coordinator first,
whether there is such a group and nobody is in it; then it has the share coordinator store the change; then it lets the
group's coordinator know. The messages are those of the drafts: each group has a request of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.drafts.r4.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kwire.messages.drafts.r4.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponsePartition,
    DeleteShareGroupOffsetsResponseTopic,
)
from kwire.messages.drafts.r4.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from mockbroker.context import Context
from mockbroker.handlers.gathering import Gathering
from mockbroker.handlers.share_groups import must_have_share_groups
from mockbroker.kafka_error import KafkaError
from mockbroker.node import Node
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.group_kinds import Assignment
from mockbroker.state.metadata import CoordinatorKind
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_group import ShareGroup
from mockbroker.state.share_partition import Status

T = TypeVar("T")
Place = tuple[str, int]
Errors = dict[Place, KafkaError | None]
_UNDECIDED = -1


class _Asked(NamedTuple):
    """What a request is about: rows with what stands against them, and the share-partitions of the others."""

    group_id: str
    refused: dict[Place, KafkaError]
    keys: dict[Place, ShareKey]

    def by_topic(self, places: Iterable[Place]) -> Assignment:
        """The partitions of these places by their topics' ids."""
        grouped: dict[bytes, frozenset[int]] = {}
        for place in places:
            key = self.keys[place]
            grouped[key.topic_id] = grouped.get(key.topic_id, frozenset()) | {key.partition}
        return grouped


def describe_at_leaders(request: DescribeShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Tell where share-partitions begin: as the leader has it in memory, else as it is stored."""
    asked = _asked(request.group_id, ((t.topic_name, t.partitions) for t in request.topics), Operation.DESCRIBE, ctx)
    begun = _ask_coordinator(asked, lambda group, _node, _now_ms: group.group_epoch, ctx)

    def tell(now: Context) -> Outcome:
        starts: Gathering[Place, int] = Gathering(asked.keys, now)
        for place, key in asked.keys.items():
            _ask_start(key, starts.note(place), now)

        def respond() -> DescribeShareGroupOffsetsResponse:
            error = begun.error("group") if asked.keys else None
            errors = _errors(asked, error, {})
            found = {place: _UNDECIDED if error else _start_of(answer) for place, answer in starts.answers.items()}
            return _described(request, errors, found, now)

        return starts.then(respond, now) if asked.keys else Reply(respond())

    return begun.then_go_on(tell, ctx)


def refuse_describe_at_leaders(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError
) -> DescribeShareGroupOffsetsResponse:
    """A row with the error for each partition that was asked for."""
    rows = [
        DescribeShareGroupOffsetsResponseTopic(
            topic.topic_name,
            partitions=[
                DescribeShareGroupOffsetsResponsePartition(index, _UNDECIDED, error.code, error.message)
                for index in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DescribeShareGroupOffsetsResponse(responses=rows)


def alter_at_leaders(request: AlterShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Have share-partitions begin elsewhere; the leader forgets what it had of them in memory."""
    offsets = {(t.topic_name, row.partition_index): row.start_offset for t in request.topics for row in t.partitions}
    rows = ((t.topic_name, [row.partition_index for row in t.partitions]) for t in request.topics)
    asked = _asked(request.group_id, rows, Operation.READ, ctx)
    altered = asked.by_topic(asked.keys)

    def begin(group: ShareGroup, _node: Node, now_ms: int) -> tuple[int, Assignment]:
        _must_be_empty(group)
        lower = group.states.below(altered)
        group.states.start(_union(altered, lower), now_ms=now_ms)
        group.write(now_ms)
        return group.group_epoch, lower

    def store(standing: tuple[int, Assignment], now: Context) -> Gathering[ShareKey, None]:
        epoch, lower = standing
        starts = {key: offsets[place] for place, key in asked.keys.items()}
        starts |= {ShareKey(asked.group_id, tid, at): _UNDECIDED for tid, indexes in lower.items() for at in indexes}
        gathering: Gathering[ShareKey, None] = Gathering(starts, now)
        for key, start in starts.items():
            done = gathering.note(key)
            now.node.persister.initialize(key, state_epoch=epoch, start_offset=start, done=done, now_ms=now.now_ms)
        return gathering

    def end(group: ShareGroup, done: Iterable[ShareKey], failed: Iterable[ShareKey], now_ms: int) -> None:
        group.states.fail(_by_topic(failed))
        group.states.succeed(_by_topic(done))
        group.write(now_ms)

    return _change(asked, begin, store, end, respond=lambda errors: _altered(request, errors, ctx), ctx=ctx)


def refuse_alter_at_leaders(
    request: AlterShareGroupOffsetsRequest, error: KafkaError
) -> AlterShareGroupOffsetsResponse:
    """A row with the error for each partition that was to be altered."""
    rows = [
        AlterShareGroupOffsetsResponseTopic(
            topic.topic_name,
            partitions=[
                AlterShareGroupOffsetsResponsePartition(row.partition_index, error.code, error.message)
                for row in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterShareGroupOffsetsResponse(responses=rows)


def delete_at_leaders(request: DeleteShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Forget the state of share-partitions. A topic is on its way out until the last of its leaders has been asked."""
    rows = ((t.topic_name, t.partitions) for t in request.topics)
    asked = _asked(request.group_id, rows, Operation.DELETE, ctx)
    topics = asked.by_topic(asked.keys)

    def begin(group: ShareGroup, _node: Node, now_ms: int) -> None:
        _must_be_empty(group)
        group.states.start_deleting_in_parts(topics.keys(), ctx.cluster.metadata)
        group.write(now_ms)

    def store(_standing: None, now: Context) -> Gathering[ShareKey, None]:
        keys = list(asked.keys.values())
        gathering: Gathering[ShareKey, None] = Gathering(keys, now)
        for key in keys:
            now.node.persister.delete(key, done=gathering.note(key), now_ms=now.now_ms)
        return gathering

    def end(group: ShareGroup, done: Iterable[ShareKey], _failed: Iterable[ShareKey], now_ms: int) -> None:
        group.states.deleted_in_part(_by_topic(done))
        group.write(now_ms)

    return _change(asked, begin, store, end, respond=lambda errors: _deleted(request, errors, ctx), ctx=ctx)


def refuse_delete_at_leaders(
    request: DeleteShareGroupOffsetsRequest, error: KafkaError
) -> DeleteShareGroupOffsetsResponse:
    """A row with the error for each partition that was to be deleted."""
    rows = [
        DeleteShareGroupOffsetsResponseTopic(
            topic.topic_name,
            partitions=[
                DeleteShareGroupOffsetsResponsePartition(index, error.code, error.message) for index in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DeleteShareGroupOffsetsResponse(responses=rows)


# What the three have in common.


def _asked(group_id: str, rows: Iterable[tuple[str, Iterable[int]]], operation: Operation, ctx: Context) -> _Asked:
    """Raises: UNSUPPORTED_VERSION, GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID."""
    must_have_share_groups(ctx, "Share groups are switched off: share.version is 0.")
    must(operation, ResourceType.GROUP, group_id, ctx, message=f"{operation.name} of group {group_id} is not allowed.")
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
    asked = _Asked(group_id, {}, {})
    on_topics = Operation.DESCRIBE if operation is Operation.DESCRIBE else Operation.READ
    for name, indexes in rows:
        for index in indexes:
            try:
                asked.keys[name, index] = _led_here(group_id, name, index, on_topics, ctx)
            except KafkaError as error:
                asked.refused[name, index] = error
    return asked


def _led_here(group_id: str, name: str, index: int, operation: Operation, ctx: Context) -> ShareKey:
    if not may(operation, ResourceType.TOPIC, name, ctx):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{operation.name} of the topic is not allowed.")
    topic = ctx.cluster.metadata.topic(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
    if topic.partitions[index].leader != ctx.node.node_id:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another node leads the partition.")
    return ShareKey(group_id, topic.topic_id, index)


def _ask_coordinator(asked: _Asked, operation: Callable[[ShareGroup, Node, int], T], ctx: Context) -> Gathering[str, T]:
    """Have something done to the group on its coordinator; the answer is that of "group"."""
    group_id, cluster = asked.group_id, ctx.cluster
    gathering: Gathering[str, T] = Gathering(("group",) if asked.keys else (), ctx)
    if not asked.keys:
        return gathering

    def handle(node: Node, now_ms: int) -> T:
        if cluster.metadata.coordinator_for(CoordinatorKind.GROUP, group_id) != node.node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"node {node.node_id} does not coordinate group {group_id}")
        node.group_log.must_be_loaded(group_id)
        return operation(node.groups.share(group_id), node, now_ms)

    place = cluster.metadata.coordinator_for(CoordinatorKind.GROUP, group_id)
    cluster.calls.call(to=place, handle=handle, done=gathering.note("group"), now_ms=ctx.now_ms)
    return gathering


def _change(
    asked: _Asked,
    begin: Callable[[ShareGroup, Node, int], T],
    store: Callable[[T, Context], Gathering[ShareKey, None]],
    end: Callable[[ShareGroup, Iterable[ShareKey], Iterable[ShareKey], int], None],
    *,
    respond: Callable[[Errors], Any],
    ctx: Context,
) -> Outcome:
    """Begin at the group's coordinator, have the change stored, end at the group's coordinator, and answer."""
    begun = _ask_coordinator(asked, begin, ctx)

    def go_on(now: Context) -> Outcome:
        if not asked.keys:
            return Reply(respond(_errors(asked, None, {})))
        standing = begun.answers["group"]
        if isinstance(standing, KafkaError):
            return Reply(respond(_errors(asked, standing, {})))
        stored = store(standing, now)
        return stored.then_go_on(lambda later: finish(stored, later), now)

    def finish(stored: Gathering[ShareKey, None], now: Context) -> Outcome:
        failed = {key: error for key in stored.answers if (error := stored.error(key)) is not None}
        done = [key for key in stored.answers if key not in failed]
        for key in done:
            partition = now.node.share_partitions.get(*key)
            if partition is not None:
                now.node.share_partitions.drop(partition)
        ended = _ask_coordinator(asked, lambda group, _node, now_ms: end(group, done, failed, now_ms), now)
        return ended.then(lambda: respond(_errors(asked, ended.error("group"), failed)), now)

    return begun.then_go_on(go_on, ctx)


def _errors(asked: _Asked, error: KafkaError | None, failed: Mapping[ShareKey, KafkaError]) -> Errors:
    """What there is to say of each row: its own refusal, else that of its store, else that of the group."""
    found: Errors = {place: failed.get(key, error) for place, key in asked.keys.items()}
    return {**found, **asked.refused}


def _must_be_empty(group: ShareGroup) -> None:
    if group.members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {group.group_id} is not empty.")


def _ask_start(key: ShareKey, done: Callable[[Any, int], None], ctx: Context) -> None:
    partition = ctx.node.share_partitions.get(*key)
    if partition is not None and partition.status is Status.ACTIVE:
        done(partition.start_offset, ctx.now_ms)
    else:
        ctx.node.persister.summary(key, done=done, now_ms=ctx.now_ms)


def _start_of(answer: Any) -> int:
    """A number of the leader's own, or a stored summary; what is not stored has no start."""
    if isinstance(answer, KafkaError):
        return _UNDECIDED
    return answer if isinstance(answer, int) else int(answer.start_offset)


def _by_topic(keys: Iterable[ShareKey]) -> Assignment:
    grouped: dict[bytes, frozenset[int]] = {}
    for key in keys:
        grouped[key.topic_id] = grouped.get(key.topic_id, frozenset()) | {key.partition}
    return grouped


def _union(one: Assignment, other: Assignment) -> Assignment:
    none: frozenset[int] = frozenset()
    return {topic_id: one.get(topic_id, none) | other.get(topic_id, none) for topic_id in {**one, **other}}


def _topic_id(name: str, ctx: Context) -> bytes:
    topic = ctx.cluster.metadata.topic(name)
    return uuids.ZERO if topic is None else topic.topic_id


def _code(error: KafkaError | None) -> tuple[int, str | None]:
    return (ErrorCode.NONE, None) if error is None else (error.code, error.message)


def _described(
    request: DescribeShareGroupOffsetsRequest, errors: Errors, starts: Mapping[Place, int], ctx: Context
) -> DescribeShareGroupOffsetsResponse:
    def row(name: str, index: int) -> DescribeShareGroupOffsetsResponsePartition:
        start = starts.get((name, index), _UNDECIDED)
        return DescribeShareGroupOffsetsResponsePartition(index, start, *_code(errors[name, index]))

    return DescribeShareGroupOffsetsResponse(
        responses=[
            DescribeShareGroupOffsetsResponseTopic(
                topic.topic_name,
                _topic_id(topic.topic_name, ctx),
                [row(topic.topic_name, index) for index in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _altered(request: AlterShareGroupOffsetsRequest, errors: Errors, ctx: Context) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        responses=[
            AlterShareGroupOffsetsResponseTopic(
                topic.topic_name,
                _topic_id(topic.topic_name, ctx),
                [
                    AlterShareGroupOffsetsResponsePartition(
                        row.partition_index, *_code(errors[topic.topic_name, row.partition_index])
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _deleted(request: DeleteShareGroupOffsetsRequest, errors: Errors, ctx: Context) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        responses=[
            DeleteShareGroupOffsetsResponseTopic(
                topic.topic_name,
                _topic_id(topic.topic_name, ctx),
                [
                    DeleteShareGroupOffsetsResponsePartition(index, *_code(errors[topic.topic_name, index]))
                    for index in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
