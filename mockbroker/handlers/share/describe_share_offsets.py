"""DescribeShareGroupOffsets (90): start offsets and lags of the share-partitions of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kwire.records.varint import wrap_int64
from mockbroker.broker.node import Node
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.share.share_groups import require_share_groups
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.fan_out import FanOut
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.default import TRIES_MAX, backoff_ms
from mockbroker.state.share.share_group import ShareGroup
from mockbroker.state.share_coordinator.share_coordinator import ShareKey, StateSummary

_UNINITIALIZED = -1


class _GroupRequest(NamedTuple):
    """The valid part of a group's request. topics: name, id and partitions; the zero id is unknown."""

    group_id: str
    topics: list[tuple[str, bytes, tuple[int, ...]]]
    error: KafkaError | None = None
    denied: Sequence[tuple[str, tuple[int, ...]]] = ()

    def share_keys(self) -> list[ShareKey]:
        """The share-partitions whose state is requested."""
        existing = [(topic_id, indexes) for _, topic_id, indexes in self.topics if topic_id != uuids.ZERO]
        return [ShareKey(self.group_id, topic_id, index) for topic_id, indexes in existing for index in indexes]


def describe_share_group_offsets(request: DescribeShareGroupOffsetsRequest, ctx: Context) -> Outcome:
    """Return start offsets and lags. A missing group is no error, and unreadable values are -1.

    Source: share-semantics 6.3; pinned by the conversations share-offsets-describe-forms and share-offsets-*.
    """
    group_requests = [_parse_group(group, ctx) for group in request.groups]
    keys = [key for group in group_requests for key in group.share_keys()]
    summaries: FanOut[ShareKey, StateSummary] = FanOut(keys, ctx)
    for key in keys:
        ctx.node.persister.read_summary(key, done=summaries.callback_for(key), now_ms=ctx.now_ms)

    def read_high_watermarks(now: Context) -> Outcome:
        """Only when the stored state is there; until then a dead node may have lost its leaderships."""
        read = [key for key, summary in summaries.successes() if _has_lag(summary)]
        high_watermarks: FanOut[ShareKey, int] = FanOut(read, now)
        for key in read:
            _request_high_watermark(key, high_watermarks, now)
        return high_watermarks.reply_when_complete(lambda: respond(high_watermarks), now)

    def respond(high_watermarks: FanOut[ShareKey, int]) -> DescribeShareGroupOffsetsResponse:
        return DescribeShareGroupOffsetsResponse(
            groups=[_describe_group(group, summaries, high_watermarks) for group in group_requests]
        )

    return summaries.continue_when_complete(read_high_watermarks, ctx)


def refuse_describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, error: KafkaError
) -> DescribeShareGroupOffsetsResponse:
    """One row with the error for each requested group."""
    return DescribeShareGroupOffsetsResponse(
        groups=[_error_group_row(group.group_id, error) for group in request.groups]
    )


def _error_group_row(group_id: str, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=error.code, error_message=error.message)


def _parse_group(group: DescribeShareGroupOffsetsRequestGroup, ctx: Context) -> _GroupRequest:
    try:
        require_share_groups(ctx)
        authorize(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id, ctx)
        require_coordinator(group.group_id, ctx, has_text=True)
        if ctx.cluster.rules.offsets.requires_group:
            ctx.node.groups.get_share_group(group.group_id)
        if group.topics is None:
            return _GroupRequest(group.group_id, _initialized_partitions(group.group_id, ctx))
        readable = [row for row in group.topics if _may_describe(row.topic_name, ctx)]
        topics = _merge_topics(readable, ctx)
        denied = [(row.topic_name, row.partitions) for row in group.topics if not _may_describe(row.topic_name, ctx)]
        group_request = _GroupRequest(group.group_id, topics, denied=denied)
        is_empty = any(not row.partitions and _topic_id(row.topic_name, ctx) != uuids.ZERO for row in readable)
        if is_empty or any(not key.group_id or key.partition < 0 for key in group_request.share_keys()):
            # Kafka's persister sends no request, and its exception has no error code of its own.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no share-partition has this group id and partition")
    except KafkaError as error:
        return _GroupRequest(group.group_id, [], error)
    return group_request


def _merge_topics(
    rows: Sequence[DescribeShareGroupOffsetsRequestTopic], ctx: Context
) -> list[tuple[str, bytes, tuple[int, ...]]]:
    """Name, id and partitions of the topics; rows of an existing topic become one.

    Pinned by the conversation share-offsets-double-rows.
    """
    merged: list[tuple[str, bytes, tuple[int, ...]]] = []
    existing: dict[bytes, dict[int, None]] = {}
    names: dict[bytes, str] = {}
    for row in rows:
        topic_id = _topic_id(row.topic_name, ctx)
        if topic_id == uuids.ZERO:
            merged.append((row.topic_name, topic_id, row.partitions))
            continue
        existing.setdefault(topic_id, {}).update(dict.fromkeys(row.partitions))
        names[topic_id] = row.topic_name
    return [*((names[topic_id], topic_id, tuple(indexes)) for topic_id, indexes in existing.items()), *merged]


