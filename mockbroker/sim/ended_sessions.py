"""What a member still holds after its session has ended."""

from __future__ import annotations

from collections.abc import Iterable

from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.share_history import HistoryEntry, HistoryEvent
from mockbroker.state.share.share_partition import SharePartition

#: The last two events of a record whose release was not stored.
_UNDONE = [HistoryEvent.SESSION_CLOSED, HistoryEvent.ROLLED_BACK]


def find_held(partition: SharePartition, member_id: str) -> list[tuple[int, int]]:
    """First and last offset of the records that a member holds."""
    return [
        (first, last)
        for batch in partition.window
        for first, last, entry in batch.entries(batch.first, batch.last)
        if entry.state is RecordState.ACQUIRED and entry.member_id == member_id
    ]


def is_undone(entries: Iterable[HistoryEntry], run: tuple[int, int], now_ms: int) -> bool:
    """Whether a run of records was released at this moment, and the write has failed already.

    The member of a session that has ended then holds the records until their locks end, as in Kafka. A write fails at
    once where the state was deleted, for example. entries: of the share partition, oldest first.
    """
    first, last = run
    events = [entry.event for entry in entries if entry.at_ms == now_ms and entry.first <= last and entry.last >= first]
    return events[-2:] == _UNDONE
