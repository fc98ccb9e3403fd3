"""What the clients of a group have been told of each record, whichever share partition told them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mockbroker.sim.log_book import Page
from mockbroker.sim.violation import Violation
from mockbroker.state.share_coordinator import ShareKey, Stored

#: Acknowledge types after which a record is done (gap, accept, reject), and single ones.
TERMINAL_TYPES = (0, 1, 3)
ACCEPT, RELEASE, RENEW = 1, 2, 4


@dataclass(slots=True)
class Told:
    """One record of one group.

    limit_max, limit_min: of the delivery limits in force since its first delivery. settled: the delivery count with
    which an acknowledgement that ends it was answered 0. unsure: acknowledgements whose answer is still to come, or
    never came.
    """

    delivery_count: int
    limit_max: int
    limit_min: int
    settled: int | None = None
    unsure: int = 0

    @property
    def may_be_done(self) -> bool:
        """Whether nobody needs to get it again."""
        return self.settled is not None or self.unsure > 0 or self.delivery_count >= self.limit_min


@dataclass(slots=True)
class Ledger:
    """One group's view of one partition.

    begins: the offset from which on its records are looked at; what lies below was never the group's. page: what its
    log has. counted: deliveries of each record in this incarnation of its share partition, counted here, on top of what
    was loaded. given: by record, the members that got it and the delivery that it was for each. forgotten: records that
    were stored as done and are not any more, by a defect of 4.3.0: these alone are excused. wanted: where
    an administrator has wanted the group to begin. passed_over: what a load left out, where holes are not read (4.0.0).
    """

    key: ShareKey
    page: Callable[[], Page]
    begins: int | None = None
    told: dict[int, Told] = field(default_factory=dict)
    stored: Stored | None = None
    counted: dict[int, int] = field(default_factory=dict)
    given: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    forgotten: set[int] = field(default_factory=set)
    wanted: set[int] = field(default_factory=set)
    passed_over: set[int] = field(default_factory=set)
    is_gone: bool = False
    altering: int = 0
    is_unread: bool = False
    is_deleting: bool = False
    was_deleted_late: bool = False
    stored_since: bool = False
    last_start: int = -1
    went_back: bool = False

    def loaded(self, counts: Mapping[int, int], start_offset: int) -> None:
        """A share partition was loaded: this is what its records' deliveries are counted from."""
        self.counted = dict(counts)
        self.is_unread = False
        if self.begins is None:
            self.begins = start_offset

    def acquired(self, offset: int, member_id: str, delivery_count: int, *, limit: int, state_epoch: int) -> None:
        """A record was given to a member, and its share partition, of this state epoch, counts so many deliveries."""
        counted = self.counted[offset] = self.counted.get(offset, 0) + 1
        if counted != delivery_count:
            raise Violation(f"{self.key} offset {offset}: delivery {delivery_count} by its count, {counted} seen")
        self.given.setdefault(offset, set()).add((member_id, delivery_count))
        if self.stored is not None and state_epoch != self.stored.state_epoch:
            return  # The group has begun elsewhere, and this leader has yet to hear of it.
        record = self.told.get(offset)
        if record is None:
            # Of deliveries from before its state was deleted nobody knows the limits any more.
            record = self.told[offset] = Told(delivery_count, limit if counted == 1 else max(limit, counted), limit)
        record.delivery_count = delivery_count
        if delivery_count > record.limit_max:
            raise Violation(
                f"{self.key} offset {offset}: delivery {delivery_count}, the highest limit since its first delivery "
                f"is {record.limit_max}"
            )

    def settled(self, offset: int, delivery_count: int) -> None:
        """An acknowledgement that ends this delivery was answered 0."""
        record = self.told.get(offset)
        if record is None:
            return  # The state has begun anew since.
        if offset in self.forgotten and self.stored is not None and not _is_done(self.stored, offset):
            record.unsure += 1  # Stored, and forgotten again while the answer was on its way.
        else:
            record.settled = max(record.settled or 0, delivery_count)

    def limit_changed(self, limit: int) -> None:
        """The group has another delivery limit."""
        for record in self.told.values():
            record.limit_max = max(record.limit_max, limit)
            record.limit_min = min(record.limit_min, limit)

    def deletion_asked(self) -> None:
        """An administrator has the state deleted; that may be tried again after it was made anew."""
        self.is_deleting, self.stored_since = True, False

    def start_stored(self, start_offset: int | None, *, is_fresh: bool) -> None:
        """A start offset was stored, or the state deleted; several times perhaps, between two looks."""
        # A state without a start may just have been initialised, and its group not have heard that it is.
        is_late = self.stored_since or self.altering > 0 or self.is_unread or self.last_start == -1
        self.was_deleted_late = start_offset is None and self.is_deleting and is_late
        self.stored_since = True
        if start_offset is None:
            self.stored, self.begins, self.last_start, self.went_back = None, None, -1, False
            self.told.clear()
            self.forgotten.clear()
            return
        if is_fresh and start_offset in self.wanted and not self._is_the_leaders(start_offset):
            # Of a group that stays empty the epoch stays too, however often it is to begin elsewhere.
            self._begin_anew(start_offset)
            self.is_unread = True
            self.stored, self.last_start, self.went_back = None, start_offset, False
            return
        self.went_back = self.went_back or start_offset < self.last_start
        self.last_start = start_offset

    def _is_the_leaders(self, start_offset: int) -> bool:
        """Whether the reset strategy chose it when a leader loaded the state: stored as the first records are given."""
        if self.last_start != -1 or self.begins is None:
            return False
        return not any(offset in self.page().present for offset in range(start_offset, self.begins))

    def look_at_stored(self, stored: Stored) -> None:
        """Take note of what the share coordinator keeps: it forgets nothing but by the two defects of 4.3.0.

        As there a write with a lower start is stored as given (share-semantics, correction 26), and a higher delivery
        count wins over a newer state (7.4). Both happen when a write is tried again, or comes from an earlier
        incarnation, and arrives late.
        """
        before = self.stored
        if stored is before:
            return
        self.stored = stored
        went_back, self.went_back = self.went_back, False
        if before is None or stored == before:
            return
        if stored.state_epoch != before.state_epoch:
            self._begin_anew(stored.start_offset)
            return
        for offset in self._done(before):
            if _is_done(stored, offset):
                continue
            if not went_back and _delivery_count(before, offset) > _delivery_count(stored, offset):
                raise Violation(f"{self.key} offset {offset} was stored as done, and is not: {before}, {stored}")
            self.forgotten.add(offset)
            record = self.told.get(offset)
            if record is not None and record.settled is not None:
                record.settled = None
                record.unsure += 1

    def is_stored(self, offset: int, state_epoch: int) -> bool:
        """Whether the share coordinator knows that this record is done; state_epoch: of who asks."""
        if self.stored is None or self.stored.state_epoch != state_epoch:
            return True
        return offset in self.forgotten or _is_done(self.stored, offset)

    def all_is_told(self, *, stuck_at: int | None, sends_markers: bool = True) -> None:
        """At the end: each record was delivered, and each that was delivered is done.

        stuck_at: from where on nothing is delivered any more, by a defect of 4.3.0. sends_markers: the ends of
        transactions are delivered too, as offsets without a record.
        """
        if self.was_deleted_late:
            return  # Its deletion was tried again after an initialisation, or met one under way, or an alteration.
        page = self.page()
        first = page.start if self.begins is None else max(page.start, self.begins)
        for offset in range(first, page.end if stuck_at is None else min(page.end, stuck_at)):
            if offset in page.aborted or offset not in page.present or offset in self.passed_over:
                continue
            if offset in page.markers and not sends_markers:
                continue
            record = self.told.get(offset)
            if record is None:
                raise Violation(f"{self.key} offset {offset} was never delivered")
            if not record.may_be_done:
                raise Violation(f"{self.key} offset {offset} is lost after delivery {record.delivery_count}")

    def _begin_anew(self, start_offset: int) -> None:
        """The group begins elsewhere: nothing that was said of its records holds any more."""
        self.told.clear()
        self.forgotten.clear()
        self.begins = start_offset

    def _done(self, stored: Stored) -> list[int]:
        """Records that were told of, and are stored as done."""
        return [offset for offset in self.told if _is_done(stored, offset)]


def _is_done(stored: Stored, offset: int) -> bool:
    if offset < stored.start_offset:
        return True
    return any(batch.first <= offset <= batch.last and batch.state != 0 for batch in stored.batches)


def _delivery_count(stored: Stored, offset: int) -> int:
    return max((b.delivery_count for b in stored.batches if b.first <= offset <= b.last), default=0)
