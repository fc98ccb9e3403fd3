"""Fetch (1): read records from the logs of this node, at once or when there are enough of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

import msgspec

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Park, Reply
from mockbroker.handlers.records.fetch_quota import is_throttled, throttled_response
from mockbroker.handlers.records.fetch_rows import (
    DIVERGING_SINCE,
    HINTS_SINCE,
    IDS_SINCE,
    FetchRow,
    add_hints,
    find_follower_id,
    group_rows,
    summarize_row,
)
from mockbroker.handlers.records.preferred_replica import find_preferred_replica
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, is_authorized, is_authorized_on_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import Topic
from mockbroker.state.storage.aborted_reads import list_aborted_in_read
from mockbroker.state.storage.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchPartitionKey,
    FetchPlan,
)
from mockbroker.state.storage.fetch_session import FetchRequestPartition as PartitionRequest
from mockbroker.state.storage.partition_log import PartitionLog

#: From this version on consumers may read from followers (KIP-392), even unless instructed to.
_FOLLOWERS_SINCE = 11
_READ_COMMITTED = 1
#: The replica id of a future log on the same broker.
_FUTURE_REPLICA = -3
#: Kafka keeps its sessions in shards by their ids, and fails for an id of no shard. Source: Kafka's FetchSessionCache.
_SESSION_SHARDS, _SESSION_SHARD = 8, ((1 << 31) - 1) // 8
_ISOLATION_LEVELS = (0, _READ_COMMITTED)


def fetch(request: FetchRequest, ctx: Context) -> Outcome:
    """Read the partitions in order until the byte limit is reached; wait when there is too little.

    The session is updated once, here; reading may be repeated.
    Pinned by the conversations other-fetch-* and other-txn-aborted-list.
    """
    is_of_session = request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH) or request.session_id != 0
    if is_of_session and not -_SESSION_SHARD < request.session_id < _SESSION_SHARDS * _SESSION_SHARD:
        return Reply(_error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR, ctx))
    try:
        plan = _plan_fetch(request, ctx)
    except KafkaError:
        if is_throttled(None, (), request, ctx):
            return Reply(FetchResponse())  # Kafka's answer to a throttled client does not name the error.
        raise
    denied: Collection[FetchPartitionKey] = ()
    if ctx.cluster.authorizer is not None:
        denied = {partition.key for partition in plan.partitions if _is_forbidden(partition, request, ctx)}
    max_bytes = _find_max_bytes(request, ctx)
    deadline_ms = ctx.now_ms + max(request.max_wait_ms, 0)
    outcome = _DelayedFetch(request, plan, denied, max_bytes, deadline_ms).resume(ctx)
    if ctx.node.replication is not None and find_follower_id(request) >= 0:
        _record_follower([row for row in plan.partitions if row.key not in denied], request, ctx)
    return outcome


class _DelayedFetch(msgspec.Struct):
    """One accepted request. denied: partitions that the client may not read; found: those that have existed since."""

    request: FetchRequest
    plan: FetchPlan
    denied: Collection[FetchPartitionKey]
    max_bytes: int
    deadline_ms: int
    found: set[FetchPartitionKey] = msgspec.field(default_factory=set)

    def resume(self, ctx: Context) -> Outcome:
        """Reply if there are enough bytes or the time is up, else wait."""
        request, found = self.request, self.found
        rows = _read_partitions(self.plan.partitions, self.denied, self.max_bytes, request, ctx)
        for row in rows:
            if row.topic is not None:
                found.add(row.key)
            elif row.key in found:  # The topic was deleted during the wait.
                row.data.aborted_transactions = None
        if request.isolation_level not in _ISOLATION_LEVELS and any(row.topic is not None for row in rows):
            return Reply(_error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR, ctx))
        if ctx.now_ms >= self.deadline_ms or _has_enough_bytes(rows, min(request.min_bytes, self.max_bytes)):
            if ctx.throttle is not None and is_throttled(self.plan, rows, request, ctx):
                return Reply(throttled_response(self.plan, rows, ctx))
            return Reply(_build_response(self.plan, rows, request, ctx))
        keys = tuple(("log", row.topic.topic_id, row.key[1]) for row in rows if row.topic is not None)
        return Park(self.deadline_ms, keys, self.resume)


def _plan_fetch(request: FetchRequest, ctx: Context) -> FetchPlan:
    """Apply the request to its session. Raises: as `FetchSessions.plan_fetch`."""
    if ctx.throttle is not None and find_follower_id(request) >= 0:
        ctx.throttle.exempt()
    by_id = ctx.api_version >= IDS_SINCE

    def find_name(key: FetchPartitionKey) -> str | None:
        if isinstance(key[0], str):
            return key[0]
        topic = ctx.cluster.metadata.topic_by_id(key[0])
        return None if topic is None else topic.name

    forgotten: list[FetchPartitionKey] = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    return ctx.node.fetch_sessions.plan_fetch(
        request.session_id,
        request.session_epoch,
        _list_requested(request, find_name, by_id=by_id),
        forgotten,
        by_id=by_id,
        now_ms=ctx.now_ms,
        find_name=find_name,
    )


def _find_max_bytes(request: FetchRequest, ctx: Context) -> int:
    """The bytes of records that a response may have. More than a client's quota allows would always be throttled."""
    max_bytes = min(request.max_bytes, ctx.node.config.integer("fetch.max.bytes"))
    if ctx.throttle is not None and find_follower_id(request) < 0:
        max_bytes = min(max_bytes, ctx.throttle.fetch_bytes_max())
    return max_bytes


