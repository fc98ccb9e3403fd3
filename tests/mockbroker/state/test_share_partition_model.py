"""A share partition against a plain table of offsets, over random histories of two members.

The table does not say which records a fetch gets; it says which it may get, and everything that follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kwire.error_codes import ErrorCode
from mockbroker.state.acknowledgement import AcknowledgementBatch, BrokenRequestError, acknowledge
from mockbroker.state.acquisition import Acquired, AcquireMode, Span, acquire
from mockbroker.state.in_flight import State
from mockbroker.state.share_partition import PendingWrite, SharePartition
from mockbroker.state.share_rules import RELEASED, ShareRules
from tests.mockbroker.state.share_kit import settings

LOCK_MS = 30_000
STATES = {0: State.ARCHIVED, 1: State.ACKNOWLEDGED, 2: State.AVAILABLE, 3: State.ARCHIVED}


@dataclass
class Row:
    """One offset: `before` is what a failed write brings back."""

    state: State = State.AVAILABLE
    count: int = 0
    owner: str = ""
    deadline_ms: int | None = None
    before: tuple[State, str] | None = None

    @property
    def is_free(self) -> bool:
        return self.state is State.AVAILABLE and self.before is None

    @property
    def is_settled(self) -> bool:
        return self.state.is_terminal and self.before is None


@dataclass
class Writing:
    """A write under way, and the rows that wait for it. Rows are empty for what expired."""

    write: PendingWrite
    rows: list[Row] = field(default_factory=list)


class ShareHistory(RuleBasedStateMachine):
    """Two members fetch, acknowledge, stall and leave; writes arrive late, or fail. share_rules: what it plays by."""

    share_rules: ClassVar[ShareRules] = RELEASED

    @initialize(limit=st.integers(2, 5))
    def begin(self, limit: int) -> None:
        self.limit = limit
        self.log: list[Span] = []
        self.rows: dict[int, Row] = {}
        self.writing: list[Writing] = []
        self.expired: list[PendingWrite] = []
        self.now_ms = 0
        self.partition = SharePartition(
            settings(delivery_limit=limit, in_flight_limit=60),
            send=lambda write, at_ms: self.expired.append(write),
            rules=self.share_rules,
        )
        self.partition.load(0, 0, [])

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
        acquired = acquire(
            partition, member, found, now_ms=self.now_ms, mode=mode, batch_size=batch_size, max_records=max_records
        )
        self._note(acquired, member, mode, max_records)
        for new in range(end if not self.rows else end + 1, partition.end_offset + 1):
            if partition.window:
                self.rows.setdefault(new, Row())

    def _note(self, acquired: list[Acquired], member: str, mode: AcquireMode, max_records: int) -> None:
        offsets = [offset for run in acquired for offset in range(run.first, run.last + 1)]
        assert offsets == sorted(set(offsets))
        assert mode is AcquireMode.BATCH_OPTIMIZED or len(offsets) <= max_records
        assert all(offset >= self.partition.start_offset for offset in offsets)
        for run in acquired:
            for offset in range(run.first, run.last + 1):
                row = self.rows.setdefault(offset, Row())
                assert row.is_free
                row.state, row.owner, row.count = State.ACQUIRED, member, row.count + 1
                row.deadline_ms = self.now_ms + LOCK_MS
                assert run.delivery_count == row.count <= self.limit
        # A record at its last attempt is delivered alone, unless the limit leaves no room for that.
        if self.share_rules.throttles and self.limit > 2 and any(run.delivery_count == self.limit for run in acquired):
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
            settlement = acknowledge(self.partition, member, [given], now_ms=self.now_ms)
        except BrokenRequestError:
            assert expected is ErrorCode.UNKNOWN_SERVER_ERROR
            return
        assert (None if settlement.error is None else settlement.error.code) == expected
        if settlement.write is not None:
            writing = Writing(settlement.write)
            for offset in range(max(first, self.partition.start_offset), last + 1):
                row = self.rows[offset]
                row.before = (row.state, row.owner)
                gives_up = kinds[offset - first] == 2 and row.count >= self.limit
                row.state, row.owner = State.ARCHIVED if gives_up else STATES[kinds[offset - first]], ""
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
            if row.state is not State.ACQUIRED or row.before is not None or row.owner != member:
                return ErrorCode.INVALID_RECORD_STATE
        return None

    @rule(which=st.integers(0, 5), fails=st.booleans())
    def write_arrives(self, which: int, fails: bool) -> None:
        if not self.writing:
            return
        writing = self.writing.pop(which % len(self.writing))
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if fails else None
        self.partition.complete(writing.write, error, now_ms=self.now_ms)
        for row in writing.rows:
            before, row.before = row.before, None
            if not fails or before is None:
                row.deadline_ms = None
            elif row.deadline_ms is not None and row.deadline_ms <= self.now_ms:
                row.state = State.ARCHIVED if row.count >= self.limit else State.AVAILABLE
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
                row.state, row.owner = State.ARCHIVED if row.count >= self.limit else State.AVAILABLE, ""
            self.writing.append(Writing(write, held))

    def _held(self, member: str) -> list[Row]:
        """What the end of its session gives back: all, unless records of others in the same batch are in the way."""
        held = []
        for batch in self.partition.window:
            for offset in range(batch.first, batch.last + 1):
                row = self.rows.get(offset)
                if row is None:
                    continue
                if row.owner not in (member, "") and not self.share_rules.release_passes_others:
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
            row.state = State.ARCHIVED if row.count >= self.limit else State.AVAILABLE
            row.owner, row.deadline_ms = "", None

    @rule()
    def expiry_writes_arrive(self) -> None:
        while self.expired:
            self.partition.complete(self.expired.pop(0), None, now_ms=self.now_ms)

    @invariant()
    def the_partition_is_as_in_the_table(self) -> None:
        self._the_start_passes_settled_records_only()
        self._every_offset_is_as_in_the_table()
        self._the_next_fetch_begins_at_the_lowest_free_record()
        terminal = sum(row.state.is_terminal for row in self.rows.values())
        assert self.partition.delivery_complete_count == terminal

    def _the_start_passes_settled_records_only(self) -> None:
        start = self.partition.start_offset
        assert all(row.is_settled for offset, row in self.rows.items() if offset < start)
        self.rows = {offset: row for offset, row in self.rows.items() if offset >= start and self.partition.window}

    def _every_offset_is_as_in_the_table(self) -> None:
        for offset, row in self.rows.items():
            batch = self.partition.window.floor(offset)
            assert batch is not None
            entry = batch.entry(offset)
            assert (entry.state, entry.delivery_count, entry.member_id) == (row.state, row.count, row.owner)
            assert self.partition.state_of(offset) is row.state

    def _the_next_fetch_begins_at_the_lowest_free_record(self) -> None:
        offers = self.share_rules.offers_unwritten
        free = [
            offset
            for offset, row in self.rows.items()
            if row.is_free or (offers and row.state is State.AVAILABLE and offset >= self.partition.start_offset)
        ]
        end = self.partition.end_offset
        assert self.partition.next_fetch_offset() == min(free, default=end + 1 if self.rows else end)


ShareHistory.TestCase.settings = hypothesis_settings(max_examples=150, stateful_step_count=50, deadline=None)
TestShareHistory = ShareHistory.TestCase