def _may_describe(topic_name: str, ctx: Context) -> bool:
    return is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, topic_name, ctx)


def _topic_id(name: str, ctx: Context) -> bytes:
    topic = ctx.cluster.metadata.topic(name)
    return topic.topic_id if topic is not None else uuids.ZERO


def _initialized_partitions(group_id: str, ctx: Context) -> list[tuple[str, bytes, tuple[int, ...]]]:
    """The initialised partitions of a group, of topics that exist."""
    group = ctx.node.groups.find_group(group_id)
    if not isinstance(group, ShareGroup):
        return []
    topics = (
        (ctx.cluster.metadata.topic_by_id(topic_id), rows)
        for topic_id, rows in group.partition_states.initialized.items()
    )
    shown = [(topic, rows) for topic, rows in topics if topic is not None and _may_describe(topic.name, ctx)]
    return [(topic.name, topic.topic_id, tuple(sorted(rows))) for topic, rows in shown]


def _request_high_watermark(key: ShareKey, fan_out: FanOut[ShareKey, int], ctx: Context) -> None:
    """Request the high watermark from the leader of a partition, as Kafka's coordinator does with ListOffsets.

    While that node is down, the request to it is retried with the persister's backoff (share-semantics 7.6), even when
    another one leads meanwhile; pinned by tests/nodes.
    """
    cluster, on_done = ctx.cluster, fan_out.callback_for(key)
    partition = cluster.metadata.find_partition(key.topic_id, key.partition)
    if partition is None or partition.leader < 0:
        on_done(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE), ctx.now_ms)
        return
    node_id = partition.leader

    def read(leader: Node, _now_ms: int) -> int:
        return leader.logs.find_log(key.topic_id, key.partition).high_watermark

    def ask(now_ms: int, retries: int) -> None:
        def judge(answer: int | KafkaError, at_ms: int) -> None:
            is_down = isinstance(answer, KafkaError) and answer.code == ErrorCode.NETWORK_EXCEPTION
            if is_down and retries < TRIES_MAX:
                pause_ms = backoff_ms(retries + 1, cluster.rng)
                cluster.inter_broker.schedule(pause_ms, lambda then_ms: ask(then_ms, retries + 1), now_ms=at_ms)
            else:
                on_done(answer, at_ms)

        cluster.inter_broker.call(to=node_id, handle=read, done=judge, now_ms=now_ms)

    ask(ctx.now_ms, 0)


def _describe_group(
    group_request: _GroupRequest, summaries: FanOut[ShareKey, StateSummary], high_watermarks: FanOut[ShareKey, int]
) -> DescribeShareGroupOffsetsResponseGroup:
    if group_request.error is not None:
        return _error_group_row(group_request.group_id, group_request.error)

    def row(topic_id: bytes, index: int) -> DescribeShareGroupOffsetsResponsePartition:
        if topic_id == uuids.ZERO:
            return _unread_row(index)
        key = ShareKey(group_request.group_id, topic_id, index)
        return _partition_row(index, summaries.answers[key], high_watermarks.answers.get(key))

    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_request.group_id,
        topics=[
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=topic_id, partitions=[row(topic_id, index) for index in indexes]
            )
            for name, topic_id, indexes in group_request.topics
        ]
        + [_denied_topic_row(name, indexes) for name, indexes in group_request.denied],
    )


def _denied_topic_row(name: str, indexes: Sequence[int]) -> DescribeShareGroupOffsetsResponseTopic:
    code, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "DESCRIBE of the topic is not allowed."
    rows = [_unread_row(index) for index in indexes]
    for row in rows:
        row.error_code, row.error_message = code, message
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=uuids.ZERO, partitions=rows)


def _unread_row(index: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=_UNINITIALIZED)


def _has_lag(summary: StateSummary) -> bool:
    return _UNINITIALIZED not in (summary.start_offset, summary.delivery_complete_count)


def _partition_row(
    index: int, summary: StateSummary | KafkaError, high_watermark: int | KafkaError | None
) -> DescribeShareGroupOffsetsResponsePartition:
    if isinstance(summary, KafkaError):
        return _unread_row(index)
    row = DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch
    )
    if high_watermark is None:
        return row
    if isinstance(high_watermark, KafkaError):
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, error_code=high_watermark.code, error_message=high_watermark.message
        )
    # The lag may be negative: an altered start can be beyond the end. It wraps around at 64 bits, as in Java.
    row.lag = wrap_int64(high_watermark - summary.start_offset - summary.delivery_complete_count)
    return row
