"""A share partition against a plain table of offsets, over random histories of two members.

The table does not say which records a fetch gets; it says which it may get, and everything that follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.state.share.acknowledgement import AcknowledgementBatch, BrokenRequestError, acknowledge_records
from mockbroker.state.share.acquisition import AcquiredRun, AcquireMode, Span, acquire_records
from mockbroker.state.share.dead_letter import DeadLetter, DeadLetterCause
from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.pending_write import PendingWrite
from mockbroker.state.share.share_partition import SharePartition
from mockbroker.state.share.share_rules import RELEASED, ShareRules
from tests.support.brokers.share_partitions import settings

pytestmark = pytest.mark.slow

LOCK_MS = 30_000
STATES = {0: RecordState.ARCHIVED, 1: RecordState.ACKNOWLEDGED, 2: RecordState.AVAILABLE, 3: RecordState.ARCHIVED}


@dataclass
class Row:
    """One offset: `before` is what a failed write restores."""

    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    owner: str = ""
    deadline_ms: int | None = None
    before: tuple[RecordState, str] | None = None

    @property
    def is_free(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.before is None

    @property
    def is_settled(self) -> bool:
        return self.state.is_terminal and self.before is None


@dataclass
class Writing:
    """A write under way, and the rows that wait for it; no rows for expired locks."""

    write: PendingWrite
    rows: list[Row] = field(default_factory=list)


class ShareHistory(RuleBasedStateMachine):
    """Two members fetch, acknowledge, stall and leave; writes arrive late, or fail. share_rules: of the edition.

    With a dead-letter queue, dead letters are answered late too; each record goes there once.
    """

    share_rules: ClassVar[ShareRules] = RELEASED
    #: Whether clusters with these rules can have dead-letter queues.
    has_queues: ClassVar[bool] = True

    @initialize(limit=st.integers(2, 5), has_queue=st.booleans())
    def begin(self, limit: int, has_queue: bool) -> None:
        self.limit = limit
        has_queue = has_queue and self.has_queues
        self.spent = RecordState.ARCHIVING if has_queue else RecordState.ARCHIVED
        self.dead_letters: list[DeadLetter] = []
        self.causes: dict[int, DeadLetterCause] = {}
        self.dead_lettered: set[int] = set()
        #: Archived records without a dead letter that Kafka does not count.
        self.uncounted = 0
        self.log: list[Span] = []
        self.rows: dict[int, Row] = {}
        self.writing: list[Writing] = []
        self.expired: list[PendingWrite] = []
        self.now_ms = 0
        queue = {"errors.deadletterqueue.topic.name": "dlq.t" if has_queue else ""}
        self.partition = SharePartition(
            {**settings(delivery_limit=limit, in_flight_limit=60), **queue},
            send_write=lambda partition, write, at_ms: self.expired.append(write),
            send_dead_letter=lambda partition, dead_letter, at_ms: self._note_dead_letter(dead_letter),
            rules=self.share_rules,
        )
        self.partition.load_state(0, 0, [])

    @rule(size=st.integers(1, 8))
    def produce(self, size: int) -> None:
        start = self.log[-1].last_offset + 1 if self.log else 0
        if start < 200:
            self.log.append(Span(start, start + size - 1))

    @rule(
        member=st.sampled_from(["m1", "m2"]),
        mode=st.sampled_from(list(AcquireMode)),
        max_records=st.integers(1, 30),
        batch_size=st.integers(1, 30),
        read=st.integers(1, 4),
    )
    def fetch(self, member: str, mode: AcquireMode, max_records: int, batch_size: int, read: int) -> None:
        partition = self.partition
        if not partition.can_acquire():
            assert not any(row.is_free for offset, row in self.rows.items() if offset >= partition.start_offset)
            return
        offset, end = partition.next_fetch_offset(), partition.end_offset
        found = [span for span in self.log if span.last_offset >= offset][:read]
        acquired = acquire_records(
            partition, member, found, now_ms=self.now_ms, mode=mode, batch_size=batch_size, max_records=max_records
        )
        self._note(acquired, member, mode, max_records)
        for new in range(end if not self.rows else end + 1, partition.end_offset + 1):
            if partition.window:
                self.rows.setdefault(new, Row())

    def _note(self, acquired: list[AcquiredRun], member: str, mode: AcquireMode, max_records: int) -> None:
        offsets = [offset for run in acquired for offset in range(run.first, run.last + 1)]
        assert offsets == sorted(set(offsets))
        assert mode is AcquireMode.BATCH_OPTIMIZED or len(offsets) <= max_records
        assert all(offset >= self.partition.start_offset for offset in offsets)
        for run in acquired:
            for offset in range(run.first, run.last + 1):
                row = self.rows.setdefault(offset, Row())
                assert row.is_free
                row.state, row.owner, row.count = RecordState.ACQUIRED, member, row.count + 1
                row.deadline_ms = self.now_ms + LOCK_MS
                assert run.delivery_count == row.count <= self.limit
        # A record at its last attempt is delivered alone, unless the limit excludes that.
        throttles = self.share_rules.acquisition.throttles_redelivery and self.limit > 2
        if throttles and any(run.delivery_count == self.limit for run in acquired):
            assert len(offsets) == 1

    @rule(
        member=st.sampled_from(["m1", "m2"]),
        ahead=st.integers(-3, 12),
        size=st.integers(1, 8),
        kind=st.integers(0, 3),
        mixed=st.lists(st.integers(0, 3), min_size=8, max_size=8) | st.none(),
    )
    def acknowledge(self, member: str, ahead: int, size: int, kind: int, mixed: list[int] | None) -> None:
        first = max(0, self.partition.start_offset + ahead)
        last = first + size - 1
        kinds = [kind] * size if mixed is None else mixed[:size]
        given = AcknowledgementBatch(first, last, [kind] if mixed is None else kinds)
        expected = self._expected(member, first, last)
        try:
            settlement = acknowledge_records(self.partition, member, [given], now_ms=self.now_ms)
        except BrokenRequestError:
            assert expected is ErrorCode.UNKNOWN_SERVER_ERROR
            return
        assert (None if settlement.error is None else settlement.error.code) == expected
        if settlement.write is not None:
            writing = Writing(settlement.write)
            for offset in range(max(first, self.partition.start_offset), last + 1):
                row = self.rows[offset]
                row.before = (row.state, row.owner)
                kind = kinds[offset - first]
                is_dead = kind == 3 or (kind == 2 and row.count >= self.limit)
                row.state, row.owner = self.spent if is_dead else STATES[kind], ""
                self.causes[offset] = DeadLetterCause.REJECTED if kind == 3 else DeadLetterCause.DELIVERY_LIMIT
                writing.rows.append(row)
            self.writing.append(writing)

    def _expected(self, member: str, first: int, last: int) -> ErrorCode | None:
        start = self.partition.start_offset
        if last < start:
            return None
        if not self.partition.window:
            return ErrorCode.UNKNOWN_SERVER_ERROR if first < start else ErrorCode.INVALID_RECORD_STATE
        if last not in self.rows:
            return ErrorCode.INVALID_REQUEST
        for offset in range(max(first, start), last + 1):
            row = self.rows[offset]
            if row.state is not RecordState.ACQUIRED or row.before is not None or row.owner != member:
                return ErrorCode.INVALID_RECORD_STATE
        return None

    @rule(which=st.integers(0, 5), fails=st.booleans())
    def write_arrives(self, which: int, fails: bool) -> None:
        if not self.writing:
            return
        writing = self.writing.pop(which % len(self.writing))
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if fails else None
        self.partition.complete_write(writing.write, error, now_ms=self.now_ms)
        for row in writing.rows:
            before, row.before = row.before, None
            if not fails or before is None:
                row.deadline_ms = None
            elif row.deadline_ms is not None and row.deadline_ms <= self.now_ms:
                is_spent = row.count >= self.limit
                self.uncounted += is_spent and row.state is RecordState.ARCHIVING
                row.state = RecordState.ARCHIVED if is_spent else RecordState.AVAILABLE
                row.owner, row.deadline_ms = "", None
            else:
                row.state, row.owner = before

    @rule(member=st.sampled_from(["m1", "m2"]))
    def session_ends(self, member: str) -> None:
        held = self._held(member)
        write = self.partition.release_member(member, now_ms=self.now_ms)
        assert (write is None) == (not held)
        if write is not None:
            for row in held:
                row.before = (row.state, row.owner)
                row.state, row.owner = self.spent if row.count >= self.limit else RecordState.AVAILABLE, ""
            self._note_exhausted(held)
            self.writing.append(Writing(write, held))

    def _held(self, member: str) -> list[Row]:
        """The records that the end of a session releases: all, except behind records of others in the same batch."""
        held = []
        for batch in self.partition.window:
            for offset in range(batch.first, batch.last + 1):
                row = self.rows.get(offset)
                if row is None:
                    continue
                if row.owner not in (member, "") and not self.share_rules.acknowledgement.release_skips_other_members:
                    break
                if row.owner == member and row.before is None:
                    held.append(row)
        return held

    @rule(duration_ms=st.sampled_from([1, 10_000, LOCK_MS - 1, LOCK_MS]))
    def time_passes(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        due = [row for row in self.rows.values() if row.deadline_ms is not None and row.deadline_ms <= self.now_ms]
        due = [row for row in due if row.before is None]
        assert self.partition.expire(now_ms=self.now_ms) == len(due)
        for row in due:
            row.state = self.spent if row.count >= self.limit else RecordState.AVAILABLE
            row.owner, row.deadline_ms = "", None
        self._note_exhausted(due)

    def _note_exhausted(self, rows: list[Row]) -> None:
        due = {id(row) for row in rows}
        exhausted = [offset for offset, row in self.rows.items() if id(row) in due]
        self.causes.update(dict.fromkeys(exhausted, DeadLetterCause.DELIVERY_LIMIT))

    @rule(fails=st.booleans())
    def expiry_writes_arrive(self, fails: bool) -> None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if fails else None
        while self.expired:
            self.partition.complete_write(self.expired.pop(0), error, now_ms=self.now_ms)

    def _note_dead_letter(self, dead_letter: DeadLetter) -> None:
        """The partition sends a dead letter: of archiving records, whose state is stored, for the first time."""
        for offset in range(dead_letter.first, dead_letter.last + 1):
            assert offset not in self.dead_lettered
            assert self.rows[offset].state is RecordState.ARCHIVING
            assert (dead_letter.cause, dead_letter.delivery_count) == (self.causes[offset], self.rows[offset].count)
            self.dead_lettered.add(offset)
        self.dead_letters.append(dead_letter)

    @rule(which=st.integers(0, 5), is_written=st.booleans())
    def a_dead_letter_is_answered(self, which: int, is_written: bool) -> None:
        if not self.dead_letters:
            return
        dead_letter = self.dead_letters.pop(which % len(self.dead_letters))
        self.expired.append(self.partition.archive_dead_letter(dead_letter, is_written=is_written, now_ms=self.now_ms))
        for offset in range(dead_letter.first, dead_letter.last + 1):
            self.rows[offset].state = RecordState.ARCHIVED

    @invariant()
    def no_archiving_record_is_forgotten(self) -> None:
        """Each waits for its write, or for its dead letter."""
        sent = {
            offset for dead_letter in self.dead_letters for offset in range(dead_letter.first, dead_letter.last + 1)
        }
        unwritten = [dead_letter for write in self.expired for dead_letter in write.dead_letters]
        sent.update(offset for dead_letter in unwritten for offset in range(dead_letter.first, dead_letter.last + 1))
        archiving = [offset for offset, row in self.rows.items() if row.state is RecordState.ARCHIVING]
        assert all(offset in sent for offset in archiving if self.rows[offset].before is None)

    @invariant()
    def the_partition_is_as_in_the_table(self) -> None:
        self._the_start_passes_settled_records_only()
        self._every_offset_is_as_in_the_table()
        self._the_next_fetch_begins_at_the_lowest_free_record()
        terminal = sum(row.state.is_terminal for row in self.rows.values())
        if not self.partition.window:
            self.uncounted = 0
        assert self.partition.window.delivery_complete_count == terminal - self.uncounted

    def _the_start_passes_settled_records_only(self) -> None:
        start = self.partition.start_offset
        assert all(row.is_settled for offset, row in self.rows.items() if offset < start)
        self.rows = {offset: row for offset, row in self.rows.items() if offset >= start and self.partition.window}

    def _every_offset_is_as_in_the_table(self) -> None:
        for offset, row in self.rows.items():
            batch = self.partition.window.floor(offset)
            assert batch is not None
            entry = batch.state_at(offset)
            assert (entry.state, entry.delivery_count, entry.member_id) == (row.state, row.count, row.owner)
            assert self.partition.window.record_state(offset) is row.state

    def _the_next_fetch_begins_at_the_lowest_free_record(self) -> None:
        offers = self.share_rules.fetch.looks_for_unwritten_releases
        free = [
            offset
            for offset, row in self.rows.items()
            if row.is_free or (offers and row.state is RecordState.AVAILABLE and offset >= self.partition.start_offset)
        ]
        end = self.partition.end_offset
        assert self.partition.next_fetch_offset() == min(free, default=end + 1 if self.rows else end)


ShareHistory.TestCase.settings = hypothesis_settings(max_examples=150, stateful_step_count=50, deadline=None)


def test_a_record_whose_rejection_is_not_stored_before_its_lock_ends_is_archived_but_not_counted() -> None:
    """As in the scenario a_rejection_is_not_stored_before_its_lock_ends, recorded from Kafka 4.4.0."""
    history = ShareHistory()
    history.begin(limit=2, has_queue=True)
    history.produce(size=1)
    for member in ("m1", "m2"):
        history.fetch(batch_size=1, max_records=1, member=member, mode=AcquireMode.BATCH_OPTIMIZED, read=1)
        if member == "m1":
            history.time_passes(duration_ms=30_000)
    history.session_ends(member="m2")
    history.time_passes(duration_ms=30_000)
    history.write_arrives(fails=True, which=0)

    history.the_partition_is_as_in_the_table()
    assert history.partition.window.record_state(0) is RecordState.ARCHIVED
    assert history.partition.window.delivery_complete_count == 0


def test_a_record_with_deliveries_left_whose_rejection_is_not_stored_before_its_lock_ends_is_available() -> None:
    history = ShareHistory()
    history.begin(limit=2, has_queue=True)
    history.produce(size=7)
    history.fetch(batch_size=1, max_records=2, member="m2", mode=AcquireMode.BATCH_OPTIMIZED, read=2)
    history.time_passes(duration_ms=29_999)
    history.acknowledge(ahead=0, kind=0, member="m2", mixed=[0, 0, 0, 0, 0, 0, 3, 0], size=7)
    history.time_passes(duration_ms=1)
    history.write_arrives(fails=True, which=0)

    history.the_partition_is_as_in_the_table()
    assert history.partition.window.delivery_complete_count == 0


TestShareHistory = ShareHistory.TestCase
