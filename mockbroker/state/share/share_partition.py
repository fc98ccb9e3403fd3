"""One share partition on its leader: loading, acquisition locks, and writes of its in-flight window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto

from kwire.error_codes import ErrorCode
from mockbroker.state.settings import Settings, read_int
from mockbroker.state.share.acquisition_locks import AcquisitionLock, AcquisitionLocks
from mockbroker.state.share.dead_letter import DeadLetter, DeadLetterCause
from mockbroker.state.share.in_flight_batch import NO_MEMBER, InFlightBatch, InFlightState, RecordEvent, RecordState
from mockbroker.state.share.in_flight_window import InFlightWindow, StateGap
from mockbroker.state.share.partition_history import PartitionHistory
from mockbroker.state.share.pending_write import PendingWrite, StateChange
from mockbroker.state.share.share_history import UNBOUNDED, HistoryEvent, ShareHistory
from mockbroker.state.share.share_rules import RELEASED, ShareRules
from mockbroker.state.share.state_batches import StateBatch

#: A larger stored batch is refused: any client may write state, and splitting a batch takes memory for each offset.
_MAX_STORED_BATCH_SIZE = 1 << 21


#: An event, and its name in the history.
ChangeReason = tuple[RecordEvent, HistoryEvent]


class PartitionStatus(Enum):
    """Life cycle of a share partition in its leader's memory."""

    EMPTY = auto()
    INITIALIZING = auto()
    ACTIVE = auto()
    FAILED = auto()
    FENCED = auto()


def _complete_at_once(partition: SharePartition, write: PendingWrite, now_ms: int) -> None:
    """A partition without a share coordinator: every write succeeds at once."""
    partition.complete_write(write, None, now_ms=now_ms)


def _archive_at_once(partition: SharePartition, dead_letter: DeadLetter, now_ms: int) -> None:
    """A partition without a dead-letter queue manager: every dead letter counts as written."""
    partition.complete_write(
        partition.archive_dead_letter(dead_letter, is_written=True, now_ms=now_ms), None, now_ms=now_ms
    )


