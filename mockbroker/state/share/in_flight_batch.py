"""In-flight records of a share partition: their states, the table of legal transitions, and the batches that hold them.

The names are those of Kafka's `SharePartition`, `InFlightBatch` and `InFlightState`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, auto

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.acquisition_locks import AcquisitionLock

#: The owner of a record that no member holds. Kafka refuses it as a member id for this reason.
NO_MEMBER = ""


class RecordState(IntEnum):
    """Delivery state of a record, with the ids that the share coordinator stores.

    is_terminal: whether the record is complete for this group.
    ARCHIVING: the record is being written to the group's dead-letter queue (KIP-1191). UNCOMMITTED is never stored; it
    only exists where leaders of read-committed groups read transaction markers.
    """

    UNCOMMITTED = -1
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    is_terminal: bool


for _state in RecordState:
    _state.is_terminal = _state in {RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}


class RecordEvent(IntEnum):
    """What can happen to a record."""

    ACQUIRE = auto()
    ACCEPT = auto()
    RELEASE = auto()
    REJECT = auto()
    GAP = auto()
    GIVE_UP = auto()
    DROP = auto()
    COMMIT = auto()
    DEAD_LETTER = auto()
    ARCHIVE = auto()


#: GAP: the client found no record at the offset. GIVE_UP: a release past the delivery limit, or below the start offset.
#: DROP: the log start moved, compaction removed the record, or its transaction was aborted. COMMIT: its transaction was
#: committed. DEAD_LETTER: a rejection, or a release past the delivery limit, in a group with a dead-letter queue.
#: ARCHIVE: the queue has the record, or could not take it.
TRANSITIONS: dict[RecordState, dict[RecordEvent, RecordState]] = {
    RecordState.UNCOMMITTED: {RecordEvent.COMMIT: RecordState.AVAILABLE, RecordEvent.DROP: RecordState.ARCHIVED},
    RecordState.AVAILABLE: {RecordEvent.ACQUIRE: RecordState.ACQUIRED, RecordEvent.DROP: RecordState.ARCHIVED},
    RecordState.ACQUIRED: {
        RecordEvent.ACCEPT: RecordState.ACKNOWLEDGED,
        RecordEvent.RELEASE: RecordState.AVAILABLE,
        RecordEvent.REJECT: RecordState.ARCHIVED,
        RecordEvent.GAP: RecordState.ARCHIVED,
        RecordEvent.GIVE_UP: RecordState.ARCHIVED,
        RecordEvent.DROP: RecordState.ARCHIVED,
        RecordEvent.DEAD_LETTER: RecordState.ARCHIVING,
    },
    RecordState.ARCHIVING: {RecordEvent.ARCHIVE: RecordState.ARCHIVED},
    RecordState.ACKNOWLEDGED: {},
    RecordState.ARCHIVED: {},
}


class RollbackState(msgspec.Struct, frozen=True, gc=False):
    """What a failed write restores, and the delivery limit at the start of the transition."""

    state: RecordState
    member_id: str
    delivery_limit: int


class InFlightState:
    """The state of one record, or of a whole batch of records in the same state.

    rollback: set while a write of the last transition is under way.
    """

    __slots__ = ("delivery_count", "is_dropped", "lock", "member_id", "rollback", "state")

    def __init__(
        self, state: RecordState, delivery_count: int, member_id: str, lock: AcquisitionLock | None = None
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock = lock
        self.rollback: RollbackState | None = None
        self.is_dropped = False

    @property
    def is_in_transition(self) -> bool:
        """Whether a write of the last transition is still under way."""
        return self.rollback is not None

    @property
    def is_acquirable(self) -> bool:
        """Whether it may be acquired now."""
        return self.state is RecordState.AVAILABLE and self.rollback is None

    @property
    def is_final(self) -> bool:
        """Whether it is terminal, and the share coordinator has stored that."""
        return self.rollback is None and self.state.is_terminal

    def apply_event(self, event: RecordEvent) -> None:
        """Change the state by the table. Raises: INVALID_RECORD_STATE for a transition that the table lacks."""
        target = TRANSITIONS[self.state].get(event)
        if target is None:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{event.name} of a record that is {self.state.name}")
        self.state = target
        if target is not RecordState.ACQUIRED:
            self.member_id = NO_MEMBER  # Only an acquired record has an owner.

    def acquire_for(self, member_id: str, lock: AcquisitionLock) -> None:
        """Acquire an available record for a member. No path of 4.3.0 lowers the count again (share-semantics 1.2)."""
        assert self.rollback is None
        self.apply_event(RecordEvent.ACQUIRE)
        self.delivery_count += 1
        self.member_id = member_id
        self.lock = lock

    def drop_record(self) -> None:
        """Archive at once, without a write; even the failure of a write under way does not undo it (1.1)."""
        self.apply_event(RecordEvent.DROP)
        self.is_dropped = True
        self.cancel_lock()

    def start_transition(self, event: RecordEvent, delivery_limit: int) -> None:
        """Start a transition that is final only when it is written; the acquisition lock runs on meanwhile."""
        assert self.rollback is None
        rollback = RollbackState(self.state, self.member_id, delivery_limit)
        self.apply_event(event)
        self.rollback = rollback

    def commit_transition(self) -> None:
        """The write succeeded: the transition is final."""
        self.rollback = None
        self.cancel_lock()

    def roll_back_transition(self) -> None:
        """The write failed: restore the old owner, unless its lock has expired meanwhile (share-semantics 1.3)."""
        rollback = self.rollback
        if self.is_dropped or rollback is None:
            self.commit_transition()
            return
        self.rollback = None
        if self.lock is not None and self.lock.expired:
            is_spent = self.delivery_count >= rollback.delivery_limit
            self.state = RecordState.ARCHIVED if is_spent else RecordState.AVAILABLE
            self.member_id = NO_MEMBER
            self.cancel_lock()
        else:
            self.state = rollback.state
            self.member_id = rollback.member_id

    def release_event(self, *, delivery_limit: int, is_below_start: bool, has_queue: bool) -> RecordEvent:
        """RELEASE, GIVE_UP or DEAD_LETTER: available again up to the delivery limit, never below the start (1.2, 9.1).

        has_queue: the group has a dead-letter queue.
        """
        if is_below_start:
            return RecordEvent.GIVE_UP
        if self.delivery_count >= delivery_limit:
            return RecordEvent.DEAD_LETTER if has_queue else RecordEvent.GIVE_UP
        return RecordEvent.RELEASE

    def cancel_lock(self) -> None:
        """Cancel the acquisition lock, if there is one."""
        if self.lock is not None:
            self.lock.cancelled = True
            self.lock = None


class InFlightBatch:
    """A run of offsets: one state for all (`batch_state`) until it is split, then one for each (`offset_states`).

    A split batch stays split, and batches are never merged again (share-semantics 2.4).
    """

    __slots__ = ("_final_count", "batch_state", "first", "last", "offset_states")

    def __init__(self, first: int, last: int, batch_state: InFlightState) -> None:
        self.first = first
        self.last = last
        self.batch_state: InFlightState | None = batch_state
        self.offset_states: list[InFlightState] | None = None
        self._final_count = 0

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        states = [self.batch_state] if self.batch_state is not None else self.offset_states or []
        return f"{self.first}-{self.last}:" + ",".join(f"{s.state.name}/{s.delivery_count}" for s in states)

    def replace_states(self, states: list[InFlightState]) -> None:
        """Split the batch: one state for each offset."""
        assert len(states) == len(self)
        self.batch_state = None
        self.offset_states = states

    def state_at(self, offset: int) -> InFlightState:
        """The state of one offset."""
        if self.batch_state is not None:
            return self.batch_state
        assert self.offset_states is not None
        return self.offset_states[offset - self.first]

    def states_between(self, first: int, last: int) -> list[tuple[int, InFlightState]]:
        """The states of a split batch from one offset to another, cut to the batch."""
        assert self.offset_states is not None
        low = max(first, self.first)
        return list(enumerate(self.offset_states[low - self.first : max(0, last - self.first + 1)], low))

    def entries(self, first: int, last: int) -> Sequence[tuple[int, int, InFlightState]]:
        """The whole batch, or its states between two offsets, each with its first and last offset."""
        if self.batch_state is not None:
            return ((self.first, self.last, self.batch_state),)
        return [(offset, offset, state) for offset, state in self.states_between(first, last)]

    def first_acquirable(self) -> int | None:
        """The lowest offset that may be acquired now."""
        if self.batch_state is not None:
            return self.first if self.batch_state.is_acquirable else None
        assert self.offset_states is not None
        for index, state in enumerate(self.offset_states):
            if state.is_acquirable:
                return self.first + index
        return None

    def first_available(self) -> int | None:
        """The lowest offset that is available, whether its release is written yet or not."""
        states = self.entries(self.first, self.last)
        return next((first for first, _, state in states if state.state is RecordState.AVAILABLE), None)

    def final_end(self) -> int:
        """The offset after the leading run of final records. Final records stay final and are not checked again."""
        if self.batch_state is not None:
            return self.last + 1 if self.batch_state.is_final else self.first
        assert self.offset_states is not None
        index = self._final_count
        while index < len(self.offset_states) and self.offset_states[index].is_final:
            index += 1
        self._final_count = index
        return self.first + index
