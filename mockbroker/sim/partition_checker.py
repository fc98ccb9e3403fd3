"""Checker of one incarnation of a share partition: each change of a record must have a valid reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from mockbroker.sim.coverage import Coverage
from mockbroker.sim.dead_letters import DeadLetterChecker
from mockbroker.sim.delivery_model import ACCEPT, GAP, RELEASE, TERMINAL_TYPES, DeliveryModel
from mockbroker.sim.violation import Violation
from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.in_flight_window import InFlightWindow
from mockbroker.state.share.share_partition import SharePartition
from mockbroker.state.timers import NEVER_MS


class ObservedState(NamedTuple):
    """The observed state of a record."""

    state: RecordState
    delivery_count: int
    member_id: str
    is_in_transition: bool

    @property
    def is_complete(self) -> bool:
        """Whether the record is terminal, and its write complete."""
        return self.state.is_terminal and not self.is_in_transition


#: The shortest and the longest lock that the simulation sets.
LOCK_MS_MIN, LOCK_MS_MAX = 1_000, 45_000
#: First and last offset of a run of records, and the fields of their `ObservedState`.
_ObservedRun = tuple[int, int, RecordState, int, str, bool]


@dataclass(slots=True, eq=False)
class PendingAcknowledgement:
    """Acknowledgements under way from one member: the type and the delivery count for each offset.

    state_epoch: of the state at that time. until_ms: the end of a renewed lock. renewed: the deliveries with such a
    lock. is_late: the request waited at the broker, behind an answer to a client with a quota that was exceeded.
    """

    member_id: str
    state_epoch: int = 0
    types: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    until_ms: int = 0
    renewed: list[HeldRecord] = field(default_factory=list)
    is_late: bool = False

    def mark_late(self, now_ms: int) -> None:
        """Locks are renewed later than now, and for the duration that is set then."""
        self.is_late = True
        for held in self.renewed:
            held.until_min, held.until_max = min(held.until_min, now_ms + LOCK_MS_MIN), NEVER_MS


@dataclass(slots=True)
class HeldRecord:
    """A delivery: the holder of the record, the earliest and latest end of its lock, and pending acknowledgements."""

    member_id: str
    delivery_count: int
    until_min: int
    until_max: int
    pending: list[PendingAcknowledgement] = field(default_factory=list)
    is_left: bool = False

    def types(self, offset: int) -> set[int]:
        """The acknowledge types of the holder that have no response yet."""
        return {ask.types[offset] for ask in self.pending}


@dataclass(slots=True)
class CheckContext:
    """Time and limits at the moment of a check.

    log_start: records below it may vanish. has_flipped_bits: offsets of batches may have been damaged on the disk: no
    checksum covers them, and records before a batch that seems to begin later count as compacted.
    """

    now_ms: int
    delivery_limit: int
    lock_ms: int
    log_start: int
    has_flipped_bits: bool = False


class PartitionChecker:
    """Holds the last observed states, and checks what has changed since. Source: share-semantics 1 to 3."""

    def __init__(
        self, partition: SharePartition, model: DeliveryModel, coverage: Coverage, dead_letters: DeadLetterChecker
    ) -> None:
        self.partition = partition
        self._dead_letters = dead_letters
        self._had_queue = partition.has_queue
        self._queues_version: tuple[int, bool] | None = None
        self.held_records: dict[int, HeldRecord] = {}
        self._model = model
        self._coverage = coverage
        self._states: dict[int, ObservedState] | None = None
        self._runs: list[_ObservedRun] = []
        #: The time of the first lock that may end; no record is checked for a lock that was not released before it.
        self._due_ms = 0
        self._start = partition.start_offset
        self._context = CheckContext(0, 0, 0, 0)

    def has_changed(self, now_ms: int, queues_version: tuple[int, bool]) -> bool:
        """Whether a check would find something else than the last one. queues_version: a new one may be a new queue."""
        window = self.partition.window
        is_same = self._states is not None and window.start_offset == self._start and now_ms < self._due_ms
        if queues_version != self._queues_version:
            self._queues_version = queues_version
            is_same = is_same and self.partition.has_queue == self._had_queue
        return not is_same or _observe_runs(window) != self._runs

    def renew_lock(self, held: HeldRecord, ask: PendingAcknowledgement, now_ms: int) -> None:
        """The renewal of a lock was answered without error."""
        if ask.is_late:
            held.until_max = now_ms + LOCK_MS_MAX
        else:
            held.until_min = held.until_max = ask.until_ms
        self._due_ms = min(self._due_ms, held.until_max)

    def check(self, context: CheckContext) -> None:
        """Compare with the last check. Raises: Violation."""
        self._runs = _observe_runs(self.partition.window)
        rows, before = _expand_runs(self._runs), self._states
        self._states, self._context = rows, context
        if before is None:
            self._model.record_load(_loaded_counts(rows), self.partition.start_offset)
        if rows != before:
            for offset in sorted(rows.keys() | (before or {}).keys()):
                row = rows.get(offset)
                was = None if before is None else before.get(offset)
                if row is not None and (before is None or row != was):
                    self._check_change(offset, was, row, is_first=before is None)
            for offset in (before or {}).keys() - rows.keys():
                if offset >= self.partition.start_offset:
                    self._fail(offset, "has vanished at or above the start")
        self._check_start(before)
        self._had_queue = self.partition.has_queue
        self._check_locks(rows)

    def _check_locks(self, rows: dict[int, ObservedState]) -> None:
        """No record is held beyond the end of its lock."""
        self._due_ms = NEVER_MS
        for offset, row in rows.items():
            if row.state is not RecordState.ACQUIRED or row.is_in_transition:
                continue
            held = self.held_records.get(offset)
            if held is None:
                continue
            if held.until_max <= self._context.now_ms:
                self._fail(offset, f"is still held by {row.member_id}, its lock ended at {held.until_max}")
            self._due_ms = min(self._due_ms, held.until_max)

    def check_archived(self) -> None:
        """At the end: no record is still on its way to the dead-letter queue."""
        for offset, row in (self._states or {}).items():
            if row.state is RecordState.ARCHIVING:
                self._fail(offset, f"is never archived: {row}")

    def held_delivery(self, offset: int, member_id: str) -> int | None:
        """The delivery count of a record that a member holds, by the last check; None if it does not hold it."""
        row = (self._states or {}).get(offset)
        return row.delivery_count if row is not None and row.member_id == member_id else None

    def _fail(self, offset: int, what: str) -> NoReturn:
        raise Violation(f"{self._model.key} offset {offset} {what}")

    def _check_change(self, offset: int, was: ObservedState | None, row: ObservedState, *, is_first: bool) -> None:
        if was is not None and was.is_complete and not is_first:
            self._fail(offset, f"was complete, and is {row}")
        if row.state is RecordState.ARCHIVING and is_first:
            self._coverage.count("archiving resumed")
        if row.state is RecordState.ARCHIVING and not row.is_in_transition:
            self._dead_letters.expect(self._model.key, offset, row.delivery_count)
        if row.state is RecordState.ACQUIRED and not row.is_in_transition:
            self._check_held(offset, was, row, is_first=is_first)
        elif not is_first:
            held = self.held_records.get(offset)
            if held is not None and was is not None and was.state is not RecordState.AVAILABLE:
                self._check_released(offset, was, row, held)
            elif was is not None and was.state is RecordState.AVAILABLE and not was.is_in_transition:
                self._check_lost(offset, was, row)

    def _check_held(self, offset: int, was: ObservedState | None, row: ObservedState, *, is_first: bool) -> None:
        held = self.held_records.get(offset)
        if was is not None and held is not None and row.delivery_count == was.delivery_count:
            if was.state is RecordState.AVAILABLE and not was.is_in_transition:
                self._fail(offset, f"was acquired without counting the delivery: {was}, {row}")
            if row.member_id != held.member_id:
                self._fail(offset, f"went from {held.member_id!r} to {row.member_id!r} without a delivery")
            self._coverage.count("write rolled back")
            return
        expected = 1 if was is None else was.delivery_count + 1
        if not is_first and row.delivery_count != expected:
            self._fail(offset, f"has delivery count {row.delivery_count}, not {expected}")
        is_held = was is not None and was.state is RecordState.ACQUIRED
        if is_held and held is not None and not (self._may_be_free(held) or RELEASE in held.types(offset)):
            self._fail(offset, f"is held by {held.member_id}, and was given to {row.member_id}")
        if row.delivery_count > 1:
            self._coverage.count("delivered again")
        until_ms = self._context.now_ms + self._context.lock_ms
        self.held_records[offset] = HeldRecord(row.member_id, row.delivery_count, until_ms, until_ms)
        limit, state_epoch = self._context.delivery_limit, self.partition.state_epoch
        self._model.record_acquired(offset, row.member_id, row.delivery_count, limit=limit, state_epoch=state_epoch)

    def _check_released(self, offset: int, was: ObservedState, row: ObservedState, held: HeldRecord) -> None:
        """The record was held, and is in transition, available or complete now."""
        if offset in self._aborted() and row.state is RecordState.ARCHIVED:
            return  # It may have been released, acquired again and found to be aborted, all in one step.
        if row.delivery_count != was.delivery_count:
            self._fail(offset, f"changed its delivery count without a delivery: {was}, {row}")
        types = held.types(offset)
        if row.state is RecordState.ACKNOWLEDGED and ACCEPT not in types:
            self._fail(offset, f"is acknowledged without an acknowledgement: {was}, {row}")
        if was.is_in_transition:
            self._check_written(offset, was, row, held)
        elif was.state is RecordState.ARCHIVING:
            if row.state is not RecordState.ARCHIVED:
                self._fail(offset, f"was on its way to the queue: {was}, {row}")
        elif row.state is RecordState.AVAILABLE:
            is_over = self._has_expired(held) and not row.is_in_transition
            if not (is_over or RELEASE in types or held.is_left):
                self._fail(offset, f"was released before its lock ended at {held.until_min}: {was}, {row}")
            if row.delivery_count >= self._context.delivery_limit:
                self._fail(offset, f"was released at the delivery limit {self._context.delivery_limit}: {row}")
        elif row.state in (RecordState.ARCHIVED, RecordState.ARCHIVING):
            self._check_archived(offset, was, row, held)
        if self._has_expired(held) and not (was.is_in_transition or row.is_in_transition):
            self._coverage.count("lock expired")

    def _check_written(self, offset: int, was: ObservedState, row: ObservedState, held: HeldRecord) -> None:
        """The write of a change has succeeded or failed."""
        if was.state is not row.state and not row.is_in_transition:
            self._coverage.count("write failed after the lock")
        # A failed write ends this way too if the lock has expired meanwhile, or if compaction has removed the record;
        # below the log start nothing is written.
        is_excused = self._has_expired(held) and row.delivery_count >= self._limit_min(offset)
        is_excused = is_excused or offset in self._model.log_contents().lost
        is_excused = is_excused or offset < self._context.log_start or self._is_stored(offset)
        if row.is_complete and was.state is row.state and not is_excused:
            self._fail(offset, f"counts as written, and is not stored: {was}, {row}")

    def _check_archived(self, offset: int, was: ObservedState, row: ObservedState, held: HeldRecord) -> None:
        """A held record is archived: by its holder, or released at the delivery limit, or below the start."""
        types = held.types(offset)
        was_released = RELEASE in types or self._may_be_free(held)
        is_spent = row.delivery_count >= self._context.delivery_limit
        is_below = offset < max(self._context.log_start, self.partition.start_offset)
        has_queue = self._had_queue and self.partition.has_queue and not is_below and GAP not in types
        if has_queue and row.state is RecordState.ARCHIVED and offset not in self._model.log_contents().lost:
            self._fail(offset, f"was archived, and not sent to the queue: {was}, {row}")
        if was_released and (is_spent or is_below):
            self._coverage.count("archived at the limit", int(is_spent))
        elif was_released and offset in self._model.log_contents().lost:
            self._coverage.count("archived by compaction")
        elif not types & set(TERMINAL_TYPES):
            self._fail(offset, f"was archived without a reason: {was}, {row}")

    def _check_lost(self, offset: int, was: ObservedState, row: ObservedState) -> None:
        """The record was available: it may only be archived, when it is removed from the log."""
        if row.state is RecordState.AVAILABLE and row.delivery_count == was.delivery_count:
            return
        contents = self._model.log_contents()
        is_lost = offset < self._context.log_start or offset in contents.aborted or offset in contents.lost
        is_lost = is_lost or self._context.has_flipped_bits
        if row.state is not RecordState.ARCHIVED or not is_lost:
            self._fail(offset, f"was free, and is {row}")
        if offset in contents.lost:
            self._coverage.count("archived by compaction")

    def _check_start(self, before: dict[int, ObservedState] | None) -> None:
        start, log_start = self.partition.start_offset, self._context.log_start
        if start < self._start and self._start > log_start:
            # Below the log start 4.3.0 moves it back: once everything in flight from before is complete, the start is
            # the end of that window (SharePartition.maybeUpdateCachedStateAndOffsets), and the next fetch corrects it.
            self._fail(start, f"is the start, which was {self._start}")
        if start > self._start:
            self._coverage.count("start moved")
        for offset in self._passed_offsets(before) if before is not None else ():
            self._check_skipped(offset, before.get(offset) if before else None)
        self._start = start

    def _passed_offsets(self, before: dict[int, ObservedState]) -> Iterable[int]:
        """The offsets that the start has passed.

        A base offset of which a high bit has flipped is far behind the end of the log: what is between has no record
        now, and what is written there later is not delivered.
        """
        passed = range(max(self._start, self._context.log_start), self.partition.start_offset)
        if not self._context.has_flipped_bits:
            return passed
        end = max(passed.start, self._model.log_contents().end)
        if end >= passed.stop:
            return passed
        self._model.skipped_ranges.append(range(end, passed.stop))
        return [*range(passed.start, end), *(offset for offset in sorted(before) if end <= offset < passed.stop)]

    def _check_skipped(self, offset: int, was: ObservedState | None) -> None:
        """The start has moved over a record: the record must be complete, and stored as such."""
        if (was is not None and was.is_complete) or offset in self._aborted():
            return
        if was is not None and was.state is RecordState.ARCHIVING and not was.is_in_transition:
            return  # The queue has answered.
        if was is None and self._model.is_skipped(offset):
            return
        if was is None and offset in self._model.log_contents().lost:
            self._coverage.count("start passed a gap")
            return
        if was is None and self._context.has_flipped_bits:
            # The leader has read a batch that seems to begin later, and the start is the first offset that it acquires
            # (SharePartition.acquireNewBatchRecords): nothing delivers what is before it.
            self._model.skipped_offsets.add(offset)
            self._coverage.count("start passed a damaged batch")
            return
        held = self.held_records.get(offset)
        if was is None or held is None or was.state is RecordState.AVAILABLE:
            self._fail(offset, f"was passed by the start, and is not complete: {was}")
        is_spent = was.delivery_count >= self._limit_min(offset)
        if is_spent and self._may_be_free(held):
            return  # Archived by the lock, whose write may fail without changing anything.
        if not (held.types(offset) or held.is_left):
            self._fail(offset, f"was passed by the start, and is held by {held.member_id}: {was}")
        if not self._is_stored(offset):
            self._fail(offset, f"was passed by the start while its write is under way: {was}")

    def _aborted(self) -> set[int]:
        """Offsets that are dropped as the log is read: aborted records, and markers where leaders read them."""
        contents = self._model.log_contents()
        reads_markers = self.partition.rules.acquisition.marker_reader is not None
        return contents.aborted | contents.markers if reads_markers else contents.aborted

    def _has_expired(self, held: HeldRecord) -> bool:
        return held.until_min <= self._context.now_ms

    def _may_be_free(self, held: HeldRecord) -> bool:
        return held.is_left or self._has_expired(held)

    def _is_stored(self, offset: int) -> bool:
        return self._model.is_stored(offset, self.partition.state_epoch)

    def _limit_min(self, offset: int) -> int:
        """The lowest delivery limit since the record's first delivery; 0 if the start was altered since."""
        record = self._model.records.get(offset)
        return 0 if record is None else record.limit_min


