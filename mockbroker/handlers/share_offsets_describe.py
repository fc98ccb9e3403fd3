"""DescribeShareGroupOffsets (90): where the share-partitions of a group begin, and how far behind they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from mockbroker.context import Context
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.handlers.gathering import Gathering
from mockbroker.handlers.share_groups import must_have_share_groups
from mockbroker.kafka_error import KafkaError
from mockbroker.node import Node
from mockbroker.outcome import Outcome
from mockbroker.persisters.default import TRIES_MAX, backoff_ms
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.share_coordinator import ShareKey, Summary
from mockbroker.state.share_group import ShareGroup

_UNINITIALISED = -1

#: What a leader that is gone, or has just lost its leadership, makes of the question for the high watermark.
_ASKED_AGAIN = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_LEADER_OR_FOLLOWER})


class _Asked(NamedTuple):
    """One group's question, as far as it can be asked. topics: name, id and partitions; the zero id is unknown."""

    group_id: str
    topics: list[tuple[str, bytes, tuple[int, ...]]]
    error: KafkaError | None = None
    denied: Sequence[tuple[str, tuple[int, ...]]] = ()

    def keys_asked(self) -> list[ShareKey]:
        """The share-partitions whose state has to be looked up."""
        known = [(topic_id, indexes) for _, topic_id, indexes in self.topics if topic_id != uuids.ZERO]
        return [ShareKey(self.group_id, topic_id, index) for topic_id, indexes in known for index in indexes]


