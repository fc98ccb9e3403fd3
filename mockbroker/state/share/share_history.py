"""History of share partitions: a bounded ring of the latest state transitions of records.

An entry is a run of offsets with the same event at the same time, so a batch of any size is one entry. There is one
ring for the whole cluster: its memory is bounded, and its entries remain when a share partition is dropped and loaded
again, on this node or another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from enum import Enum

import msgspec

from mockbroker.state.share.in_flight_batch import RecordState

#: The maximum number of entries, about 150 bytes each.
MAX_HISTORY_ENTRIES = 50_000
#: The last offset of the entry for a load: all records from the start on are as stored, or new.
UNBOUNDED = 2**63 - 1


class HistoryEvent(Enum):
    """What can happen to a record. An entry also has the state afterwards: a release at the delivery limit archives."""

    LOADED = "loaded"
    ACQUIRED = "acquired"
    RENEWED = "renewed"
    ACCEPTED = "accepted"
    RELEASED = "released"
    REJECTED = "rejected"
    GAP = "gap"
    EXPIRED = "expired"
    SESSION_CLOSED = "session closed"
    ROLLED_BACK = "rolled back"
    LOG_START = "log start moved"
    COMPACTED = "compacted"
    ABORTED = "aborted"
    DEAD_LETTERED = "dead-lettered"
    DEAD_LETTER_FAILED = "dead letter failed"


class HistoryEntry(msgspec.Struct, eq=False, gc=False):
    """One run of offsets and its event. `member_id`: the member that held the run or caused the event, or none."""

    key: Hashable
    at_ms: int
    event: HistoryEvent
    first: int
    last: int
    member_id: str
    delivery_count: int
    state: RecordState


class ShareHistory:
    """The ring of entries. Recording only extends or adds a run; readers do all other work."""

    def __init__(self, limit: int = MAX_HISTORY_ENTRIES) -> None:
        self._entries: deque[HistoryEntry] = deque(maxlen=limit)
        self._newest: HistoryEntry | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[HistoryEntry]:
        """All entries, oldest first."""
        return iter(self._entries)

    def record_event(
        self,
        key: Hashable,
        at_ms: int,
        event: HistoryEvent,
        first: int,
        last: int,
        *,
        member_id: str,
        delivery_count: int,
        state: RecordState,
    ) -> None:
        """Add an entry; a run that continues the newest entry, and is otherwise equal, extends that entry."""
        newest = self._newest
        if (
            newest is not None
            and newest.last + 1 == first
            and newest.event is event
            and newest.at_ms == at_ms
            and newest.state is state
            and newest.delivery_count == delivery_count
            and newest.member_id == member_id
            and newest.key == key
        ):
            newest.last = last
            return
        self._newest = HistoryEntry(key, at_ms, event, first, last, member_id, delivery_count, state)
        self._entries.append(self._newest)

    def entries_for(self, key: Hashable) -> Iterator[HistoryEntry]:
        """The entries of one share partition, oldest first."""
        return (entry for entry in self._entries if entry.key == key)