def _loaded_counts(rows: dict[int, ObservedState]) -> dict[int, int]:
    """The loaded delivery counts: of a record that is held already, without this delivery."""
    return {offset: row.delivery_count - (row.state is RecordState.ACQUIRED) for offset, row in rows.items()}


def _observe_runs(window: InFlightWindow) -> list[_ObservedRun]:
    """The states in a window, of each share partition at each deadline: only what has changed is compared by record."""
    runs: list[_ObservedRun] = []
    for batch in window:
        entry, first = batch.batch_state, batch.first
        if entry is not None:
            is_in_transition = entry.rollback is not None
            runs.append((first, batch.last, entry.state, entry.delivery_count, entry.member_id, is_in_transition))
            continue
        for offset, entry in enumerate(batch.offset_states or (), first):
            is_in_transition = entry.rollback is not None
            runs.append((offset, offset, entry.state, entry.delivery_count, entry.member_id, is_in_transition))
    return runs


def _expand_runs(runs: list[_ObservedRun]) -> dict[int, ObservedState]:
    rows: dict[int, ObservedState] = {}
    for first, last, state, delivery_count, member_id, is_in_transition in runs:
        observed = ObservedState(state, delivery_count, member_id, is_in_transition)
        rows.update(dict.fromkeys(range(first, last + 1), observed))
    return rows
