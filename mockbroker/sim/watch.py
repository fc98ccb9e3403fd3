"""One incarnation of a share partition, looked at after every step: each change of a record needs its reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from mockbroker.sim.coverage import Coverage
from mockbroker.sim.ledger import ACCEPT, RELEASE, TERMINAL_TYPES, Ledger
from mockbroker.sim.violation import Violation
from mockbroker.state.in_flight import InFlight, State
from mockbroker.state.share_partition import SharePartition


class Row(NamedTuple):
    """What can be seen of an entry."""

    state: State
    delivery_count: int
    member_id: str
    is_in_transition: bool

    @property
    def is_done(self) -> bool:
        """Whether the record is terminal for good."""
        return self.state.is_terminal and not self.is_in_transition


@dataclass(slots=True, eq=False)
class Ask:
    """Acknowledgements under way from one member: the type that it gave each offset, and the delivery it spoke of.

    state_epoch: of the state that it spoke of. until_ms: how long a lock lasts that it renews.
    """

    member_id: str
    state_epoch: int = 0
    types: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    until_ms: int = 0


@dataclass(slots=True)
class Hold:
    """A delivery: who holds the record, how long at least and at most, and what its holder has asked since."""

    member_id: str
    delivery_count: int
    until_min: int
    until_max: int
    asks: list[Ask] = field(default_factory=list)
    is_left: bool = False

    def types(self, offset: int) -> set[int]:
        """What the holder has said of the record and has no answer to."""
        return {ask.types[offset] for ask in self.asks}


@dataclass(slots=True)
class Setting:
    """What is in force at the moment of a look. log_start: below it records may vanish."""

    now_ms: int
    delivery_limit: int
    lock_ms: int
    log_start: int


class Watch:
    """Keeps what was seen last, and judges what has changed since. Source of the rules: share-semantics 1 to 3."""

    def __init__(self, partition: SharePartition, ledger: Ledger, coverage: Coverage) -> None:
        self.partition = partition
        self.holds: dict[int, Hold] = {}
        self._ledger = ledger
        self._coverage = coverage
        self._rows: dict[int, Row] | None = None
        self._start = partition.start_offset

    def look(self, setting: Setting) -> None:
        """Compare with the last look. Raises: Violation."""
        rows, before = _rows(self.partition), self._rows
        self._rows = rows
        if before is None:
            self._ledger.loaded(_counts(rows), self.partition.start_offset)
        if rows != before:
            for offset in sorted(rows.keys() | (before or {}).keys()):
                row = rows.get(offset)
                was = None if before is None else before.get(offset)
                if row is not None and (before is None or row != was):
                    self._check_change(offset, was, row, setting, is_first=before is None)
            for offset in (before or {}).keys() - rows.keys():
                if offset >= self.partition.start_offset:
                    self._complain(offset, "has vanished at or above the start")
        self._check_start(before, setting)
        for offset, hold in self.holds.items():
            if hold.until_max <= setting.now_ms:
                row = rows.get(offset)
                if row is not None and row.state is State.ACQUIRED and not row.is_in_transition:
                    self._complain(offset, f"is still held by {row.member_id}, its lock ended at {hold.until_max}")

    def delivery_of(self, offset: int, member_id: str) -> int | None:
        """Which delivery of a record it is that a member holds, by the last look; None when it holds it no more."""
        row = (self._rows or {}).get(offset)
        return row.delivery_count if row is not None and row.member_id == member_id else None

    def _complain(self, offset: int, what: str) -> None:
        raise Violation(f"{self._ledger.key} offset {offset} {what}")

    def _check_change(self, offset: int, was: Row | None, row: Row, setting: Setting, *, is_first: bool) -> None:
        if was is not None and was.is_done and not is_first:
            self._complain(offset, f"was done, and is {row}")
        if row.state is State.ACQUIRED and not row.is_in_transition:
            self._check_held(offset, was, row, setting, is_first=is_first)
        elif not is_first:
            hold = self.holds.get(offset)
            if hold is not None and was is not None and was.state is not State.AVAILABLE:
                self._check_let_go(offset, was, row, hold, setting)
            elif was is not None and was.state is State.AVAILABLE and not was.is_in_transition:
                self._check_dropped(offset, was, row, setting)

    def _check_held(self, offset: int, was: Row | None, row: Row, setting: Setting, *, is_first: bool) -> None:
        hold = self.holds.get(offset)
        if was is not None and hold is not None and row.delivery_count == was.delivery_count:
            if was.state is State.AVAILABLE and not was.is_in_transition:
                self._complain(offset, f"was acquired without counting the delivery: {was}, {row}")
            if row.member_id != hold.member_id:
                self._complain(offset, f"went from {hold.member_id!r} to {row.member_id!r} without a delivery")
            self._coverage.count("write rolled back")
            return
        expected = 1 if was is None else was.delivery_count + 1
        if not is_first and row.delivery_count != expected:
            self._complain(offset, f"has delivery count {row.delivery_count}, not {expected}")
        if was is not None and was.state is State.ACQUIRED and hold is not None:
            is_free = hold.until_min <= setting.now_ms or hold.is_left or RELEASE in hold.types(offset)
            if not is_free:
                self._complain(offset, f"is held by {hold.member_id}, and was given to {row.member_id}")
        if row.delivery_count > 1:
            self._coverage.count("delivered again")
        until_ms = setting.now_ms + setting.lock_ms
        self.holds[offset] = Hold(row.member_id, row.delivery_count, until_ms, until_ms)
        self._ledger.acquired(
            offset,
            row.member_id,
            row.delivery_count,
            limit=setting.delivery_limit,
            state_epoch=self.partition.state_epoch,
        )

    def _check_let_go(self, offset: int, was: Row, row: Row, hold: Hold, setting: Setting) -> None:
        """The record was held, and is in transition, free or done now."""
        if offset in self._aborted() and row.state is State.ARCHIVED:
            return  # It may have been released, acquired again and found to be aborted, all at once.
        if row.delivery_count != was.delivery_count:
            self._complain(offset, f"changed its delivery count without a delivery: {was}, {row}")
        types = hold.types(offset)
        if row.state is State.ACKNOWLEDGED and ACCEPT not in types:
            self._complain(offset, f"is acknowledged, and nobody said so: {was}, {row}")
        if was.is_in_transition:
            self._check_written(offset, was, row, hold, setting)
        elif row.state is State.AVAILABLE:
            is_over = hold.until_min <= setting.now_ms and not row.is_in_transition
            if not (is_over or RELEASE in types or hold.is_left):
                self._complain(offset, f"was released before its lock ended at {hold.until_min}: {was}, {row}")
            if row.delivery_count >= setting.delivery_limit:
                self._complain(offset, f"was released at the delivery limit {setting.delivery_limit}: {row}")
        elif row.state is State.ARCHIVED:
            self._check_archived(offset, was, row, hold, setting)
        if hold.until_min <= setting.now_ms and not (was.is_in_transition or row.is_in_transition):
            self._coverage.count("lock expired")

    def _check_written(self, offset: int, was: Row, row: Row, hold: Hold, setting: Setting) -> None:
        """The write of a change has succeeded or failed."""
        if was.state is not row.state and not row.is_in_transition:
            self._coverage.count("write failed after the lock")
        # A failed write ends so too when the lock has run out meanwhile; below the log start nothing is written.
        is_over = hold.until_min <= setting.now_ms
        is_excused = is_over and row.delivery_count >= self._limit_min(offset)
        is_excused = is_excused or offset < setting.log_start or self._is_stored(offset)
        if row.is_done and was.state is row.state and not is_excused:
            self._complain(offset, f"counts as written, and is not stored: {was}, {row}")

    def _check_archived(self, offset: int, was: Row, row: Row, hold: Hold, setting: Setting) -> None:
        """A held record is done: its holder said so, or it was given back too often, or below the start."""
        types = hold.types(offset)
        was_given_back = RELEASE in types or hold.is_left or hold.until_min <= setting.now_ms
        is_spent = row.delivery_count >= setting.delivery_limit
        if was_given_back and (is_spent or offset < max(setting.log_start, self.partition.start_offset)):
            self._coverage.count("given up at the limit", int(is_spent))
        elif was_given_back and offset in self._ledger.page().lost:
            self._coverage.count("archived by compaction")
        elif not types & set(TERMINAL_TYPES):
            self._complain(offset, f"was archived without a reason: {was}, {row}")

    def _check_dropped(self, offset: int, was: Row, row: Row, setting: Setting) -> None:
        """The record was free: it can be archived when the log loses it, and nothing else."""
        if row.state is State.AVAILABLE and row.delivery_count == was.delivery_count:
            return
        page = self._ledger.page()
        is_lost = offset < setting.log_start or offset in page.aborted or offset in page.lost
        if row.state is not State.ARCHIVED or not is_lost:
            self._complain(offset, f"was free, and is {row}")
        if offset in page.lost:
            self._coverage.count("archived by compaction")

    def _check_start(self, before: dict[int, Row] | None, setting: Setting) -> None:
        start = self.partition.start_offset
        if start < self._start and self._start > setting.log_start:
            # Below the log start 4.3.0 lets it go back: once everything in flight from before is settled, the start is
            # the end of that window (SharePartition.maybeUpdateCachedStateAndOffsets), and the next fetch mends it.
            self._complain(start, f"is the start, which was {self._start}")
        if start > self._start:
            self._coverage.count("start moved")
        for offset in range(self._start, start) if before is not None else ():
            if offset >= setting.log_start:
                self._check_passed(offset, before.get(offset) if before else None, setting)
        self._start = start

    def _check_passed(self, offset: int, was: Row | None, setting: Setting) -> None:
        """The start has moved over a record: it must be done, and known to be so by the share coordinator."""
        if (was is not None and was.is_done) or offset in self._aborted():
            return
        if was is None and offset in self._ledger.passed_over:
            return
        if was is None and offset in self._ledger.page().lost:
            self._coverage.count("start passed a hole")
            return
        hold = self.holds.get(offset)
        if was is None or hold is None or was.state is State.AVAILABLE:
            self._complain(offset, f"was passed by the start, and is not done: {was}")
            return
        is_spent = was.delivery_count >= self._limit_min(offset)
        if is_spent and (hold.until_min <= setting.now_ms or hold.is_left):
            return  # Given up by the lock, whose write may fail without changing anything.
        if not (hold.types(offset) or hold.is_left):
            self._complain(offset, f"was passed by the start, and is held by {hold.member_id}: {was}")
        if not self._is_stored(offset):
            self._complain(offset, f"was passed by the start while its write is under way: {was}")

    def _aborted(self) -> set[int]:
        """What is dropped as the log is read; with the aborted records markers too, where leaders look into them."""
        page = self._ledger.page()
        return page.aborted | page.markers if self.partition.rules.follows_markers else page.aborted

    def _is_stored(self, offset: int) -> bool:
        return self._ledger.is_stored(offset, self.partition.state_epoch)

    def _limit_min(self, offset: int) -> int:
        """The lowest delivery limit since the record's first delivery; 0 when the group has begun elsewhere since."""
        record = self._ledger.told.get(offset)
        return 0 if record is None else record.limit_min


def _counts(rows: dict[int, Row]) -> dict[int, int]:
    """What was loaded: of a record that is held already, without this delivery."""
    return {offset: row.delivery_count - (row.state is State.ACQUIRED) for offset, row in rows.items()}


def _rows(partition: SharePartition) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    for batch in partition.window:
        if batch.whole is not None:
            rows.update(dict.fromkeys(range(batch.first, batch.last + 1), _row(batch.whole)))
        else:
            for offset, entry in batch.within(batch.first, batch.last):
                rows[offset] = _row(entry)
    return rows


def _row(entry: InFlight) -> Row:
    return Row(entry.state, entry.delivery_count, entry.member_id, entry.is_in_transition)
