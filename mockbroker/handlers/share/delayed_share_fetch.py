"""Delayed ShareFetch: a request waits for records and writes, then reads, acquires and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from mockbroker.cluster_services.cluster_services import WakeKey
from mockbroker.engine.outcome import Outcome, Park, Reply
from mockbroker.handlers.share.acknowledge_partitions import PendingAcknowledgements
from mockbroker.handlers.share.share_leader import drop_if_fenced, end_session, get_partition
from mockbroker.handlers.share.share_reads import (
    Isolation,
    PartitionRead,
    has_min_bytes,
    join_acquired,
    make_log_reader,
    read_partitions,
    split_max_bytes,
)
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, is_authorized
from mockbroker.handlers.shared.leader_hints import LEADER_ERRORS, LeaderHints
from mockbroker.handlers.shared.response_size import measure_response
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.acquisition import AcquiredRun, AcquireMode, acquire_committed_records, acquire_records
from mockbroker.state.share.share_partition import PartitionStatus, SharePartition
from mockbroker.state.share.share_partitions import wake_key
from mockbroker.state.share.share_session import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey, ShareSession, next_epoch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mockbroker.engine.context import Context
    from mockbroker.engine.request_throttle import RequestThrottle

#: How long a response waits for writes before a repeated check: longer than the persister retries.
_WRITE_TIMEOUT_MS = 300_000
_ACQUIRE_MODES = {int(mode): mode for mode in AcquireMode}
_ISOLATIONS = {isolation.value: isolation for isolation in Isolation}


class DelayedShareFetch(msgspec.Struct):
    """One accepted request. `rows` is None until the fetch is over; the response waits for the writes as well."""

    request: ShareFetchRequest
    session: ShareSession
    acknowledgements: PendingAcknowledgements
    deadline_ms: int
    partitions: dict[PartitionKey, SharePartition] = msgspec.field(default_factory=dict)
    errors: dict[PartitionKey, ErrorCode] = msgspec.field(default_factory=dict)
    limits: dict[PartitionKey, int] = msgspec.field(default_factory=dict)
    rows: dict[PartitionKey, PartitionData] | None = None
    has_looked: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED

    def skip_fetch(self) -> None:
        """The request only acknowledges: it closes its session, or renews locks."""
        self.rows = {}

    def start(self, ctx: Context) -> None:
        """Find the session's share partitions, in their order for this epoch (share-semantics 1.7 and 4.4)."""
        request = self.request
        # The group's present level: a change does not affect a waiting fetch.
        level = ctx.node.group_config(self.acknowledgements.group_id)["share.isolation.level"]
        self.isolation = _ISOLATIONS[str(level).lower()]
        readable = []
        for key, entry in self.session.partitions.items():
            if entry.topic_name is None:
                self.errors[key] = ErrorCode.UNKNOWN_TOPIC_ID
            elif not is_authorized(AclOperation.READ, ResourceType.TOPIC, entry.topic_name, ctx):
                self.errors[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif ctx.cluster.metadata.find_partition(*key) is None:
                self.errors[key] = _missing_partition_error(key, entry.topic_name, ctx)
            else:
                readable.append(key)
        if readable and request.share_acquire_mode not in _ACQUIRE_MODES:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        rules = ctx.cluster.rules
        if rules.fetch.has_partition_max_bytes:
            self.limits = {key: self.session.partitions[key].max_bytes for key in readable}
        fetches_nothing = request.max_records == 0 or (
            request.max_bytes == 0 and not rules.fetch.has_partition_max_bytes
        )
        if not readable or fetches_nothing:
            self._complete({})
            return
        if len(readable) > 1 and request.share_session_epoch >= 1 and rules.fetch.rotates_partitions:
            rotation = request.share_session_epoch % len(readable)
            readable = readable[rotation:] + readable[:rotation]
        for key in readable:
            try:
                ctx.check_partition(*key)
                self.partitions[key] = get_partition(ctx, self.acknowledgements.group_id, *key)
            except KafkaError as error:
                self.errors[key] = error.code
        if not self.partitions:
            self._complete({})

    def resume(self, ctx: Context) -> Outcome:
        """Fetch if there are enough records or the time is up, reply if the writes are done too, else wait."""
        if self.rows is None:
            self._try_fetch(ctx)
        if self.rows is None:
            keys: list[WakeKey] = []
            for key in self.partitions:
                keys += (wake_key(self.acknowledgements.group_id, *key), ("log", *key))
            return Park(self.deadline_ms, tuple(keys), self.resume)
        if self.acknowledgements.pending:
            return Park(ctx.now_ms + _WRITE_TIMEOUT_MS, (self.acknowledgements.key,), self.resume)
        if self.request.share_session_epoch == FINAL_EPOCH:
            end_session(self.acknowledgements.group_id, self.acknowledgements.member_id, ctx)
        return Reply(self._build_response(ctx, self.rows))

    def _try_fetch(self, ctx: Context) -> None:
        """Acquire if the fetch is complete: enough bytes, an error, or the time is up (share-semantics 1.7)."""
        request, is_late = self.request, ctx.now_ms >= self.deadline_ms
        offsets = {
            key: offset
            for key, partition in self.partitions.items()
            if partition.status is PartitionStatus.ACTIVE and (offset := partition.next_acquirable_offset()) is not None
        }
        if not offsets:
            if is_late:
                self._complete({})
            return
        if request.max_bytes < 0:
            self._complete({key: PartitionData(key.partition_index, ErrorCode.UNKNOWN_SERVER_ERROR) for key in offsets})
            return
        limit = ctx.node.config["fetch.max.bytes"]
        assert isinstance(limit, int)
        max_bytes = min(request.max_bytes, limit)
        if ctx.throttle is not None:
            max_bytes = min(max_bytes, ctx.throttle.fetch_bytes_max())
        reads = self._read_logs(ctx, offsets, max_bytes, is_late=is_late)
        if reads is None:
            return
        try:
            rows = self._acquire_records(ctx, reads)
        except KafkaError as error:
            # A failure of one share-partition fails all of them in 4.3.0; acquired records stay acquired.
            rows = {key: PartitionData(key.partition_index, error.code) for key in offsets}
            for key in offsets:
                ctx.wake(wake_key(self.acknowledgements.group_id, *key))
        self._complete(rows)

    def _read_logs(
        self, ctx: Context, offsets: dict[PartitionKey, int], max_bytes: int, *, is_late: bool
    ) -> dict[PartitionKey, PartitionRead] | None:
        """The reads of the logs, in the order in which records are acquired; None when there are not enough yet.

        A share partition with an unknown log position is read to determine it, and its records are acquired after the
        others.
        Only a fetch that has waited until its time was up reads all at once (Kafka's DelayedShareFetch,
        maybeReadFromLog and
        combineLogReadResponse).
        """
        logs, isolation, limits, rng = ctx.node.logs, self.isolation, self.limits, ctx.rng

        def read(keys: list[PartitionKey]) -> dict[PartitionKey, PartitionRead]:
            if not keys:
                return {}
            shares = limits or split_max_bytes(max_bytes, keys, rng, count=len(offsets))
            fetch_offsets = {key: offsets[key] for key in keys}
            return read_partitions(
                logs,
                fetch_offsets,
                shares,
                isolation,
                max_bytes=max_bytes,
                min_one=ctx.cluster.rules.fetch.returns_oversized_batch,
                finds_aborted=ctx.cluster.rules.acquisition.marker_reader is None,
                cuts=ctx.cluster.rules.fetch.returns_all_read_records,
            )

        if is_late and self.has_looked:
            return read(list(offsets))
        self.has_looked = True
        unknown = [key for key, offset in offsets.items() if self.partitions[key].known_offset != offset]
        unpositioned = read(unknown) if unknown else {}
        for key, partition_read in unpositioned.items():
            if partition_read.error is None and partition_read.log_start is None:
                self.partitions[key].known_offset = partition_read.offset
        shares = limits or split_max_bytes(max_bytes, list(offsets), rng)
        min_bytes = min(self.request.min_bytes, max_bytes)
        # One byte is there where a record was read.
        has_enough = min_bytes <= 1 and any(each.batches and shares[key] > 0 for key, each in unpositioned.items())
        if not has_enough and not has_min_bytes(logs, offsets, shares, isolation, min_bytes=min_bytes):
            return read(list(offsets)) if is_late else None
        if not unpositioned:
            return read(list(offsets))
        return {**read([key for key in offsets if key not in unpositioned]), **unpositioned}

    def _acquire_records(
        self, ctx: Context, reads: dict[PartitionKey, PartitionRead]
    ) -> dict[PartitionKey, PartitionData]:
        rows: dict[PartitionKey, PartitionData] = {}
        max_records = self._max_records(ctx)
        for key, read in reads.items():
            partition = self.partitions[key]
            row = rows[key] = PartitionData(key.partition_index)
            if read.log_start is not None:
                partition.window.move_log_start(read.log_start, now_ms=ctx.now_ms)
            elif read.error is not None:
                row.error_code = read.error
                drop_if_fenced(ctx.node, partition, read.error)
            else:
                acquired = self._acquire_from_partition(ctx, partition, read, max_records)
                max_records -= sum(run.last - run.first + 1 for run in acquired)
                row.acquired_records = [AcquiredRecords(*run) for run in acquired]
                if acquired and read.log_slice is not None and ctx.cluster.rules.fetch.returns_all_read_records:
                    row.records = read.log_slice.join()
                elif acquired:
                    row.records = join_acquired(read.batches, acquired[0].first, acquired[-1].last)
            # Wake the next fetch of this share partition.
            ctx.wake(wake_key(self.acknowledgements.group_id, *key))
        return rows

    def _max_records(self, ctx: Context) -> int:
        """The number of records that may be acquired."""
        name = ctx.cluster.rules.fetch.max_records_config
        limit = ctx.node.config.given.get(name) if name else None
        return self.request.max_records if limit is None else min(self.request.max_records, int(limit))

    def _acquire_from_partition(
        self, ctx: Context, partition: SharePartition, read: PartitionRead, max_records: int
    ) -> list[AcquiredRun]:
        member_id, mode = self.acknowledgements.member_id, _ACQUIRE_MODES[self.request.share_acquire_mode]
        if self.isolation is Isolation.READ_COMMITTED and ctx.cluster.rules.acquisition.marker_reader is not None:
            return acquire_committed_records(
                partition,
                member_id,
                read.batches,
                make_log_reader(ctx.node.logs.find_log(partition.topic_id, partition.partition_index)),
                now_ms=ctx.now_ms,
                fetch_offset=read.offset,
                mode=mode,
                batch_size=self.request.batch_size,
                max_records=max_records,
            )
        return acquire_records(
            partition,
            member_id,
            read.batches,
            now_ms=ctx.now_ms,
            fetch_offset=read.offset,
            mode=mode,
            batch_size=self.request.batch_size,
            max_records=max_records,
            aborted=read.aborted,
        )

    def _complete(self, rows: dict[PartitionKey, PartitionData]) -> None:
        """Complete the fetch: add the rows of the partitions that could not be read."""
        for key, partition in self.partitions.items():
            if partition.status is PartitionStatus.FAILED and partition.load_error is not None:
                rows[key] = PartitionData(key.partition_index, partition.load_error)
        for key, error in self.errors.items():
            rows[key] = PartitionData(key.partition_index, error)
        self.rows = rows

    def _build_response(self, ctx: Context, rows: dict[PartitionKey, PartitionData]) -> ShareFetchResponse:
        epoch = self.request.share_session_epoch
        lock_ms = ctx.node.group_config(self.acknowledgements.group_id)["share.record.lock.duration.ms"]
        assert isinstance(lock_ms, int)
        is_throttled = ctx.throttle is not None and self._is_throttled(ctx, ctx.throttle, rows)
        if epoch > INITIAL_EPOCH:
            if self.session.epoch != next_epoch(epoch):
                # Another connection has used the session meanwhile; records acquired here stay locked.
                code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
                return ShareFetchResponse(error_code=code, acquisition_lock_timeout_ms=lock_ms)
            # Kafka iterates a hash map here, which for partitions of one topic is nearly always the last one first; the
            # order in which they move to the end of the session's queue affects later fetches.
            rows = {
                key: rows[key]
                for key in sorted(rows, key=lambda key: -key.partition_index)
                if not is_throttled
                and self.session.includes_partition(
                    key, has_records=len(rows[key].records) > 0, has_error=rows[key].error_code != 0
                )
            }
        if is_throttled:
            rows = {}
        has_unknown = any(ctx.cluster.metadata.topic_by_id(key.topic_id) is None for key in rows)
        if has_unknown and not ctx.cluster.rules.fetch.names_unknown_topics:
            return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        hints: LeaderHints[LeaderIdAndEpoch, NodeEndpoint] | None = None
        for key, row in rows.items():
            if row.error_code in LEADER_ERRORS:
                hints = LeaderHints(LeaderIdAndEpoch, NodeEndpoint, ctx) if hints is None else hints
                hints.set_leader(row, self._present_topic_id(key, ctx), key.partition_index)
        for key, result in self.acknowledgements.rows.items():
            row = rows.setdefault(key, PartitionData(key.partition_index))
            row.acknowledge_error_code = result.code
            row.acknowledge_error_message = (
                result.message if ctx.cluster.rules.acknowledgement.returns_ack_error_message else None
            )
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=lock_ms,
            responses=_group_rows(rows),
            node_endpoints=[] if hints is None else hints.endpoints(),
        )

    def _is_throttled(
        self, ctx: Context, throttle: RequestThrottle, rows: Mapping[PartitionKey, PartitionData]
    ) -> bool:
        """Count the rows, where clients have quotas. Returns: whether the member gets none of them.

        Records that it would have got stay acquired, as in Kafka.
        """
        if self.request.share_session_epoch > INITIAL_EPOCH:
            is_present = self.session.epoch == next_epoch(self.request.share_session_epoch)
            rows = {
                key: row
                for key, row in rows.items()
                if is_present
                and self.session.would_include(key, has_records=len(row.records) > 0, has_error=row.error_code != 0)
            }
        size = measure_response(ShareFetchResponse(responses=_group_rows(rows)), ctx.api_version)
        return throttle.record_fetch(size, now_ms=ctx.now_ms) > 0

    def _present_topic_id(self, key: PartitionKey, ctx: Context) -> bytes:
        """The id of the topic that has the name of this session's topic now."""
        entry = self.session.partitions.get(key)
        topic = ctx.cluster.metadata.topic(entry.topic_name) if entry is not None and entry.topic_name else None
        return key.topic_id if topic is None else topic.topic_id


def _group_rows(rows: Mapping[PartitionKey, PartitionData]) -> list[ShareFetchableTopicResponse]:
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for key, row in rows.items():
        if key.topic_id not in topics:
            topics[key.topic_id] = ShareFetchableTopicResponse(key.topic_id)
        topics[key.topic_id].partitions.append(row)
    return list(topics.values())


def _missing_partition_error(key: PartitionKey, topic_name: str, ctx: Context) -> ErrorCode:
    """The error for a partition that does not exist: Kafka looks for it by name, which another topic may have now.

    Source: the conversation share-session-topic-made-again, and the scenario of that name with three nodes.
    """
    topic = ctx.cluster.metadata.topic(topic_name)
    partition = None if topic is None else topic.partition(key.partition_index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.leader != ctx.node.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.UNKNOWN_SERVER_ERROR  # The state of the former topic cannot be read.
