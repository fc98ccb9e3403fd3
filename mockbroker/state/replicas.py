"""Replicas that do not follow: what each of them has on its disk while the log goes on without it.

All that follow share one log (docs/decisions/replicas-share-a-log.md). One that stops is remembered by the offset up
to which it has the same; when it is elected, the log is cut there. What others had beyond is theirs alone from then
on, and comes back if one of them is elected before it has followed.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mockbroker.state.log import PartitionLog, StoredBatch


class Disk(msgspec.Struct):
    """A replica that stopped: the log up to `fork`, then batches of its own, and the high watermark that it knows."""

    fork: int
    high_watermark: int
    tail: list[StoredBatch] = []

    @property
    def end_offset(self) -> int:
        """Where its own log ends."""
        return self.tail[-1].last_offset + 1 if self.tail else self.fork


def leave(log: PartitionLog) -> Disk:
    """A replica stops following."""
    return Disk(log.end_offset, log.high_watermark)


def elect(log: PartitionLog, disk: Disk, others: Iterable[Disk]) -> None:
    """Have the log go on from what this replica has; the others keep what they have."""
    if disk.fork < log.end_offset or disk.tail:
        cut = log.truncate(disk.fork)
        for other in others:
            if other.fork > disk.fork:
                other.tail = [batch for batch in cut if batch.last_offset < other.fork] + other.tail
                other.fork = disk.fork
        log.restore(disk.tail)
    log.hold(min(disk.high_watermark, log.end_offset))


def release(log: PartitionLog, disks: MutableMapping[int, Disk], *, in_sync: Iterable[int], least: int) -> None:
    """Let the high watermark go as far as it may: to where every replica in sync has the log, if they are enough.

    Source: Kafka's Partition.maybeIncrementLeaderHW.
    """
    members = tuple(in_sync)
    if len(members) < least:
        log.hold(log.high_watermark)
        return
    slowest = min((disks[node].end_offset for node in members if node in disks), default=None)
    if slowest is None:
        log.hold(None)
    else:
        log.hold(max(log.high_watermark, min(slowest, log.end_offset)))
