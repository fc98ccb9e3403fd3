"""`FollowerFetcher`: fetches the partitions that a node follows from one leader, one request after the other.

Source: Kafka's AbstractFetcherThread and ReplicaFetcherThread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.inter_broker import DelayedAnswer, InterBrokerChannel
from mockbroker.kafka_error import KafkaError
from mockbroker.replication.fetch_messages import FetchedPartition, FollowerFetch, LogEnds, WantedPartition
from mockbroker.replication.settings import ReplicationSettings
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.replication.truncation import find_truncation_offset
from mockbroker.state.storage.partition_log import PartitionLog

Rows = Sequence[FetchedPartition]


class _Leader(Protocol):
    """What a follower requires of the broker that leads."""

    def serve_fetch(self, request: FollowerFetch, now_ms: int) -> Rows | DelayedAnswer: ...
    def find_log_ends(self, wanted: WantedPartition, node_id: int) -> LogEnds: ...


class ReplicaNode(Protocol):
    """A broker that replicates."""

    @property
    def replication(self) -> _Leader | None:
        """Its part in replication."""


class _Followed(msgspec.Struct):
    """A partition. delayed_until_ms: it is left out of requests until then. is_failed: until the next leader epoch."""

    leader_epoch: int
    log: PartitionLog
    delayed_until_ms: int = 0
    is_asking: bool = False
    is_failed: bool = False


class FollowerFetcher:
    """Fetches from one leader. node_id: of the follower. All times are milliseconds of the cluster's clock."""

    def __init__(
        self, node_id: int, leader_id: int, channel: InterBrokerChannel[ReplicaNode], settings: ReplicationSettings
    ) -> None:
        self.leader_id = leader_id
        self._node_id = node_id
        self._channel = channel
        self._settings = settings
        self._followed: dict[TopicPartitionKey, _Followed] = {}
        self._is_in_flight = False
        self._run_count = 0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to fetch."""
        return not self._followed

    def add(self, key: TopicPartitionKey, leader_epoch: int, log: PartitionLog, *, now_ms: int) -> None:
        """Fetch a partition in a leader epoch, with the next request."""
        self._followed[key] = _Followed(leader_epoch, log)
        self._schedule_run(0, now_ms)

    def remove(self, key: TopicPartitionKey) -> None:
        """Fetch a partition no more; an answer that is on its way is dropped."""
        self._followed.pop(key, None)

    def _schedule_run(self, delay_ms: int, now_ms: int) -> None:
        self._run_count += 1
        count = self._run_count

        def run(at_ms: int) -> None:
            if count == self._run_count:
                self._run(at_ms)

        self._channel.schedule(delay_ms, run, now_ms=now_ms, owner=self._node_id)

    def _run(self, now_ms: int) -> None:
        """Send a request, unless one is on its way; with nothing to ask for, wait until the first back-off is over."""
        if self._is_in_flight:
            return
        due, waits = [], []
        for key, followed in self._followed.items():
            if followed.is_failed or followed.is_asking:
                continue
            if followed.delayed_until_ms > now_ms:
                waits.append(followed.delayed_until_ms)
            else:
                due.append(_want(key, followed))
        if due:
            self._is_in_flight = True
            request = FollowerFetch(self._node_id, tuple(due), self._settings.limits)
            self._call(partial(_serve, request), partial(self._receive, request), now_ms)
        elif waits:
            self._schedule_run(min(waits) - now_ms, now_ms)

    def _call(self, handle: object, done: object, now_ms: int) -> None:
        with self._channel.act_as(self._node_id):
            self._channel.call(to=self.leader_id, handle=handle, done=done, now_ms=now_ms)  # type: ignore[arg-type]

    def _receive(self, request: FollowerFetch, answer: Rows | KafkaError, now_ms: int) -> None:
        self._is_in_flight = False
        if isinstance(answer, KafkaError):
            for wanted in request.partitions:
                self._delay(wanted, now_ms)
        else:
            for row in answer:
                self._receive_row(row, now_ms)
        # What was added meanwhile is asked for at once too.
        self._schedule_run(0, now_ms)

    def _receive_row(self, row: FetchedPartition, now_ms: int) -> None:
        wanted = row.wanted
        followed = self._find(wanted)
        if followed is None:
            return
        try:
            if row.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._ask_for_ends(wanted, followed, now_ms)
            elif row.error is ErrorCode.FENCED_LEADER_EPOCH:
                followed.is_failed = True
            elif row.error is not ErrorCode.NONE:
                self._delay(wanted, now_ms)
            elif row.diverging is not None:
                offset = find_truncation_offset(*row.diverging, followed.log.end_of_epoch, followed.log.end_offset)
                followed.log.truncate_to(offset)
            else:
                _append(followed.log, row, now_ms)
        except KafkaError:  # The storage has failed, which is reported: the next fetch tries again.
            self._delay(wanted, now_ms)

    def _find(self, wanted: WantedPartition) -> _Followed | None:
        """The partition, if nothing has changed since it was asked for."""
        followed = self._followed.get(wanted.key)
        if followed is None or followed.leader_epoch != wanted.leader_epoch:
            return None
        return followed if followed.log.end_offset == wanted.offset else None

    def _delay(self, wanted: WantedPartition, now_ms: int) -> None:
        followed = self._followed.get(wanted.key)
        if followed is not None and followed.leader_epoch == wanted.leader_epoch:
            followed.delayed_until_ms = now_ms + self._settings.backoff_ms

    def _ask_for_ends(self, wanted: WantedPartition, followed: _Followed, now_ms: int) -> None:
        """The leader has nothing at the offset: find out where its log starts and ends."""
        followed.is_asking = True

        def done(answer: LogEnds | KafkaError, at_ms: int) -> None:
            followed.is_asking = False
            if self._find(wanted) is followed:
                if isinstance(answer, KafkaError):
                    self._delay(wanted, at_ms)
                else:
                    _move_into_range(followed.log, answer, at_ms)
            self._schedule_run(0, at_ms)

        self._call(partial(_find_ends, wanted, self._node_id), done, now_ms)


def _want(key: TopicPartitionKey, followed: _Followed) -> WantedPartition:
    log = followed.log
    return WantedPartition(key, followed.leader_epoch, log.end_offset, log.last_epoch, log.start_offset)


def _replication_of(node: ReplicaNode) -> _Leader:
    if node.replication is None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return node.replication


def _serve(request: FollowerFetch, node: ReplicaNode, now_ms: int) -> Rows | DelayedAnswer:
    return _replication_of(node).serve_fetch(request, now_ms)


def _find_ends(wanted: WantedPartition, node_id: int, node: ReplicaNode, _now_ms: int) -> LogEnds:
    return _replication_of(node).find_log_ends(wanted, node_id)


def _append(log: PartitionLog, row: FetchedPartition, now_ms: int) -> None:
    """Append what was fetched, and take over the leader's high watermark and log start."""
    if row.batches and row.batches[0].base_offset < log.end_offset:
        # Only right after the log was restarted inside a batch, whose first records the leader has deleted.
        log.restart_at(row.batches[0].base_offset, now_ms=now_ms)
    if row.batches:
        log.restore_batches(row.batches)
    log.hold_high_watermark(max(log.start_offset, min(row.high_watermark, log.end_offset)))
    if log.start_offset < row.log_start_offset <= log.high_watermark:
        log.delete_records_before(row.log_start_offset)


def _move_into_range(log: PartitionLog, ends: LogEnds, now_ms: int) -> None:
    """Source: Kafka's AbstractFetcherThread.fetchOffsetAndApplyTruncateAndBuild."""
    if ends.end_offset < log.end_offset:
        log.truncate_to(ends.end_offset)
    elif ends.start_offset > log.end_offset:
        log.restart_at(ends.start_offset, now_ms=now_ms)