def _list_requested(
    request: FetchRequest, find_name: Callable[[FetchPartitionKey], str | None], *, by_id: bool
) -> list[PartitionRequest]:
    """The partitions of a request; of one that is listed twice the last entry, at the position of the first."""
    requested: dict[FetchPartitionKey, PartitionRequest] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key: FetchPartitionKey = (topic.topic_id if by_id else topic.topic, partition.partition)
            requested[key] = PartitionRequest(
                key,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
                find_name(key),
            )
    return list(requested.values())


def _error_response(request: FetchRequest, code: ErrorCode, ctx: Context) -> FetchResponse:
    """A response with an error at the top level, and in every row where topics have names."""
    response = FetchResponse(error_code=code, session_id=request.session_id, responses=[])
    for topic in request.topics if ctx.api_version < IDS_SINCE else ():
        rows = [_error_row(partition.partition, code) for partition in topic.partitions]
        response.responses.append(FetchableTopicResponse(topic.topic, partitions=rows))
    return response


def _has_enough_bytes(rows: Sequence[FetchRow], least: int) -> bool:
    """Return whether to reply now. Rows of unknown topics neither complete nor delay the response, as in Kafka."""
    total, exists = 0, False
    for row in rows:
        if row.topic is not None:
            if row.is_urgent:
                return True
            exists = True
            total += row.size
    return not exists or total >= least