class SharePartition:
    """Source: share-semantics 1 and 2. Acquisition and acknowledgement are in the modules of those names.

    send_dead_letter: sends records to the group's dead-letter queue, and archives them afterwards.
    serves_dead_letters: whether the cluster has dead-letter queues now (share.version 2).
    """

    def __init__(
        self,
        settings: Settings,
        *,
        key: tuple[str, bytes, int] = ("", bytes(16), 0),
        leader_epoch: int = 0,
        locks: AcquisitionLocks | None = None,
        send_write: Callable[[SharePartition, PendingWrite, int], None] = _complete_at_once,
        send_dead_letter: Callable[[SharePartition, DeadLetter, int], None] = _archive_at_once,
        serves_dead_letters: Callable[[], bool] = lambda: True,
        wake: Callable[[], None] = lambda: None,
        history: ShareHistory | None = None,
        rules: ShareRules = RELEASED,
    ) -> None:
        self.rules = rules
        self.key = key
        self.group_id, self.topic_id, self.partition_index = key
        self.leader_epoch = leader_epoch
        self.status = PartitionStatus.EMPTY
        self.load_error: ErrorCode | None = None
        self.state_epoch = 0
        self.known_offset: int | None = None  # The offset that the last fetch has looked up in the log.
        self.history = PartitionHistory(ShareHistory() if history is None else history, key)
        self.locks = AcquisitionLocks() if locks is None else locks
        self.window = InFlightWindow(self.locks, self.history)
        self.send_write = send_write
        self._send_dead_letter = send_dead_letter
        self._serves_dead_letters = serves_dead_letters
        self.wake = wake
        create_markers, create_deltas = rules.acquisition.marker_reader, rules.state.delta_writer
        self.marker_reader = None if create_markers is None else create_markers()
        self._delta_writer = None if create_deltas is None else create_deltas()
        self._expired_write: tuple[int, PendingWrite] | None = None  # The last write of expired locks, and its time.
        self._settings = settings

    # The group's configuration as it is now.

    @property
    def delivery_limit(self) -> int:
        """How often a record is delivered before it is archived."""
        return read_int(self._settings, "share.delivery.count.limit")

    @property
    def lock_duration_ms(self) -> int:
        """The duration of a lock that starts now; running locks keep their deadline."""
        return read_int(self._settings, "share.record.lock.duration.ms")

    @property
    def in_flight_limit(self) -> int:
        """The maximum of offsets between start and end."""
        return read_int(self._settings, "share.partition.max.record.locks")

    @property
    def allows_renewal(self) -> bool:
        """Whether RENEW is accepted."""
        return bool(self._settings["share.renew.acknowledge.enable"])

    @property
    def has_queue(self) -> bool:
        """Whether rejected and exhausted records go to a dead-letter queue; its topic is validated later (9.1)."""
        return self._serves_dead_letters() and bool(self._settings.get("errors.deadletterqueue.topic.name"))

    # The window.

    @property
    def start_offset(self) -> int:
        """The start offset of the window."""
        return self.window.start_offset

    @property
    def end_offset(self) -> int:
        """The end offset of the window: inclusive, or the next offset to read if the window is empty."""
        return self.window.end_offset

    def next_fetch_offset(self) -> int:
        """The offset from which the log is read next (share-semantics 2.2)."""
        return self.window.next_fetch_offset(includes_transitions=self.rules.fetch.looks_for_unwritten_releases)

    def next_acquirable_offset(self) -> int | None:
        """`next_fetch_offset`, if there is something to deliver again or the limit allows new records; else None."""
        window, offset = self.window, self.next_fetch_offset()
        may_acquire = offset != window.end_offset + 1 or window.in_flight_count < self.in_flight_limit
        return offset if may_acquire else None

    def can_acquire(self) -> bool:
        """Whether a fetch may return records."""
        return self.next_acquirable_offset() is not None

    # Loading and fencing.

    def load_state(
        self, start: int, state_epoch: int, batches: Sequence[StateBatch], *, now_ms: int = 0
    ) -> ErrorCode | None:
        """Set the state that the share coordinator has stored; an error if it is invalid (share-semantics 2.1)."""
        window, fetches_gaps = self.window, self.rules.acquisition.fetches_state_gaps
        window.start_offset, self.state_epoch = start, state_epoch
        new = InFlightState(RecordState.AVAILABLE, 0, NO_MEMBER)
        self.history.record_event(now_ms, HistoryEvent.LOADED, start, UNBOUNDED, new)
        gap_start, next_offset = None, start
        for stored in batches:
            is_sound = stored.first >= start and 0 <= stored.last - stored.first < _MAX_STORED_BATCH_SIZE
            if not is_sound or not RecordState.AVAILABLE <= stored.state <= RecordState.ARCHIVED:
                return self.set_load_error(ErrorCode.UNKNOWN_SERVER_ERROR)
            if gap_start is None and fetches_gaps and window.count_offsets(next_offset, stored.first - 1) > 0:
                gap_start = next_offset
            next_offset = stored.last + 1
            state = InFlightState(RecordState(stored.state), stored.delivery_count, NO_MEMBER)
            batch = InFlightBatch(stored.first, stored.last, state)
            window.put(batch)
            self.history.record_event(now_ms, HistoryEvent.LOADED, stored.first, stored.last, state)
            if state.state.is_terminal:
                window.delivery_complete_count += len(batch)
            elif state.state is RecordState.AVAILABLE:
                window.mark_acquirable(batch)
        self.status = PartitionStatus.ACTIVE
        window.end_offset = start
        if self._delta_writer is not None:
            self._delta_writer.reset_stored_range(start, next_offset)
        if window:
            window.end_offset = window.last.last
            if gap_start is not None:
                window.gap = StateGap(gap_start, window.end_offset)
            window.advance_start()
        return None

    def set_load_error(self, error: ErrorCode) -> ErrorCode:
        """The state could not be read; the partition is not used any more."""
        self.status, self.load_error = PartitionStatus.FAILED, error
        return error

    def fence(self) -> None:
        """Another leader, or a reload, takes over: nothing is acquired from this object any more."""
        self.status = PartitionStatus.FENCED

    # Locks.

    def start_lock(self, first: int, last: int, *, now_ms: int) -> AcquisitionLock:
        """A lock of full duration for these offsets."""
        return self.locks.start_lock(self, first, last, now_ms + self.lock_duration_ms)

    def expire(self, *, now_ms: int) -> int:
        """Release all locks whose deadline is reached.

        Args: now_ms: milliseconds of the cluster's clock, the clock that `acquire` received.
        Returns: how many records were released; those archived at the delivery limit count too.
        Source: share-semantics 1.3; a lock ends exactly at its deadline.
        """
        released_count = 0
        while (lock := self.locks.pop_expired(now_ms=now_ms)) is not None:
            released_count += lock.partition.release_expired_lock(lock, now_ms=now_ms)
        return released_count

    def expire_all_locks(self, *, now_ms: int) -> int:
        """Release all locks now, as at their deadlines. Returns: how many records were released."""
        return sum(self.release_expired_lock(lock, now_ms=now_ms) for lock in self.locks.take_locks(self))

    def release_expired_lock(self, lock: AcquisitionLock, *, now_ms: int) -> int:
        """Release what one lock covers. The change is final at once and written afterwards; no failure undoes it."""
        window = self.window
        floor = window.floor(lock.first)
        written: list[StateBatch] = []
        dead_letters: list[DeadLetter] = []
        if floor is not None:
            for batch in window.starting_between(floor.first, lock.last):
                whole = batch.batch_state
                if whole is not None and whole.state is RecordState.ACQUIRED and window.is_split_by_start(batch):
                    window.split_batch(batch)
                for first, last, state in batch.entries(lock.first, lock.last):
                    if state.state is RecordState.ACQUIRED:
                        written.append(self._release(batch, first, last, state, now_ms))
                        if written[-1].state == RecordState.ARCHIVING:
                            dead_letters.append(_exhausted_dead_letter(state, first, last))
        if written:
            write = self.prepare_write(written, [])
            write.dead_letters = dead_letters
            self._send_expired(write, now_ms)
            self.wake()
        return sum(batch.last - batch.first + 1 for batch in written)

    def _send_expired(self, write: PendingWrite, now_ms: int) -> None:
        """Send the write of an expired lock; a delta writer merges those of one time."""
        if self._delta_writer is not None:
            if self._expired_write is not None and self._expired_write[0] == now_ms:
                self._delta_writer.merge_writes(self._expired_write[1], write)
                return
            self._expired_write = (now_ms, write)
        self.send_write(self, write, now_ms)

    def _release(self, batch: InFlightBatch, first: int, last: int, state: InFlightState, now_ms: int) -> StateBatch:
        state.cancel_lock()
        member_id = state.member_id
        is_below_start = last < self.window.start_offset
        state.apply_event(self.release_event(state, is_below_start=is_below_start))
        self.history.record_event(now_ms, HistoryEvent.EXPIRED, first, last, state, member_id=member_id)
        if state.state.is_terminal:
            self.window.delivery_complete_count += self.window.count_from_start(first, last)
        elif state.state is RecordState.AVAILABLE:
            self.window.mark_acquirable(batch)
        return StateBatch(first, last, int(state.state), state.delivery_count)

    def release_event(self, state: InFlightState, *, is_below_start: bool) -> RecordEvent:
        """What a release does to a record: with a queue, the end of its deliveries is a dead letter (1.2, 9.1)."""
        return state.release_event(
            delivery_limit=self.delivery_limit, is_below_start=is_below_start, has_queue=self.has_queue
        )

    def release_member(self, member_id: str, *, now_ms: int) -> PendingWrite | None:
        """Release all that a member holds when its session ends; None if it holds nothing (share-semantics 4.6)."""
        window, skips_others = self.window, self.rules.acknowledgement.release_skips_other_members
        changes: list[StateChange] = []
        for batch in window:
            whole = batch.batch_state
            is_held = whole is not None and whole.state is RecordState.ACQUIRED and whole.member_id == member_id
            if is_held and window.is_split_by_start(batch):
                window.split_batch(batch)
            for first, last, state in batch.entries(batch.first, batch.last):
                if state.member_id not in (member_id, NO_MEMBER) and not skips_others:
                    break
                if state.state is RecordState.ACQUIRED and state.member_id == member_id:
                    is_below_start = last < window.start_offset
                    event = self.release_event(state, is_below_start=is_below_start)
                    reason = (event, HistoryEvent.SESSION_CLOSED)
                    changes.append(self.start_change(batch, first, last, state, reason))
                    if state.state.is_terminal:
                        window.delivery_complete_count += window.count_from_start(first, last)
        self.history.record_changes(changes, member_id, now_ms=now_ms)
        return self.prepare_write([change.written for change in changes], changes) if changes else None

    # Writes.

    def start_change(
        self, batch: InFlightBatch, first: int, last: int, state: InFlightState, reason: ChangeReason
    ) -> StateChange:
        """Start a transition that must be written; the state is in transition until then."""
        event, history_event = reason
        state.start_transition(event, self.delivery_limit)
        return StateChange(state, StateBatch(first, last, int(state.state), state.delivery_count), batch, history_event)

    def prepare_write(self, batches: list[StateBatch], changes: list[StateChange]) -> PendingWrite:
        """A write of these batches with the start and the count as they are now (share-semantics 2.12)."""
        window = self.window
        complete_count = window.delivery_complete_count if self.rules.state.stores_delivery_complete_count else -1
        start = window.start_offset
        if self._delta_writer is not None:
            start, batches = self._delta_writer.build_write(window, batches, changes)
        return PendingWrite(self.state_epoch, self.leader_epoch, start, complete_count, batches, changes)

    def prepare_start_write(self) -> PendingWrite:
        """A write of the start alone, where the reset strategy has chosen it."""
        if self._delta_writer is not None:
            self._delta_writer.require_start()
        return PendingWrite(self.state_epoch, self.leader_epoch, self.window.start_offset, -1, [])

    def complete_write(self, write: PendingWrite, error: ErrorCode | None, *, now_ms: int) -> None:
        """The write succeeded or failed. A release after expiry is final in both cases (share-semantics 1.3, 3.3)."""
        if self._delta_writer is not None:
            self._delta_writer.record_result(write.start_offset, error)
        if error is not None and write.changes:
            self.roll_back(write.changes)
            for state, written, _, _ in write.changes:
                self.history.record_event(now_ms, HistoryEvent.ROLLED_BACK, written.first, written.last, state)
            return
        dead_letters = write.dead_letters
        for change in write.changes:
            change.state.commit_transition()
            if change.state.state is RecordState.AVAILABLE:
                self.window.mark_acquirable(change.batch)
            elif change.state.state is RecordState.ARCHIVING:
                dead_letters = [*dead_letters, _dead_letter_of(change)]
        has_moved = self.window.advance_start()
        is_seen = write.changes or write.is_archival
        if has_moved and is_seen and self.rules.acknowledgement.start_advance_wakes_fetches:
            self.wake()  # Only a start that moved wakes a parked fetch; a mere release does not (share-semantics 3.4).
        for dead_letter in dead_letters:
            self._send_dead_letter(self, dead_letter, now_ms)

    # Dead letters.

    def resume_dead_letters(self, *, now_ms: int) -> None:
        """After a load: send the records again that the previous leader was sending to the queue (9.5)."""
        if not self.rules.dead_letters.resumes_archiving:
            return
        for batch in list(self.window):
            for first, last, state in batch.entries(batch.first, batch.last):
                if state.state is RecordState.ARCHIVING:
                    is_exhausted = state.delivery_count >= self.delivery_limit
                    cause = DeadLetterCause.DELIVERY_LIMIT if is_exhausted else DeadLetterCause.REJECTED
                    self._send_dead_letter(self, DeadLetter(state, first, last, state.delivery_count, cause), now_ms)

    def archive_dead_letter(self, dead_letter: DeadLetter, *, is_written: bool, now_ms: int) -> PendingWrite:
        """Archive the records of a dead letter, whether the queue has them or not; the write that stores it (9.1)."""
        state, first, last = dead_letter.state, dead_letter.first, dead_letter.last
        state.apply_event(RecordEvent.ARCHIVE)
        event = HistoryEvent.DEAD_LETTERED if is_written else HistoryEvent.DEAD_LETTER_FAILED
        self.history.record_event(now_ms, event, first, last, state)
        self.window.delivery_complete_count += self.window.count_from_start(first, last)
        write = self.prepare_write([StateBatch(first, last, int(state.state), dead_letter.delivery_count)], [])
        write.is_archival = True
        return write

    def roll_back(self, changes: list[StateChange]) -> None:
        """Undo changes, and subtract from the count what is not terminal any more.

        A dead letter that cannot be stored before its lock ends is archived, but not counted, as in Kafka 4.4.0 (the
        scenario a_rejection_is_not_stored_before_its_lock_ends).
        """
        for state, written, batch, _ in changes:
            state.roll_back_transition()
            if state.state is RecordState.AVAILABLE:
                self.window.mark_acquirable(batch)
            if RecordState(written.state).is_terminal and not state.state.is_terminal:
                self.window.delivery_complete_count -= self.window.count_from_start(written.first, written.last)


def _dead_letter_of(change: StateChange) -> DeadLetter:
    """The dead letter of a change to ARCHIVING that is stored."""
    _, (first, last, _, delivery_count), _, event = change
    cause = DeadLetterCause.REJECTED if event is HistoryEvent.REJECTED else DeadLetterCause.DELIVERY_LIMIT
    return DeadLetter(change.state, first, last, delivery_count, cause)


def _exhausted_dead_letter(state: InFlightState, first: int, last: int) -> DeadLetter:
    return DeadLetter(state, first, last, state.delivery_count, DeadLetterCause.DELIVERY_LIMIT)
