"""What the clients of a group have been told of each record, whichever share partition told them."""

from __future__ import annotations

from dataclasses import dataclass, field

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

    begins: the offset from which on its records are looked at; what lies below was never the group's, or is excused.
    """

    key: ShareKey
    begins: int | None = None
    told: dict[int, Told] = field(default_factory=dict)
    stored: Stored | None = None
    is_excused: bool = False
    aborted: set[int] = field(default_factory=set)

    def delivered(self, offset: int, delivery_count: int, limit: int) -> None:
        """A record was given to a member."""
        record = self.told.get(offset)
        if record is None:
            record = self.told[offset] = Told(delivery_count, limit, limit)
        record.delivery_count = delivery_count
        if delivery_count > record.limit_max:
            raise Violation(
                f"{self.key} offset {offset}: delivery {delivery_count}, the highest limit since its first delivery "
                f"is {record.limit_max}"
            )

    def settled(self, offset: int, delivery_count: int) -> None:
        """An acknowledgement that ends this delivery was answered 0."""
        record = self.told[offset]
        if self.is_excused and self.stored is not None and not _is_done(self.stored, offset):
            record.unsure += 1  # Stored, and forgotten again while the answer was on its way.
        else:
            record.settled = max(record.settled or 0, delivery_count)

    def limit_changed(self, limit: int) -> None:
        """The group has another delivery limit."""
        for record in self.told.values():
            record.limit_max = max(record.limit_max, limit)
            record.limit_min = min(record.limit_min, limit)

    def look_at_stored(self, stored: Stored | None) -> None:
        """Take note of what the share coordinator keeps, and excuse what it had to forget.

        As in 4.3.0 a write with a lower start is stored as given (share-semantics, correction 26), and a higher
        delivery count wins over a newer state (7.4). Both happen when a write is tried again, or comes from an earlier
        incarnation, and arrives late.
        """
        before, self.stored = self.stored, stored
        if before is None or stored is None or stored is before or stored == before:
            return
        went_back = stored.start_offset < before.start_offset
        self.is_excused = self.is_excused or went_back
        for offset, record in self.told.items():
            if record.settled is None or _is_done(stored, offset):
                continue
            if self.is_excused or record.settled < _delivery_count(stored, offset):
                record.settled = None
                record.unsure += 1

    def excuse(self) -> None:
        """The stored state begins anew, now or later: nothing that was answered holds any more."""
        self.is_excused = True
        for record in self.told.values():
            if record.settled is not None:
                record.settled = None
                record.unsure += 1

    def is_stored(self, offset: int) -> bool:
        """Whether the share coordinator knows that this record is done."""
        return self.stored is None or self.is_excused or _is_done(self.stored, offset)

    def all_is_told(self, log_start: int, log_end: int) -> None:
        """At the end: each record was delivered, and each that was delivered is done."""
        first = log_start if self.begins is None else max(log_start, self.begins)
        for offset in range(first, log_end):
            record = self.told.get(offset)
            if offset in self.aborted:
                continue
            if record is None:
                raise Violation(f"{self.key} offset {offset} was never delivered")
            if not record.may_be_done:
                raise Violation(f"{self.key} offset {offset} is lost after delivery {record.delivery_count}")


def _is_done(stored: Stored, offset: int) -> bool:
    if offset < stored.start_offset:
        return True
    return any(batch.first <= offset <= batch.last and batch.state != 0 for batch in stored.batches)


def _delivery_count(stored: Stored, offset: int) -> int:
    return max((b.delivery_count for b in stored.batches if b.first <= offset <= b.last), default=0)
