"""One share partition on its leader: the window of in-flight records, its start and end, and what moves them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.state import in_flight, moved_writes, start_offset
from mockbroker.state.in_flight import NOBODY, InFlight, InFlightBatch, State
from mockbroker.state.lock_timers import Lock, LockTimers
from mockbroker.state.share_history import NO_END, Happening, ShareHistory
from mockbroker.state.share_notes import Notes
from mockbroker.state.share_rules import RELEASED, ShareRules
from mockbroker.state.state_batches import StateBatch
from mockbroker.state.uncommitted import Uncommitted
from mockbroker.state.window import GapWindow, Window

#: A larger stored batch is not ours: anybody may write state, and splitting a batch takes memory for each offset.
_STORED_BATCH_MAX = 1 << 21


class Status(Enum):
    """Life of a share partition in its leader's memory."""

    EMPTY = auto()
    INITIALIZING = auto()
    ACTIVE = auto()
    FAILED = auto()
    FENCED = auto()


class Change(NamedTuple):
    """An entry that waits for the write, and what the write says of it."""

    entry: InFlight
    batch: StateBatch
    home: InFlightBatch
    happening: Happening


@dataclass(slots=True)
class PendingWrite:
    """What the share coordinator must store; hand the outcome to `SharePartition.complete`.

    `start_offset` is the start before this change takes effect, so the stored start lags one write behind (2.12).
    """

    partition: SharePartition
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: list[StateBatch]
    changes: list[Change] = field(default_factory=list)


def _nowhere(write: PendingWrite, now_ms: int) -> None:
    """A partition without a share coordinator: every write succeeds at once."""
    write.partition.complete(write, None, now_ms=now_ms)


