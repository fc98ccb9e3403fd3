"""Full windows of share partitions that no acknowledgement empties any more: a defect of 4.3.0."""

from __future__ import annotations

from collections.abc import Set

from mockbroker.state.share.share_partition import SharePartition


def is_full_for_ever(partition: SharePartition, lost: Set[int]) -> bool:
    """Whether a window that nothing can be acquired for begins with offsets that compaction has removed.

    A start that a load finds in a gap of the log has no batch to move over (canMoveStartOffset). A window whose first
    records were archived as the log has them no more stays in its place, if the others are complete: archiveRecords
    moves no start, and there is nothing to acknowledge. lost: the offsets that compaction has removed.
    """
    window, start = partition.window, partition.start_offset
    if not window or partition.can_acquire():
        return False
    first = window.first.first
    gap = range(start, first if first > start else partition.end_offset + 1)
    if len(gap) <= len(lost) and all(offset in lost for offset in gap):
        return True
    entries = (entry for batch in window for _, _, entry in batch.entries(batch.first, batch.last))
    return first <= start and start in lost and all(entry.is_final for entry in entries)