def _read_partitions(
    plan: Sequence[PartitionRequest],
    denied: Collection[FetchPartitionKey],
    left: int,
    request: FetchRequest,
    ctx: Context,
) -> list[FetchRow]:
    """A row for each partition. left: the bytes of records that the response may have."""
    rows: list[FetchRow] = []
    min_one = True
    for request_partition in plan:
        key = request_partition.key
        if key in denied:
            rows.append(FetchRow(key, None, _error_row(key[1], ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
            continue
        max_bytes = min(request_partition.max_bytes, left)
        row = _read_partition(request_partition, max_bytes, request, ctx, min_one=min_one)
        rows.append(row)
        if row.topic is not None:
            # The first partition with records may exceed the limits by one batch, so that a consumer makes progress.
            min_one = min_one and row.size == 0
            left = max(0, left - row.size)
    if any(row.topic is None for row in rows):
        rows.sort(key=lambda row: _row_rank(row, request))
    return rows


def _row_rank(row: FetchRow, request: FetchRequest) -> int:
    """The place of a row: those of partitions that cannot be read are the last, for consumers after unknown topics."""
    if row.topic is not None:
        return 0
    is_unknown_id = row.data.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    return 1 if is_unknown_id or find_follower_id(request) >= 0 else 2


def _is_forbidden(request_partition: PartitionRequest, request: FetchRequest, ctx: Context) -> bool:
    """Return whether the client may not read the topic; a follower needs CLUSTER_ACTION instead."""
    if find_follower_id(request) >= 0:
        return not is_authorized_on_cluster(AclOperation.CLUSTER_ACTION, ctx)
    name = request_partition.topic_name
    return name is not None and not is_authorized(AclOperation.READ, ResourceType.TOPIC, name, ctx)


def _reads_log_end(request: FetchRequest) -> bool:
    """Return whether the isolation level has no effect: for followers, and for the log of a future replica."""
    return find_follower_id(request) >= 0 or _FUTURE_REPLICA in (request.replica_id, request.replica_state.replica_id)


def _read_partition(
    request_partition: PartitionRequest, max_bytes: int, request: FetchRequest, ctx: Context, *, min_one: bool
) -> FetchRow:
    name, index = request_partition.topic_name, request_partition.key[1]
    if name is None:
        return FetchRow(request_partition.key, None, _error_row(index, ErrorCode.UNKNOWN_TOPIC_ID))
    topic = ctx.cluster.metadata.topic(name)
    if topic is None or topic.partition(index) is None:
        return FetchRow(request_partition.key, None, _error_row(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    epoch = request_partition.leader_epoch if request_partition.leader_epoch > -1 else -1
    committed = request.isolation_level == _READ_COMMITTED and not _reads_log_end(request)
    try:
        ctx.check_partition(topic.topic_id, index)
        log = _find_log(topic, index, epoch, request, ctx)
        if request_partition.key[0] not in (name, topic.topic_id):
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{name} was created again")
        if ctx.node.config.replication.selects_replicas and find_follower_id(request) < 0:
            preferred = find_preferred_replica(topic, index, request_partition.offset, request.rack_id, ctx)
            if preferred is not None:
                data = _partition_data(index, log, committed=committed)
                data.preferred_read_replica, data.aborted_transactions = preferred, None
                return FetchRow(request_partition.key, topic, data, is_urgent=True)
        diverging = _diverging_epoch(log, request_partition)
        if diverging is not None:
            data = _partition_data(index, log, committed=committed)
            data.diverging_epoch = diverging
            data.aborted_transactions = None
            return FetchRow(request_partition.key, topic, data, is_urgent=True)
        end = log.last_stable_offset if committed else log.high_watermark
        if ctx.node.replication is not None and _reads_log_end(request):
            end = log.end_offset
        part = log.read(request_partition.offset, max_bytes, min_one=min_one, up_to=end, partial=True)
    except KafkaError as error:
        failed = _error_row(index, error.code)
        failed.aborted_transactions = None
        return FetchRow(request_partition.key, topic, failed, is_urgent=True)
    data = _partition_data(index, log, committed=committed)
    if part.is_first_cut:
        # The first batch does not fit: without records, and without aborted transactions even for read_committed.
        data.aborted_transactions = None
    elif part.batches:
        data.records = part.join()
        if committed:
            aborted = list_aborted_in_read(log, request_partition.offset, part)
            data.aborted_transactions = [AbortedTransaction(row.producer_id, row.first_offset) for row in aborted]
    return FetchRow(request_partition.key, topic, data, len(data.records or b""))


def _find_log(topic: Topic, index: int, epoch: int, request: FetchRequest, ctx: Context) -> PartitionLog:
    """The log that the request may read; a follower fetches from the leader of a partition that it replicates.

    Raises: as `NodeLogs.find_log`; for another follower UNKNOWN_LEADER_EPOCH, without an epoch NOT_LEADER_OR_FOLLOWER.
    """
    follower_id = find_follower_id(request)
    of_any_replica = ctx.api_version >= _FOLLOWERS_SINCE and follower_id < 0
    log = ctx.node.logs.find_log(topic.topic_id, index, leader_epoch=epoch, of_any_replica=of_any_replica)
    if follower_id >= 0 and (follower_id == ctx.node.node_id or follower_id not in topic.partitions[index].replicas):
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise KafkaError(code, f"node {follower_id} is no follower of {topic.name}-{index}")
    return log


def _record_follower(partitions: Sequence[PartitionRequest], request: FetchRequest, ctx: Context) -> None:
    """Where followers fetch, one that is a client of this cluster moves the high watermark like any other."""
    assert ctx.node.replication is not None
    for row in partitions:
        topic = None if row.topic_name is None else ctx.cluster.metadata.topic(row.topic_name)
        if topic is None or topic.partition(row.key[1]) is None:
            continue
        key = (topic.topic_id, row.key[1])
        with suppress(KafkaError):  # It is in the row of the response.
            log = _find_log(topic, row.key[1], max(row.leader_epoch, -1), request, ctx)
            if _diverging_epoch(log, row) is None and log.start_offset <= row.offset <= log.end_offset:
                follower_id = find_follower_id(request)
                ctx.node.replication.record_fetch(key, follower_id, row.offset, log.start_offset, now_ms=ctx.now_ms)


def _partition_data(index: int, log: PartitionLog, *, committed: bool) -> PartitionData:
    return PartitionData(
        partition_index=index,
        high_watermark=log.visible_end(log.high_watermark),
        last_stable_offset=log.visible_end(log.last_stable_offset),
        log_start_offset=log.start_offset,
        # Null: the request is not read_committed.
        aborted_transactions=[] if committed else None,
    )


def _error_row(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=code, high_watermark=-1)


def _diverging_epoch(log: PartitionLog, request_partition: PartitionRequest) -> EpochEndOffset | None:
    """Where the log diverges from the fetcher's, if the request has the last fetched epoch (KIP-595).

    Raises: OFFSET_OUT_OF_RANGE for an epoch that is not known, and for offsets below the log's start.
    """
    if request_partition.last_fetched_epoch < 0:
        return None
    end = log.end_of_epoch(request_partition.last_fetched_epoch)
    if end is None or request_partition.offset < log.start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end[0] < request_partition.last_fetched_epoch or end[1] < request_partition.offset:
        return EpochEndOffset(end[0], end[1])
    return None


def _build_response(plan: FetchPlan, rows: list[FetchRow], request: FetchRequest, ctx: Context) -> FetchResponse:
    if plan.session is not None and plan.is_superseded:
        return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=plan.session.session_id)
    by_id = ctx.api_version >= IDS_SINCE
    response = FetchResponse()
    if plan.opens_session:
        summaries = [summarize_row(row) for row in rows]
        response.session_id = ctx.node.fetch_sessions.open_session(
            plan.partitions, summaries, by_id=by_id, now_ms=ctx.now_ms, rng=ctx.rng
        )
    elif plan.session is not None:
        response.session_id = plan.session.session_id
        changes = plan.session.select_changed([summarize_row(row) for row in rows])
        rows = [row for row, changed in zip(rows, changes, strict=True) if changed]
    if len(rows) > 1 and any(row.key[0] == uuids.ZERO for row in rows[:-1]):
        # Kafka compares the row after one of the zero id by the topic's name, which is null.
        return _error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR, ctx)
    if ctx.api_version < DIVERGING_SINCE and any(row.data.diverging_epoch.epoch >= 0 for row in rows):
        # A session continued in an older version.
        return _error_response(request, ErrorCode.UNSUPPORTED_VERSION, ctx)
    if ctx.api_version >= HINTS_SINCE:
        add_hints(response, rows, ctx)
    if find_follower_id(request) >= 0:
        response.node_endpoints = []
    response.responses = group_rows(rows, by_id=by_id)
    return response
