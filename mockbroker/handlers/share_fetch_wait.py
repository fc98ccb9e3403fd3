"""A ShareFetch from its acceptance to its answer: what it waits for, what it reads and acquires, its rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
from mockbroker.handlers.share_acknowledgements import Acknowledgements
from mockbroker.handlers.share_leader import drop_if_fenced, end_session, find_partition
from mockbroker.handlers.share_reads import Isolation, Read, budgets, joined, read_all, reading_on, satisfies
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Key, Outcome, Park, Reply
from mockbroker.security.authorize import Operation, ResourceType, may
from mockbroker.state.acquisition import Acquired, AcquireMode, acquire, acquire_committed
from mockbroker.state.share_partition import SharePartition, Status
from mockbroker.state.share_partitions import wake_key
from mockbroker.state.share_session import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey, ShareSession, next_epoch

if TYPE_CHECKING:
    from mockbroker.context import Context

#: How long an answer waits for writes before it looks again: longer than the persister retries.
_WRITE_WAIT_MS = 300_000


@dataclass(slots=True)
class ShareFetchWait:
    """One accepted request. `rows` is None until the fetch is over; the answer waits for the writes as well."""

    request: ShareFetchRequest
    session: ShareSession
    acknowledgements: Acknowledgements
    deadline_ms: int
    partitions: dict[PartitionKey, SharePartition] = field(default_factory=dict)
    errors: dict[PartitionKey, ErrorCode] = field(default_factory=dict)
    limits: dict[PartitionKey, int] = field(default_factory=dict)
    rows: dict[PartitionKey, PartitionData] | None = None
    has_looked: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED

    def fetch_nothing(self) -> None:
        """The request only settles: it ends its session, or renews locks."""
        self.rows = {}

    def begin(self, ctx: Context) -> None:
        """Find the session's share partitions, in their order for this epoch (share-semantics 1.7 and 4.4)."""
        request = self.request
        # The group's level as it is now: a change does not reach a fetch that waits already.
        level = ctx.cluster.configs.group(self.acknowledgements.group_id)["share.isolation.level"]
        self.isolation = Isolation(str(level).lower())
        interested = []
        for key, entry in self.session.partitions.items():
            if entry.topic_name is None:
                self.errors[key] = ErrorCode.UNKNOWN_TOPIC_ID
            elif not may(Operation.READ, ResourceType.TOPIC, entry.topic_name, ctx):
                self.errors[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif ctx.cluster.metadata.leader(*key) is None:
                self.errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                interested.append(key)
        if interested and request.share_acquire_mode not in list(AcquireMode):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        rules = ctx.cluster.rules
        if rules.partitions_have_limits:
            self.limits = {key: self.session.partitions[key].max_bytes for key in interested}
        has_no_room = request.max_records == 0 or (request.max_bytes == 0 and not rules.partitions_have_limits)
        if not interested or has_no_room:
            self._finish_with({})
            return
        if len(interested) > 1 and request.share_session_epoch >= 1 and rules.turns_about:
            turn = request.share_session_epoch % len(interested)
            interested = interested[turn:] + interested[:turn]
        for key in interested:
            try:
                self.partitions[key] = find_partition(ctx, self.acknowledgements.group_id, *key)
            except KafkaError as refusal:
                self.errors[key] = refusal.code
        if not self.partitions:
            self._finish_with({})

    def resume(self, ctx: Context) -> Outcome:
        """Fetch if enough is there or the time is up, answer if the writes have arrived too, else wait."""
        if self.rows is None:
            self._try_fetch(ctx)
        if self.rows is None:
            keys: list[Key] = []
            for key in self.partitions:
                keys += (wake_key(self.acknowledgements.group_id, *key), ("log", *key))
            return Park(self.deadline_ms, tuple(keys), self.resume)
        if self.acknowledgements.pending:
            return Park(ctx.now_ms + _WRITE_WAIT_MS, (self.acknowledgements.key,), self.resume)
        if self.request.share_session_epoch == FINAL_EPOCH:
            end_session(self.acknowledgements.group_id, self.acknowledgements.member_id, ctx)
        return Reply(self._response(ctx, self.rows))

    def _try_fetch(self, ctx: Context) -> None:
        """Acquire if the fetch is complete: enough bytes, an error, or no more time (share-semantics 1.7)."""
        request, is_late = self.request, ctx.now_ms >= self.deadline_ms
        offsets = {
            key: partition.next_fetch_offset()
            for key, partition in self.partitions.items()
            if partition.status is Status.ACTIVE and partition.can_acquire()
        }
        if not offsets:
            if is_late:
                self._finish_with({})
            return
        if request.max_bytes < 0:
            self._finish_with(
                {key: PartitionData(key.partition_index, ErrorCode.UNKNOWN_SERVER_ERROR) for key in offsets}
            )
            return
        limit = ctx.cluster.config["fetch.max.bytes"]
        assert isinstance(limit, int)
        max_bytes = min(request.max_bytes, limit)
        reads = self._read(ctx, offsets, max_bytes, is_late=is_late)
        if reads is None:
            return
        try:
            rows = self._acquire(ctx, reads)
        except KafkaError as error:
            # What 4.3.0 stumbles over in one share-partition it says of all of them; what was acquired stays so.
            rows = {key: PartitionData(key.partition_index, error.code) for key in offsets}
            for key in offsets:
                ctx.wake(wake_key(self.acknowledgements.group_id, *key))
        self._finish_with(rows)

    def _read(
        self, ctx: Context, offsets: dict[PartitionKey, int], max_bytes: int, *, is_late: bool
    ) -> dict[PartitionKey, Read] | None:
        """What the logs have, in the order in which it is acquired; None when that is not enough yet.

        A share partition whose place in the log is not known yet is read to find it out, and what that gave is served
        behind the others. Only a fetch whose time is up after it has waited reads all in one go (Kafka's
        DelayedShareFetch, maybeReadFromLog and combineLogReadResponse).
        """
        logs, isolation, limits = ctx.node.logs, self.isolation, self.limits

        def read(keys: list[PartitionKey]) -> dict[PartitionKey, Read]:
            if not keys:
                return {}
            shares = limits or budgets(max_bytes, keys, ctx.rng, count=len(offsets))
            wanted = {key: offsets[key] for key in keys}
            return read_all(
                logs,
                wanted,
                shares,
                isolation,
                max_bytes=max_bytes,
                min_one=ctx.cluster.rules.always_one_batch,
                finds_aborted=not ctx.cluster.rules.follows_markers,
                cuts=ctx.cluster.rules.sends_what_was_read,
            )

        if is_late and self.has_looked:
            return read(list(offsets))
        self.has_looked = True
        fresh = read([key for key, offset in offsets.items() if self.partitions[key].known_offset != offset])
        for key, found in fresh.items():
            if found.error is None and found.log_start is None:
                self.partitions[key].known_offset = found.offset
        shares = limits or budgets(max_bytes, list(offsets), ctx.rng)
        min_bytes = min(self.request.min_bytes, max_bytes)
        if not satisfies(logs, offsets, shares, isolation, min_bytes=min_bytes):
            return read(list(offsets)) if is_late else None
        return {**read([key for key in offsets if key not in fresh]), **fresh}

    def _acquire(self, ctx: Context, reads: dict[PartitionKey, Read]) -> dict[PartitionKey, PartitionData]:
        rows: dict[PartitionKey, PartitionData] = {}
        room = self._room(ctx)
        for key, read in reads.items():
            partition = self.partitions[key]
            row = rows[key] = PartitionData(key.partition_index)
            if read.log_start is not None:
                partition.move_log_start(read.log_start, now_ms=ctx.now_ms)
            elif read.error is not None:
                row.error_code = read.error
                drop_if_fenced(ctx.node, partition, read.error)
            else:
                acquired = self._acquire_one(ctx, partition, read, room)
                room -= sum(run.last - run.first + 1 for run in acquired)
                row.acquired_records = [AcquiredRecords(*run) for run in acquired]
                if acquired and ctx.cluster.rules.sends_what_was_read:
                    row.records = b"".join([*(batch.raw for batch in read.batches), read.cut])
                elif acquired:
                    row.records = joined(read.batches, acquired[0].first, acquired[-1].last)
            # The turn of the next fetch of this share partition.
            ctx.wake(wake_key(self.acknowledgements.group_id, *key))
        return rows

    def _room(self, ctx: Context) -> int:
        """How many records may be acquired."""
        name = ctx.cluster.rules.fetch_limit_config
        limit = ctx.cluster.config.given.get(name) if name else None
        return self.request.max_records if limit is None else min(self.request.max_records, int(limit))

    def _acquire_one(self, ctx: Context, partition: SharePartition, read: Read, room: int) -> list[Acquired]:
        member_id, mode = self.acknowledgements.member_id, AcquireMode(self.request.share_acquire_mode)
        if self.isolation is Isolation.READ_COMMITTED and ctx.cluster.rules.follows_markers:
            return acquire_committed(
                partition,
                member_id,
                read.batches,
                reading_on(ctx.node.logs.get(partition.topic_id, partition.partition_index)),
                now_ms=ctx.now_ms,
                fetch_offset=read.offset,
                mode=mode,
                batch_size=self.request.batch_size,
                max_records=room,
            )
        return acquire(
            partition,
            member_id,
            read.batches,
            now_ms=ctx.now_ms,
            fetch_offset=read.offset,
            mode=mode,
            batch_size=self.request.batch_size,
            max_records=room,
            aborted=read.aborted,
        )

    def _finish_with(self, rows: dict[PartitionKey, PartitionData]) -> None:
        """The fetch is over: to what was read come the partitions that could not be."""
        for key, partition in self.partitions.items():
            if partition.status is Status.FAILED and partition.load_error is not None:
                rows[key] = PartitionData(key.partition_index, partition.load_error)
        for key, error in self.errors.items():
            rows[key] = PartitionData(key.partition_index, error)
        self.rows = rows

    def _response(self, ctx: Context, rows: dict[PartitionKey, PartitionData]) -> ShareFetchResponse:
        epoch = self.request.share_session_epoch
        lock_ms = ctx.cluster.configs.group(self.acknowledgements.group_id)["share.record.lock.duration.ms"]
        assert isinstance(lock_ms, int)
        if epoch > INITIAL_EPOCH:
            if self.session.epoch != next_epoch(epoch):
                # Another connection has used the session meanwhile; what was acquired here stays locked.
                code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
                return ShareFetchResponse(error_code=code, acquisition_lock_timeout_ms=lock_ms)
            # Kafka walks a hash map here, which for partitions of one topic is nearly always the last one first; the
            # order in which they go to the end of the session's queue shows in later fetches.
            rows = {
                key: rows[key]
                for key in sorted(rows, key=lambda key: -key.partition_index)
                if self.session.must_answer(
                    key, has_records=len(rows[key].records) > 0, has_error=rows[key].error_code != 0
                )
            }
        if any(ctx.cluster.metadata.topic_by_id(key.topic_id) is None for key in rows):
            # 4.3.0 fails to build a row for a topic that it cannot name (share-semantics 4.4).
            return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        endpoints: dict[int, NodeEndpoint] = {}
        for key, row in rows.items():
            if row.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                _name_leader(ctx, key, row, endpoints)
        for key, result in self.acknowledgements.rows.items():
            row = rows.setdefault(key, PartitionData(key.partition_index))
            row.acknowledge_error_code = result.code
            row.acknowledge_error_message = result.message if ctx.cluster.rules.tells_why else None
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for key, row in rows.items():
            topics.setdefault(key.topic_id, ShareFetchableTopicResponse(key.topic_id)).partitions.append(row)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=lock_ms,
            responses=list(topics.values()),
            node_endpoints=list(endpoints.values()),
        )


def _name_leader(ctx: Context, key: PartitionKey, row: PartitionData, endpoints: dict[int, NodeEndpoint]) -> None:
    """Say who leads the partition instead, and where to find it."""
    place = ctx.cluster.metadata.leader(*key)
    if place is None:
        return
    row.current_leader = LeaderIdAndEpoch(place.leader, place.leader_epoch)
    node = ctx.cluster.nodes.get(place.leader)
    if node is not None:
        endpoints[node.node_id] = NodeEndpoint(node.node_id, node.host, node.port, node.rack)