def describe_share_group_offsets(request: DescribeShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Tell start offsets and lags. Whether the group exists is not asked, and what cannot be read is -1, no error.

    Source: share-semantics 6.3; pinned by the conversations share-offsets-describe-forms and share-offsets-*.
    """
    asked = [_asked(group, ctx) for group in request.groups]
    keys = [key for group in asked for key in group.keys_asked()]
    summaries: Gathering[ShareKey, Summary] = Gathering(keys, ctx)
    high_watermarks: Gathering[ShareKey, int] = Gathering(keys, ctx)
    for key in keys:
        ctx.node.persister.summary(key, done=summaries.note(key), now_ms=ctx.now_ms)
        _ask_high_watermark(key, high_watermarks, ctx)

    def respond() -> DescribeShareGroupOffsetsResponse:
        return DescribeShareGroupOffsetsResponse(
            groups=[_described(group, summaries, high_watermarks) for group in asked]
        )

    # Both kinds of answers are needed; the second gathering is looked at once the first is complete.
    return summaries.then_gather(high_watermarks, respond, ctx)


def refuse_describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError
) -> DescribeShareGroupOffsetsResponse:
    """One row with the error for each group that was asked for."""
    return DescribeShareGroupOffsetsResponse(groups=[_refused(group.group_id, error) for group in request.groups])


def _refused(group_id: str, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _asked(group: DescribeShareGroupOffsetsRequestGroup, ctx: Context) -> _Asked:
    try:
        must_have_share_groups(ctx)
        must(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, ctx)
        must_coordinate(group.group_id, ctx)
        if ctx.cluster.rules.offsets_need_group:
            ctx.node.groups.share(group.group_id)
        if group.topics is None:
            return _Asked(group.group_id, _initialized(group.group_id, ctx))
        seen = [row for row in group.topics if _is_shown(row.topic_name, ctx)]
        topics = [(row.topic_name, _topic_id(row.topic_name, ctx), row.partitions) for row in seen]
        denied = [(row.topic_name, row.partitions) for row in group.topics if not _is_shown(row.topic_name, ctx)]
        asked = _Asked(group.group_id, topics, denied=denied)
        if any(not key.group_id or key.partition < 0 for key in asked.keys_asked()):
            # Kafka's persister refuses to ask at all, and the refusal has no number of its own.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no share-partition has this group id and partition")
    except KafkaError as error:
        return _Asked(group.group_id, [], error)
    return asked


def _is_shown(topic_name: str, ctx: Context) -> bool:
    return may(Operation.DESCRIBE, ResourceType.TOPIC, topic_name, ctx)


def _topic_id(name: str, ctx: Context) -> bytes:
    topic = ctx.cluster.metadata.topic(name)
    return topic.topic_id if topic is not None else uuids.ZERO


def _initialized(group_id: str, ctx: Context) -> list[tuple[str, bytes, tuple[int, ...]]]:
    """The initialised partitions of a group, of topics that still exist."""
    group = ctx.node.groups.find(group_id)
    if not isinstance(group, ShareGroup):
        return []
    found = ((ctx.cluster.metadata.topic_by_id(topic_id), rows) for topic_id, rows in group.states.initialized.items())
    shown = [(topic, rows) for topic, rows in found if topic is not None and _is_shown(topic.name, ctx)]
    return [(topic.name, topic.topic_id, tuple(sorted(rows))) for topic, rows in shown]


def _ask_high_watermark(key: ShareKey, into: Gathering[ShareKey, int], ctx: Context) -> None:
    """Ask the leader of a partition for its high watermark, as Kafka's coordinator does by ListOffsets.

    A leader that is dead, or leads no more, is asked for anew, after the persister's pauses (share-semantics 7.6);
    pinned by tests/nodes.
    """
    cluster, note = ctx.cluster, into.note(key)

    def read(leader: Node, _now_ms: int) -> int:
        return leader.logs.get(key.topic_id, key.partition).high_watermark

    def ask(now_ms: int, retries: int) -> None:
        partition = cluster.metadata.leader(key.topic_id, key.partition)
        if partition is None or partition.leader < 0:
            note(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE), now_ms)
            return

        def judge(answer: int | KafkaError, at_ms: int) -> None:
            if isinstance(answer, KafkaError) and answer.code in _ASKED_AGAIN and retries < TRIES_MAX:
                pause_ms = backoff_ms(retries + 1, cluster.rng)
                cluster.calls.later(pause_ms, lambda then_ms: ask(then_ms, retries + 1), now_ms=at_ms)
            else:
                note(answer, at_ms)

        cluster.calls.call(to=partition.leader, handle=read, done=judge, now_ms=now_ms)

    ask(ctx.now_ms, 0)


def _described(
    asked: _Asked, summaries: Gathering[ShareKey, Summary], high_watermarks: Gathering[ShareKey, int]
) -> DescribeShareGroupOffsetsResponseGroup:
    if asked.error is not None:
        return _refused(asked.group_id, asked.error)

    def row(topic_id: bytes, index: int) -> DescribeShareGroupOffsetsResponsePartition:
        if topic_id == uuids.ZERO:
            return _unread(index)
        key = ShareKey(asked.group_id, topic_id, index)
        return _row(index, summaries.answers[key], high_watermarks.answers[key])

    return DescribeShareGroupOffsetsResponseGroup(
        group_id=asked.group_id,
        topics=[
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=topic_id, partitions=[row(topic_id, index) for index in indexes]
            )
            for name, topic_id, indexes in asked.topics
        ]
        + [_denied_row(name, indexes) for name, indexes in asked.denied],
    )


def _denied_row(name: str, indexes: Sequence[int]) -> DescribeShareGroupOffsetsResponseTopic:
    code, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "DESCRIBE of the topic is not allowed."
    rows = [_unread(index) for index in indexes]
    for row in rows:
        row.error_code, row.error_message = code, message
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=uuids.ZERO, partitions=rows)


def _unread(index: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=_UNINITIALISED)


def _row(
    index: int, summary: Summary | KafkaError, high_watermark: int | KafkaError
) -> DescribeShareGroupOffsetsResponsePartition:
    if isinstance(summary, KafkaError):
        return _unread(index)
    row = DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch
    )
    if _UNINITIALISED in (summary.start_offset, summary.delivery_complete_count):
        return row
    if isinstance(high_watermark, KafkaError):
        row.error_code, row.error_message = high_watermark.code, high_watermark.message
        return row
    # The lag may be below zero: an altered start can lie beyond the end.
    row.lag = high_watermark - summary.start_offset - summary.delivery_complete_count
    return row