class SharePartition:
    """Source: share-semantics 1 and 2. Acquisition and acknowledgement are in the modules of those names."""

    def __init__(
        self,
        settings: Mapping[str, object],
        *,
        group_id: str = "",
        topic_id: bytes = bytes(16),
        partition_index: int = 0,
        leader_epoch: int = 0,
        timers: LockTimers | None = None,
        send: Callable[[PendingWrite, int], None] = _nowhere,
        wake: Callable[[], None] = lambda: None,
        history: ShareHistory | None = None,
        rules: ShareRules = RELEASED,
    ) -> None:
        self.rules = rules
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.status = Status.EMPTY
        self.load_error: ErrorCode | None = None
        self.state_epoch = self.start_offset = 0
        self.end_offset = 0  # Inclusive, except while the window is empty: then the next offset to read.
        self.delivery_complete_count = 0
        self.window = Window()
        self.gap: GapWindow | None = None
        self.known_offset: int | None = None  # Whose place in the log the last fetch has looked up.
        self.uncommitted = Uncommitted() if rules.follows_markers else None
        self.timers = LockTimers() if timers is None else timers
        self.send = send
        self.wake = wake
        self.stored = moved_writes.StoredSpan(0, 0) if rules.writes_what_moves else None
        self._expired: tuple[int, PendingWrite] | None = None  # When locks have ended, and what is written of that.
        self.key = (group_id, topic_id, partition_index)
        self.notes = Notes(ShareHistory() if history is None else history, self.key)
        self._settings = settings
        self._free: list[int] = []  # A heap: first offsets of batches that have had something to acquire,
        self._noted: set[int] = set()  # and the same as a set.

    # What the group's configuration says now.

    def _number(self, name: str) -> int:
        value = self._settings[name]
        assert isinstance(value, int)
        return value

    @property
    def delivery_limit(self) -> int:
        """How often a record is delivered before it is given up."""
        return self._number("share.delivery.count.limit")

    @property
    def lock_duration_ms(self) -> int:
        """How long a lock lasts that starts now; running ones keep their time."""
        return self._number("share.record.lock.duration.ms")

    @property
    def in_flight_limit(self) -> int:
        """How many offsets may lie between start and end."""
        return self._number("share.partition.max.record.locks")

    @property
    def allows_renewal(self) -> bool:
        """Whether RENEW is honoured."""
        return bool(self._settings["share.renew.acknowledge.enable"])

    # Loading and fencing.

    def load(self, start: int, state_epoch: int, batches: Sequence[StateBatch], *, now_ms: int = 0) -> ErrorCode | None:
        """Take over what the share coordinator has stored; an error when that makes no sense (share-semantics 2.1)."""
        self.start_offset, self.state_epoch = start, state_epoch
        self.notes.take(now_ms, Happening.LOADED, start, NO_END, InFlight(State.AVAILABLE, 0, NOBODY))
        gap_start, expected = None, start
        for batch in batches:
            if batch.first < start or not 0 <= batch.last - batch.first < _STORED_BATCH_MAX or batch.state < 0:
                return self.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
            if gap_start is None and self.window.span(expected, batch.first - 1) > 0 and self.rules.reads_holes:
                gap_start = expected
            expected = batch.last + 1
            state = State(batch.state)
            entry = InFlight(state, batch.delivery_count, NOBODY)
            home = InFlightBatch(batch.first, batch.last, entry)
            self.window.put(home)
            self.notes.take(now_ms, Happening.LOADED, batch.first, batch.last, entry)
            if state.is_terminal:
                self.delivery_complete_count += len(home)
            elif state is State.AVAILABLE:
                self.note_free(home)
        self.status = Status.ACTIVE
        self.end_offset = start
        if self.stored is not None:
            self.stored = moved_writes.StoredSpan(start, expected)
        if self.window:
            self.end_offset = self.window.last.last
            if gap_start is not None:
                self.gap = GapWindow(gap_start, self.end_offset)
            start_offset.advance(self)
        return None

    def fail(self, error: ErrorCode) -> ErrorCode:
        """The state could not be read; the partition is of no more use."""
        self.status, self.load_error = Status.FAILED, error
        return error

    def fence(self) -> None:
        """Another leader, or a reload, takes over: nothing is acquired from this object any more."""
        self.status = Status.FENCED

    # Where the next fetch begins.

    @property
    def gap_is_open(self) -> bool:
        """Whether the window of gaps from the load still holds."""
        return self.gap is not None and self.gap.end == self.end_offset

    def move_gap(self, offset: int) -> None:
        """Everything below `offset` has been acquired; past the end the gap window closes."""
        if self.gap is not None:
            if self.gap_is_open and offset <= self.gap.end:
                self.gap.start = offset
            else:
                self.gap = None

    def note_free(self, batch: InFlightBatch) -> None:
        """Something in this batch may be acquired again."""
        if batch.first not in self._noted:
            self._noted.add(batch.first)
            heapq.heappush(self._free, batch.first)

    def next_fetch_offset(self) -> int:
        """The offset from which the log is read next (share-semantics 2.2)."""
        if not self.window or self.start_offset > self.window.last.last:
            self._free.clear()
            self._noted.clear()
            return self.end_offset
        lowest = self.window.lowest_available() if self.rules.offers_unwritten else self._lowest_free()
        if self.gap is not None and self.gap_is_open:
            hole = self.window.lowest_hole(self.gap.start)
            if hole is not None and (lowest is None or hole < lowest):
                return hole
        return self.end_offset + 1 if lowest is None else lowest

    def _lowest_free(self) -> int | None:
        while self._free:
            batch = self.window.get(self._free[0])
            offset = None if batch is None else batch.first_free()
            if offset is not None:
                return offset
            self._noted.discard(heapq.heappop(self._free))
        return None

    @property
    def in_flight_count(self) -> int:
        """The span from start to end, gaps and settled records included (share-semantics 2.6)."""
        return self.window.span(self.start_offset, self.end_offset) if self.window else 0

    def can_acquire(self) -> bool:
        """Whether a fetch may find something: a record to deliver again, or room for new ones."""
        return self.next_fetch_offset() != self.end_offset + 1 or self.in_flight_count < self.in_flight_limit

    # Locks.

    def start_lock(self, first: int, last: int, *, now_ms: int) -> Lock:
        """A lock of full length for these offsets."""
        return self.timers.start(self, first, last, now_ms + self.lock_duration_ms)

    def split(self, batch: InFlightBatch) -> None:
        """One entry for each offset; each gets a lock of its own with the time that is left (share-semantics 1.3)."""
        whole = batch.whole
        if whole is None:
            return
        entries = []
        for offset in range(batch.first, batch.last + 1):
            entry = InFlight(whole.state, whole.delivery_count, whole.member_id)
            if whole.lock is not None:
                entry.lock = self.timers.start(self, offset, offset, whole.lock.deadline_ms)
            entries.append(entry)
        whole.cancel_lock()
        batch.replace(entries)

    def expire(self, *, now_ms: int) -> int:
        """Release every lock whose time has come.

        Args: now_ms: milliseconds of the cluster's clock, the clock that `acquire` was given.
        Returns: how many records were released; those past the delivery limit are archived, and count too.
        Source: share-semantics 1.3; a lock ends exactly at its deadline.
        """
        released = 0
        while (lock := self.timers.pop(now_ms=now_ms)) is not None:
            released += lock.holder.lock_expired(lock, now_ms=now_ms)
        return released

    def lock_expired(self, lock: Lock, *, now_ms: int) -> int:
        """Release what one lock covers. The change holds at once and is written afterwards, come what may."""
        floor = self.window.floor(lock.first)
        batches: list[StateBatch] = []
        if floor is not None:
            for batch in self.window.starting(floor.first, lock.last):
                if batch.whole is not None and batch.whole.state is State.ACQUIRED and self._start_is_inside(batch):
                    self.split(batch)
                for first, last, entry in self._entries(batch, lock.first, lock.last):
                    if entry.state is State.ACQUIRED:
                        batches.append(self._expire_entry(batch, first, last, entry, now_ms=now_ms))
        if batches:
            self._send_expired(self.prepare(batches, []), now_ms)
            self.wake()
        return sum(batch.last - batch.first + 1 for batch in batches)

    def _send_expired(self, write: PendingWrite, now_ms: int) -> None:
        """Have the end of locks written; what ends at one time is one write where writes are in runs."""
        if self.stored is not None:
            if self._expired is not None and self._expired[0] == now_ms:
                moved_writes.gather(self._expired[1], write)
                return
            self._expired = (now_ms, write)
        self.send(write, now_ms)

    def _expire_entry(self, home: InFlightBatch, first: int, last: int, entry: InFlight, *, now_ms: int) -> StateBatch:
        entry.cancel_lock()
        member_id = entry.member_id
        event = in_flight.release_event(
            entry, delivery_limit=self.delivery_limit, is_below_start=last < self.start_offset
        )
        in_flight.move(entry, event)
        self.notes.take(now_ms, Happening.EXPIRED, first, last, entry, member_id=member_id)
        if entry.state.is_terminal:
            self.delivery_complete_count += self.count_in_flight(first, last)
        else:
            self.note_free(home)
        return StateBatch(first, last, int(entry.state), entry.delivery_count)

    @staticmethod
    def _entries(batch: InFlightBatch, first: int, last: int) -> list[tuple[int, int, InFlight]]:
        """The whole batch, or its entries between two offsets, with the offsets that each stands for."""
        if batch.whole is not None:
            return [(batch.first, batch.last, batch.whole)]
        return [(offset, offset, entry) for offset, entry in batch.within(first, last)]

    def _start_is_inside(self, batch: InFlightBatch) -> bool:
        return batch.first < self.start_offset <= batch.last

    def release_member(self, member_id: str, *, now_ms: int) -> PendingWrite | None:
        """Give back all that a member holds, as its session ends; None when that is nothing (share-semantics 4.6)."""
        changes: list[Change] = []
        for batch in self.window:
            whole = batch.whole
            is_held = whole is not None and whole.state is State.ACQUIRED and whole.member_id == member_id
            if is_held and self._start_is_inside(batch):
                self.split(batch)
            for first, last, entry in self._entries(batch, batch.first, batch.last):
                if entry.member_id not in (member_id, NOBODY) and not self.rules.release_passes_others:
                    break
                if entry.state is State.ACQUIRED and entry.member_id == member_id:
                    event = in_flight.release_event(
                        entry, delivery_limit=self.delivery_limit, is_below_start=last < self.start_offset
                    )
                    changes.append(self.begin(batch, first, last, entry, (event, Happening.SESSION_CLOSED)))
                    if entry.state.is_terminal:
                        self.delivery_complete_count += self.count_in_flight(first, last)
        self.notes.changed(changes, member_id, now_ms=now_ms)
        return self.prepare([change.batch for change in changes], changes) if changes else None

    # Writes.

    def begin(
        self, home: InFlightBatch, first: int, last: int, entry: InFlight, move: tuple[in_flight.Event, Happening]
    ) -> Change:
        """Begin a move that must be written; until then the entry is in transition.

        Args: move: the event, and what the history calls it.
        """
        event, happening = move
        in_flight.begin(entry, event, self.delivery_limit)
        return Change(entry, StateBatch(first, last, int(entry.state), entry.delivery_count), home, happening)

    def prepare(self, batches: list[StateBatch], changes: list[Change]) -> PendingWrite:
        """A write of these batches with the start and the count as they are now (share-semantics 2.12)."""
        complete_count = self.delivery_complete_count if self.rules.counts_settled else -1
        start = self.start_offset
        if self.stored is not None:
            start, batches = moved_writes.content(self, self.stored, batches, changes)
        return PendingWrite(self, self.state_epoch, self.leader_epoch, start, complete_count, batches, changes)

    def prepare_start(self) -> PendingWrite:
        """A write of nothing but the start, where the reset strategy has chosen it."""
        if self.stored is not None:
            self.stored.has_start = False
        return PendingWrite(self, self.state_epoch, self.leader_epoch, self.start_offset, -1, [])

    def complete(self, write: PendingWrite, error: ErrorCode | None, *, now_ms: int) -> None:
        """The write arrived, or failed. A release after expiry holds in both cases (share-semantics 1.3, 3.3)."""
        if self.stored is not None:
            self.stored.answered(write.start_offset, error)
        if error is not None and write.changes:
            self.undo(write.changes)
            for entry, batch, _, _ in write.changes:
                self.notes.take(now_ms, Happening.ROLLED_BACK, batch.first, batch.last, entry)
            return
        for change in write.changes:
            in_flight.commit(change.entry)
            if change.entry.state is State.AVAILABLE:
                self.note_free(change.home)
        if start_offset.advance(self) and write.changes and self.rules.start_wakes:
            self.wake()  # Only a start that moved wakes a parked fetch; a mere release does not (correction 1).

    def undo(self, changes: list[Change]) -> None:
        """Roll back, and take what did not become terminal off the count again."""
        for change in changes:
            in_flight.roll_back(change.entry)
            if change.entry.state is State.AVAILABLE:
                self.note_free(change.home)
            if State(change.batch.state).is_terminal and not change.entry.state.is_terminal:
                self.delivery_complete_count -= self.count_in_flight(change.batch.first, change.batch.last)

    def move_log_start(self, log_start: int, *, now_ms: int = 0) -> None:
        """The log begins later now; a start that is not beyond ours changes nothing (share-semantics 2.9)."""
        start_offset.move_log_start(self, log_start, now_ms=now_ms)

    # Looking inside.

    def state_of(self, offset: int) -> State:
        """The state of any offset: archived below the start, available from the end on and in holes."""
        if offset < self.start_offset:
            return State.ARCHIVED
        batch = self.window.floor(offset)
        if batch is None or batch.last < offset:
            return State.AVAILABLE
        return batch.entry(offset).state

    def count_in_flight(self, first: int, last: int) -> int:
        """How many of these offsets are not below the start."""
        return max(0, last - max(self.start_offset, first) + 1)
