"""Fetch (1): records out of the logs of this node, at once or when there are enough of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from mockbroker.context import Context
from mockbroker.handlers.brokers import address, leader_of
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Park, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may
from mockbroker.state.fetch_session import FetchPlan, PartitionKey, Seen, Wanted
from mockbroker.state.log import PartitionLog
from mockbroker.state.metadata import Topic

#: From this version on consumers may read from followers (KIP-392), whether or not anybody told them to.
_FOLLOWERS_SINCE = 11
_IDS_SINCE = 13
_HINTS_SINCE = 16
_READ_UNCOMMITTED = 0
_READ_COMMITTED = 1
_HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _Row(msgspec.Struct):
    """One partition's part of the answer."""

    key: PartitionKey
    topic: Topic | None
    data: PartitionData
    size: int = 0
    urgent: bool = False


def fetch(request: FetchRequest, ctx: Context) -> Outcome:
    """Read from every partition in turn until the bytes are used up; wait when there is too little.

    The session takes its step once, here; reading may be repeated.
    Pinned by the conversations other-fetch-session, other-fetch-long-poll and other-txn-aborted-list.
    """
    if request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        return Reply(_refused(request, ErrorCode.UNKNOWN_SERVER_ERROR))
    by_id = ctx.api_version >= _IDS_SINCE
    asked = [
        Wanted(
            (topic.topic_id if by_id else topic.topic, partition.partition),
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    # Of a partition that comes twice Kafka takes the last wish, at the place of the first.
    wanted = list({one.key: one for one in asked}.values())
    forgotten: list[PartitionKey] = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    plan = ctx.node.fetch_sessions.plan(
        request.session_id, request.session_epoch, wanted, forgotten, by_id=by_id, now_ms=ctx.now_ms
    )
    denied = {one.key for one in plan.wanted if _is_denied(one, request, ctx)}
    deadline_ms = ctx.now_ms + max(request.max_wait_ms, 0)

    def attempt(ctx: Context) -> Outcome:
        rows = _read_all(plan.wanted, denied, request, ctx)
        if ctx.now_ms >= deadline_ms or _is_enough(rows, request, ctx):
            return Reply(_respond(plan, rows, ctx))
        keys = tuple(("log", row.topic.topic_id, row.key[1]) for row in rows if row.topic is not None)
        return Park(deadline_ms, keys, attempt)

    return attempt(ctx)


def _refused(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    """A response that carries an error at the top, and in every row where topics have names."""
    rows = [
        FetchableTopicResponse(topic.topic, partitions=[_failed(one.partition, code) for one in topic.partitions])
        for topic in request.topics
        if topic.topic
    ]
    return FetchResponse(error_code=code, responses=rows)


def _is_enough(rows: Sequence[_Row], request: FetchRequest, ctx: Context) -> bool:
    """Whether to answer now. Unknown topics alone do not hurry, and do not wait either, as in Kafka."""
    found = [row for row in rows if row.topic is not None]
    least = min(request.min_bytes, _bytes_max(request, ctx))
    return not found or any(row.urgent for row in found) or sum(row.size for row in found) >= least


def _bytes_max(request: FetchRequest, ctx: Context) -> int:
    return min(request.max_bytes, ctx.cluster.config.integer("fetch.max.bytes"))


def _read_all(
    plan: Sequence[Wanted], denied: Collection[PartitionKey], request: FetchRequest, ctx: Context
) -> list[_Row]:
    left = _bytes_max(request, ctx)
    committed = request.isolation_level == _READ_COMMITTED
    rows: list[_Row] = []
    min_one = True
    for wanted in plan:
        if wanted.key in denied:
            rows.append(_Row(wanted.key, None, _failed(wanted.key[1], ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
            continue
        row = _read(wanted, min(wanted.max_bytes, left), ctx, committed=committed, min_one=min_one)
        # The first partition that has anything may pass the limits by one batch, so that a consumer gets on.
        min_one = min_one and row.size == 0
        left = max(0, left - row.size)
        rows.append(row)
    return rows


def _is_denied(wanted: Wanted, request: FetchRequest, ctx: Context) -> bool:
    """Whether the client may not read the topic; whoever calls itself a follower needs CLUSTER_ACTION instead."""
    if ctx.cluster.authorizer is None:
        return False
    if max(request.replica_id, request.replica_state.replica_id) >= 0:
        return not may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    name: bytes | str | None = wanted.key[0]
    if isinstance(name, bytes):
        topic = ctx.cluster.metadata.topic_by_id(name)
        name = None if topic is None else topic.name
    return name is not None and not may(Operation.READ, ResourceType.TOPIC, name, ctx)


def _read(wanted: Wanted, max_bytes: int, ctx: Context, *, committed: bool, min_one: bool) -> _Row:
    name, index = wanted.key
    known = ctx.cluster.metadata
    topic = known.topic_by_id(name) if isinstance(name, bytes) else known.topic(name)
    if topic is None or topic.partition(index) is None:
        by_id = isinstance(name, bytes) and topic is None
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _Row(wanted.key, None, _failed(index, code))
    try:
        log = ctx.node.logs.get(
            topic.topic_id,
            index,
            leader_epoch=wanted.leader_epoch,
            of_any_replica=ctx.api_version >= _FOLLOWERS_SINCE,
        )
        diverging = _diverging(log, wanted)
        if diverging is not None:
            data = _data(index, log, committed=committed)
            data.diverging_epoch = diverging
            return _Row(wanted.key, topic, data, urgent=True)
        end = log.last_stable_offset if committed else log.high_watermark
        part = log.read(wanted.offset, max_bytes, min_one=min_one, up_to=end)
    except KafkaError as error:
        failed = _failed(index, error.code)
        failed.aborted_transactions = None
        return _Row(wanted.key, topic, failed, urgent=True)
    data = _data(index, log, committed=committed)
    if part.batches:
        data.records = part.join()
        if committed:
            aborted = log.aborted_transactions(wanted.offset, part.batches[-1].last_offset + 1)
            data.aborted_transactions = [AbortedTransaction(one.producer_id, one.first_offset) for one in aborted]
    return _Row(wanted.key, topic, data, part.size)


def _data(index: int, log: PartitionLog, *, committed: bool) -> PartitionData:
    return PartitionData(
        partition_index=index,
        high_watermark=log.readable_end(log.high_watermark),
        last_stable_offset=log.readable_end(log.last_stable_offset),
        log_start_offset=log.start_offset,
        # Null says that nobody asked for committed records alone.
        aborted_transactions=[] if committed else None,
    )


def _failed(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code, high_watermark=-1)


def _diverging(log: PartitionLog, wanted: Wanted) -> EpochEndOffset | None:
    """Where the log parts from what the fetcher has, when it says which epoch it read last (KIP-595).

    Raises: OFFSET_OUT_OF_RANGE for an epoch that is not known, and for offsets below the log's start.
    """
    if wanted.last_fetched_epoch < 0:
        return None
    end = log.epoch_end(wanted.last_fetched_epoch)
    if end is None or wanted.offset < log.start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end[0] < wanted.last_fetched_epoch or end[1] < wanted.offset:
        return EpochEndOffset(end[0], end[1])
    return None


def _respond(plan: FetchPlan, rows: list[_Row], ctx: Context) -> FetchResponse:
    sessions, by_id = ctx.node.fetch_sessions, ctx.api_version >= _IDS_SINCE
    seen = [_seen(row) for row in rows]
    response = FetchResponse()
    if plan.opens:
        response.session_id = sessions.open(plan.wanted, seen, by_id=by_id, now_ms=ctx.now_ms, chance=ctx.rng)
    elif plan.session is not None:
        response.session_id = plan.session.session_id
        rows = [row for row, changed in zip(rows, plan.session.changed(seen), strict=True) if changed]
    if ctx.api_version >= _HINTS_SINCE:
        _add_hints(response, rows, ctx)
    for row in rows:
        name = row.key[0]
        last = response.responses[-1] if response.responses else None
        # Kafka joins only neighbours of one topic.
        if last is None or name != (last.topic_id if by_id else last.topic):
            last = FetchableTopicResponse(topic_id=name) if isinstance(name, bytes) else FetchableTopicResponse(name)
            response.responses.append(last)
        last.partitions.append(row.data)
    return response


def _seen(row: _Row) -> Seen:
    data = row.data
    diverging = data.diverging_epoch.epoch >= 0
    return Seen(row.key, data.error_code, data.high_watermark, data.log_start_offset, row.size > 0, diverging)


def _add_hints(response: FetchResponse, rows: Sequence[_Row], ctx: Context) -> None:
    """Say who leads instead (KIP-951)."""
    leaders: dict[int, NodeEndpoint] = {}
    for row in rows:
        if row.topic is None or row.data.error_code not in _HINTED:
            continue
        leader = leader_of(row.topic.topic_id, row.key[1], ctx)
        if leader is None:
            continue
        row.data.current_leader = LeaderIdAndEpoch(leader.leader, leader.leader_epoch)
        node = ctx.cluster.nodes.get(leader.leader)
        if node is not None:
            leaders[node.node_id] = NodeEndpoint(node.node_id, *address(node, ctx), node.rack)
    response.node_endpoints = list(leaders.values())
