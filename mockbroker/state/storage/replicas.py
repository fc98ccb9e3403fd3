"""Replicas that have stopped following: the state of each while the log goes on without it.

All that follow share one log (docs/decisions/replicas-share-a-log.md). For one that stops, the offset is stored up to
which it has the same records; when it is elected, the log is truncated there. The truncated batches of other replicas
become their own, and are restored if one of them is elected before it follows again.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mockbroker.state.storage.partition_log import PartitionLog, StoredBatch


class ReplicaLog(msgspec.Struct):
    """The log of a replica that stopped following the leader.

    fork_offset: up to this offset it equals the shared log. own_batches: batches that only this replica has.
    high_watermark: the last one that it received.
    """

    fork_offset: int
    high_watermark: int
    own_batches: list[StoredBatch] = []

    @property
    def end_offset(self) -> int:
        """The end of its log."""
        return self.own_batches[-1].last_offset + 1 if self.own_batches else self.fork_offset


def stop_following(log: PartitionLog) -> ReplicaLog:
    """The log of a replica that stops following now."""
    return ReplicaLog(log.end_offset, log.high_watermark)


def truncate_to_leader(log: PartitionLog, elected: ReplicaLog, others: Iterable[ReplicaLog]) -> None:
    """Continue the log with the records of the elected replica; the others keep theirs."""
    if elected.fork_offset < log.end_offset or elected.own_batches:
        removed = log.truncate_to(elected.fork_offset)
        for other in others:
            if other.fork_offset > elected.fork_offset:
                former = [batch for batch in removed if batch.last_offset < other.fork_offset]
                other.own_batches = former + other.own_batches
                other.fork_offset = elected.fork_offset
        log.restore_batches(elected.own_batches)
    log.hold_high_watermark(min(elected.high_watermark, log.end_offset))


def advance_high_watermark(
    log: PartitionLog, stopped: MutableMapping[int, ReplicaLog], *, in_sync: Iterable[int], min_count: int
) -> None:
    """Move the high watermark to the smallest end of the in-sync replicas, if there are enough of them.

    Source: Kafka's Partition.maybeIncrementLeaderHW.
    """
    members = tuple(in_sync)
    if len(members) < min_count:
        log.hold_high_watermark(log.high_watermark)
        return
    slowest = min((stopped[node].end_offset for node in members if node in stopped), default=None)
    held = None if slowest is None else max(log.high_watermark, min(slowest, log.end_offset))
    log.hold_high_watermark(held)
