"""Records on their way to a consumer: their states, the one table of legal moves, and the batches that hold them."""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.lock_timers import Lock

#: The owner of a record that nobody holds. Kafka refuses it as a member id for this reason.
NOBODY = ""


class State(IntEnum):
    """Delivery state of a record, with the ids that the share coordinator stores; 3 is reserved by KIP-1191.

    UNCOMMITTED is never stored, and is there only where read-committed groups follow markers.
    """

    UNCOMMITTED = -1
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is done for this group."""
        return self >= State.ACKNOWLEDGED


class Event(Enum):
    """What can happen to a record."""

    ACQUIRE = auto()
    ACCEPT = auto()
    RELEASE = auto()
    REJECT = auto()
    GAP = auto()
    GIVE_UP = auto()
    DROP = auto()
    COMMIT = auto()


#: GAP: the client found no record at the offset. GIVE_UP: a release past the delivery limit, or below the start offset.
#: DROP: the log start moved, compaction took the record, or its transaction was aborted. COMMIT: it was committed.
TRANSITIONS: dict[State, dict[Event, State]] = {
    State.UNCOMMITTED: {Event.COMMIT: State.AVAILABLE, Event.DROP: State.ARCHIVED},
    State.AVAILABLE: {Event.ACQUIRE: State.ACQUIRED, Event.DROP: State.ARCHIVED},
    State.ACQUIRED: {
        Event.ACCEPT: State.ACKNOWLEDGED,
        Event.RELEASE: State.AVAILABLE,
        Event.REJECT: State.ARCHIVED,
        Event.GAP: State.ARCHIVED,
        Event.GIVE_UP: State.ARCHIVED,
        Event.DROP: State.ARCHIVED,
    },
    State.ACKNOWLEDGED: {},
    State.ARCHIVED: {},
}


class Before(NamedTuple):
    """What a failed write brings back, and the delivery limit that was in force when the transition began."""

    state: State
    member_id: str
    delivery_limit: int


class InFlight:
    """One record, or a whole batch of records that are alike."""

    __slots__ = ("before", "delivery_count", "dropped", "lock", "member_id", "state")

    def __init__(self, state: State, delivery_count: int, member_id: str, lock: Lock | None = None) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock = lock
        self.before: Before | None = None
        self.dropped = False

    @property
    def is_in_transition(self) -> bool:
        """Whether a write of the last change is still under way."""
        return self.before is not None

    @property
    def is_free(self) -> bool:
        """Whether it may be acquired now."""
        return self.state is State.AVAILABLE and self.before is None

    @property
    def is_settled(self) -> bool:
        """Whether it is terminal, and known to be so by the share coordinator as well."""
        return self.before is None and self.state.is_terminal

    def cancel_lock(self) -> None:
        """Stop the acquisition lock's timer, if one is running."""
        if self.lock is not None:
            self.lock.cancelled = True
            self.lock = None


def move(entry: InFlight, event: Event) -> None:
    """Move an entry by the table; what the table does not know is refused."""
    target = TRANSITIONS[entry.state].get(event)
    if target is None:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{event.name} of a record that is {entry.state.name}")
    entry.state = target
    if target is not State.ACQUIRED:
        entry.member_id = NOBODY  # Only a held record has a holder.


def acquire(entry: InFlight, member_id: str, lock: Lock) -> None:
    """Give an available entry to a member. No path of 4.3.0 ever lowers the count again (share-semantics 1.2)."""
    assert entry.before is None
    move(entry, Event.ACQUIRE)
    entry.delivery_count += 1
    entry.member_id = member_id
    entry.lock = lock


def drop(entry: InFlight) -> None:
    """Archive without asking anybody; not even the failure of a write that is under way undoes it (1.1)."""
    move(entry, Event.DROP)
    entry.dropped = True
    entry.cancel_lock()


def begin(entry: InFlight, event: Event, delivery_limit: int) -> None:
    """Move an entry that must be written before the move is final; the lock's timer goes on meanwhile."""
    assert entry.before is None
    before = Before(entry.state, entry.member_id, delivery_limit)
    move(entry, event)
    entry.before = before


def commit(entry: InFlight) -> None:
    """The write arrived: the move is final."""
    entry.before = None
    entry.cancel_lock()


def roll_back(entry: InFlight) -> None:
    """The write failed: the old holder has it again, unless the lock ran out meanwhile (share-semantics 1.3)."""
    before = entry.before
    if entry.dropped or before is None:
        commit(entry)
        return
    entry.before = None
    if entry.lock is not None and entry.lock.expired:
        entry.state = State.ARCHIVED if entry.delivery_count >= before.delivery_limit else State.AVAILABLE
        entry.member_id = NOBODY
        entry.cancel_lock()
    else:
        entry.state = before.state
        entry.member_id = before.member_id


def release_event(entry: InFlight, *, delivery_limit: int, is_below_start: bool) -> Event:
    """RELEASE or GIVE_UP: a record comes back until its delivery limit, and never below the start offset (1.2)."""
    if is_below_start or entry.delivery_count >= delivery_limit:
        return Event.GIVE_UP
    return Event.RELEASE


class InFlightBatch:
    """A run of offsets: one entry for all (`whole`) until something splits it, then one entry for each (`offsets`).

    Once split it stays split, and batches are never merged again (share-semantics 2.4).
    """

    __slots__ = ("_settled", "first", "last", "offsets", "whole")

    def __init__(self, first: int, last: int, whole: InFlight) -> None:
        self.first = first
        self.last = last
        self.whole: InFlight | None = whole
        self.offsets: list[InFlight] | None = None
        self._settled = 0

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        entries = [self.whole] if self.whole is not None else self.offsets or []
        return f"{self.first}-{self.last}:" + ",".join(f"{e.state.name}/{e.delivery_count}" for e in entries)

    def replace(self, offsets: list[InFlight]) -> None:
        """Go over to one entry for each offset."""
        assert len(offsets) == len(self)
        self.whole = None
        self.offsets = offsets

    def entry(self, offset: int) -> InFlight:
        """What is known of this offset."""
        if self.whole is not None:
            return self.whole
        assert self.offsets is not None
        return self.offsets[offset - self.first]

    def within(self, first: int, last: int) -> list[tuple[int, InFlight]]:
        """The entries of a split batch from one offset to another, cut to the batch."""
        assert self.offsets is not None
        low = max(first, self.first)
        return list(enumerate(self.offsets[low - self.first : max(0, last - self.first + 1)], low))

    def first_free(self) -> int | None:
        """The lowest offset that may be acquired now."""
        if self.whole is not None:
            return self.first if self.whole.is_free else None
        assert self.offsets is not None
        for index, entry in enumerate(self.offsets):
            if entry.is_free:
                return self.first + index
        return None

    def first_available(self) -> int | None:
        """The lowest offset that is available, be its release written yet or not."""
        if self.whole is not None:
            return self.first if self.whole.state is State.AVAILABLE else None
        available = (offset for offset, entry in self.within(self.first, self.last) if entry.state is State.AVAILABLE)
        return next(available, None)

    def settled_end(self) -> int:
        """The offset after the leading run of settled records. What is settled stays so, and is not walked again."""
        if self.whole is not None:
            return self.last + 1 if self.whole.is_settled else self.first
        assert self.offsets is not None
        index = self._settled
        while index < len(self.offsets) and self.offsets[index].is_settled:
            index += 1
        self._settled = index
        return self.first + index
