"""`LedPartition`: a partition at its leader: what followers read, and the high watermark."""

from __future__ import annotations

from collections.abc import Callable

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.replication.fetch_messages import FetchedPartition, WantedPartition
from mockbroker.state.replication.leader_replicas import LagRules, LeaderReplicas
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.stored_batch import StoredBatch


class LedPartition:
    """One partition. least_in_sync: the effective `min.insync.replicas` for a number of replicas."""

    def __init__(
        self, log: PartitionLog, replicas: LeaderReplicas, rules: LagRules, least_in_sync: Callable[[int], int]
    ) -> None:
        self.log = log
        self.replicas = replicas
        self._rules = rules
        self._least_in_sync = least_in_sync

    def update_high_watermark(self, *, now_ms: int) -> None:
        """Move the high watermark to the smallest end of the replicas in sync, but never back."""
        log, replicas = self.log, self.replicas
        count = len(replicas.followers) + 1
        least = 0 if len(replicas.isr) >= count else self._least_in_sync(count)
        offset = replicas.find_high_watermark(log.end_offset, least, self._rules, now_ms=now_ms)
        if offset is not None and offset > log.high_watermark:
            log.hold_high_watermark(offset)

    def check_request(self, follower_id: int, leader_epoch: int) -> None:
        """Check that the request is of a follower in this epoch.

        Raises: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, the latter also for a node that is no replica yet.
        """
        current = self.replicas.leader_epoch
        if leader_epoch not in (-1, current):
            is_old = leader_epoch < current
            code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"leader epoch {leader_epoch} was given, {current} is current")
        if follower_id not in self.replicas.followers:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"node {follower_id} is no follower")

    def read(self, wanted: WantedPartition, bytes_max: int, *, min_one: bool) -> FetchedPartition:
        """What a follower reads: up to the end of the log. Raises: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR."""
        log = self.log
        if wanted.last_epoch is not None:
            end = log.end_of_epoch(wanted.last_epoch)
            if end is None or wanted.offset < log.start_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if end[0] < wanted.last_epoch or end[1] < wanted.offset:
                return FetchedPartition(wanted, ErrorCode.NONE, end, (), log.high_watermark, log.start_offset)
        batches = tuple(self._read_batches(wanted.offset, bytes_max, min_one=min_one))
        return FetchedPartition(wanted, ErrorCode.NONE, None, batches, log.high_watermark, log.start_offset)

    def _read_batches(self, offset: int, bytes_max: int, *, min_one: bool) -> list[StoredBatch]:
        log = self.log
        if offset == log.end_offset:
            return []  # Most reads: a follower that has everything asks again and again.
        found = log.read(offset, bytes_max, min_one=min_one, up_to=log.end_offset).batches
        if log.hidden_batches is not None:
            found, size = [], 0  # Readers skip hidden batches; replicas have them.
            for batch in log.batches_from(offset):
                size += batch.size
                if size > bytes_max and (found or not min_one):
                    break
                found.append(batch)
        return [batch.with_bytes(bytes(batch.raw), max_timestamp=batch.max_timestamp) for batch in found]
