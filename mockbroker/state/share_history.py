"""What has happened to the records of share partitions: the newest transitions, noted as they take place.

A note is a run of offsets to which the same has happened at the same time, so a batch of any size is one. There is one
ring for the whole cluster: its memory is bounded, and what is noted outlives a share partition that is dropped and
loaded again, here or on another node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from enum import Enum

from mockbroker.state.in_flight import State

#: At most so many runs are kept, some 150 bytes each.
HISTORY_MAX = 50_000
#: Where a share partition ends that has just been loaded: everything from its start on is what was stored, or new.
NO_END = 2**63 - 1


class Happening(Enum):
    """What can happen to a record. The state afterwards says the rest: a release at the delivery limit archives."""

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


class Note:
    """One run of offsets, and what happened to it. `member_id` is who held it or did it, or nobody."""

    __slots__ = ("at_ms", "delivery_count", "first", "happening", "key", "last", "member_id", "state")

    def __init__(
        self,
        key: Hashable,
        at_ms: int,
        happening: Happening,
        *,
        first: int,
        last: int,
        member_id: str,
        delivery_count: int,
        state: State,
    ) -> None:
        self.key = key
        self.at_ms = at_ms
        self.happening = happening
        self.first = first
        self.last = last
        self.member_id = member_id
        self.delivery_count = delivery_count
        self.state = state


class ShareHistory:
    """The ring. Nothing is computed here but whether a run goes on: who looks pays for the looking."""

    def __init__(self, limit: int = HISTORY_MAX) -> None:
        self._notes: deque[Note] = deque(maxlen=limit)
        self._newest: Note | None = None

    def __len__(self) -> int:
        return len(self._notes)

    def __iter__(self) -> Iterator[Note]:
        """Everything, oldest first."""
        return iter(self._notes)

    def note(
        self,
        key: Hashable,
        at_ms: int,
        happening: Happening,
        *,
        first: int,
        last: int,
        member_id: str,
        delivery_count: int,
        state: State,
    ) -> None:
        """Keep what happened; a run that goes on where the newest ended, with all else alike, makes that one longer."""
        newest = self._newest
        if (
            newest is not None
            and newest.last + 1 == first
            and newest.happening is happening
            and newest.at_ms == at_ms
            and newest.state is state
            and newest.delivery_count == delivery_count
            and newest.member_id == member_id
            and newest.key == key
        ):
            newest.last = last
            return
        self._newest = Note(
            key,
            at_ms,
            happening,
            first=first,
            last=last,
            member_id=member_id,
            delivery_count=delivery_count,
            state=state,
        )
        self._notes.append(self._newest)

    def of(self, key: Hashable) -> Iterator[Note]:
        """What happened in one share partition, oldest first."""
        return (note for note in self._notes if note.key == key)
