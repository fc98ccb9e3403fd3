"""Expected deliveries of one group and partition, over all incarnations of its share partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kwire.error_codes import ErrorCode
from mockbroker.sim.logs.log_contents import LogContents
from mockbroker.sim.violation import Violation
from mockbroker.state.share_coordinator.share_coordinator import ShareKey, StoredState

#: Acknowledge types after which a record is complete (gap, accept, reject), and single types.
TERMINAL_TYPES = (0, 1, 3)
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

#: Errors after which it is known that an acknowledgement did not take effect.
NO_EFFECT = (
    ErrorCode.INVALID_RECORD_STATE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
)


@dataclass(slots=True)
class DeliveredRecord:
    """One record of one group.

    limit_max, limit_min: of the delivery limits in force since its first delivery. state_epoch: of the share partition
    that delivered it. completed: the delivery count for which a final acknowledgement was answered without error.
    unresolved: acknowledgements without a response.
    """

    delivery_count: int
    limit_max: int
    limit_min: int
    state_epoch: int
    completed: int | None = None
    unresolved: int = 0

    @property
    def may_be_complete(self) -> bool:
        """Whether no further delivery is required."""
        return self.completed is not None or self.unresolved > 0 or self.delivery_count >= self.limit_min


@dataclass(slots=True)
class DeliveryModel:
    """One group's view of one partition.

    first_offset: the offset from which on its records are checked; lower ones never belonged to the group.
    log_contents: the contents of its log. delivery_counts: deliveries of each record in this incarnation of its share
    partition, counted here, in addition to the loaded ones. deliveries: by record, the members that received it and the
    delivery count for each. lost_completions: records that were stored as complete and are not any more, by a defect of
    4.3.0: only these are excused. altered_starts: start offsets that an administrator has requested. skipped_offsets:
    offsets that a load left out, where gaps are not read (4.0.0), or that the start has passed in a log whose bits have
    flipped; skipped_ranges: those behind the end of that log. completed_before: offsets that the share partition has
    completed before its state was created again.
    """

    key: ShareKey
    log_contents: Callable[[], LogContents]
    first_offset: int | None = None
    records: dict[int, DeliveredRecord] = field(default_factory=dict)
    stored: StoredState | None = None
    delivery_counts: dict[int, int] = field(default_factory=dict)
    deliveries: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    lost_completions: set[int] = field(default_factory=set)
    altered_starts: set[int] = field(default_factory=set)
    skipped_offsets: set[int] = field(default_factory=set)
    skipped_ranges: list[range] = field(default_factory=list)
    completed_before: set[int] = field(default_factory=set)
    is_deleted: bool = False
    pending_alterations: int = 0
    is_reload_pending: bool = False
    is_deleting: bool = False
    was_deleted_late: bool = False
    stored_since: bool = False
    last_start: int = -1
    moved_back: bool = False

    def record_load(self, counts: Mapping[int, int], start_offset: int) -> None:
        """A share partition was loaded: the deliveries of its records are counted from these."""
        self.delivery_counts = dict(counts)
        self.is_reload_pending = False
        if self.first_offset is None:
            self.first_offset = start_offset

    def record_acquired(self, offset: int, member_id: str, count: int, *, limit: int, state_epoch: int) -> None:
        """A member acquired a record; its share partition, of this state epoch, has this delivery count for it."""
        observed = self.delivery_counts[offset] = self.delivery_counts.get(offset, 0) + 1
        if observed != count:
            raise Violation(f"{self.key} offset {offset}: delivery count {count}, observed deliveries {observed}")
        self.deliveries.setdefault(offset, set()).add((member_id, count))
        if self.stored is not None and state_epoch != self.stored.state_epoch:
            return  # The start offset was altered, and this leader has not loaded the change yet.
        record = self.records.get(offset)
        if record is None:
            # The limits of deliveries before a deletion of the state are unknown.
            limit_max = limit if count == 1 else max(limit, count)
            record = self.records[offset] = DeliveredRecord(count, limit_max, limit, state_epoch)
        record.delivery_count, record.state_epoch = count, state_epoch
        if count > record.limit_max:
            highest = f"the highest limit since its first delivery is {record.limit_max}"
            raise Violation(f"{self.key} offset {offset}: delivery {count}, {highest}")

    def record_completed(self, offset: int, delivery_count: int) -> None:
        """A final acknowledgement of this delivery was answered without error."""
        record = self.records.get(offset)
        if record is None:
            # The state was created again since. The leader still has the old share partition, and its writes are
            # accepted: what it stores is complete in the new state (conversation share-delete-group-recreated).
            self.completed_before.add(offset)
            return
        if offset in self.lost_completions and self.stored is not None and not _is_complete(self.stored, offset):
            record.unresolved += 1  # Stored, and lost again before the response arrived.
        else:
            record.completed = max(record.completed or 0, delivery_count)

    def update_limit(self, limit: int) -> None:
        """The group's delivery limit has changed."""
        for record in self.records.values():
            record.limit_max = max(record.limit_max, limit)
            record.limit_min = min(record.limit_min, limit)

    def record_deletion(self) -> None:
        """An administrator deletes the state; the deletion may be retried after the state was created again."""
        self.is_deleting, self.stored_since = True, False

    def record_start(self, start_offset: int | None, *, is_fresh: bool) -> None:
        """A start offset was stored, or the state deleted; several times perhaps, between two checks."""
        # A state without a start may just have been initialized, and its group not have the result yet.
        is_late = self.stored_since or self.pending_alterations > 0 or self.is_reload_pending or self.last_start == -1
        self.was_deleted_late = start_offset is None and self.is_deleting and is_late
        self.stored_since = True
        if start_offset is None:
            self._restart_at(None)
            self.stored, self.last_start, self.moved_back = None, -1, False
            return
        if is_fresh and start_offset in self.altered_starts and not self._is_chosen_by_leader(start_offset):
            # An empty group keeps its epoch, however often its start is altered.
            self._restart_at(start_offset)
            self.is_reload_pending = True
            self.stored, self.last_start, self.moved_back = None, start_offset, False
            return
        self.moved_back = self.moved_back or start_offset < self.last_start
        self.last_start = start_offset

    def _is_chosen_by_leader(self, start_offset: int) -> bool:
        """Whether the reset strategy chose it at a load: it is stored with the first delivered records.

        It is not above the offset from which on records are checked: that of an alteration can be.
        """
        if self.last_start != -1 or self.first_offset is None or start_offset > self.first_offset:
            return False
        passed = range(start_offset, self.first_offset)
        return not any(offset in passed for offset in self.log_contents().present)

    def check_stored(self, stored: StoredState) -> None:
        """Check the stored state: completed records stay complete, except by the two defects of 4.3.0.

        There a write with a lower start is stored unchanged (share-semantics 7.3), and a higher delivery count wins
        over a newer state (7.4). Both happen when a write is retried, or comes from an earlier incarnation, and arrives
        late.
        """
        before = self.stored
        if stored is before:
            return
        self.stored = stored
        moved_back, self.moved_back = self.moved_back, False
        if before is None or stored == before:
            return
        if stored.state_epoch != before.state_epoch:
            self._restart_at(stored.start_offset)
            return
        for offset, record in self.records.items():
            if not _is_complete(before, offset) or _is_complete(stored, offset):
                continue
            if not moved_back and _delivery_count(before, offset) > _delivery_count(stored, offset):
                raise Violation(f"{self.key} offset {offset} was stored as complete, and is not: {before}, {stored}")
            self.lost_completions.add(offset)
            if record.completed is not None:
                record.completed = None
                record.unresolved += 1

    def is_stored(self, offset: int, state_epoch: int) -> bool:
        """Whether this record is stored as complete. state_epoch: that of the caller."""
        if self.stored is None or self.stored.state_epoch != state_epoch:
            return True
        return offset in self.lost_completions or _is_complete(self.stored, offset)

    def check_complete(self, *, stuck_offset: int | None, sends_markers: bool = True) -> None:
        """At the end: each record was delivered, and each delivered record is complete.

        stuck_offset: the offset from which on nothing is delivered, by a defect of 4.3.0. sends_markers: the ends of
        transactions are delivered too, as offsets without a record.
        """
        if self.was_deleted_late:
            return  # Its deletion was retried after an initialization, or overlapped with one, or with an alteration.
        contents = self.log_contents()
        first = contents.start if self.first_offset is None else max(contents.start, self.first_offset)
        for offset in range(first, contents.end if stuck_offset is None else min(contents.end, stuck_offset)):
            if offset in contents.aborted or offset not in contents.present or self.is_skipped(offset):
                continue
            if offset in contents.markers and not sends_markers:
                continue
            record = self.records.get(offset)
            if record is None:
                if self._is_completed_before(offset):
                    continue
                raise Violation(f"{self.key} offset {offset} was never delivered")
            if not record.may_be_complete and not self._is_completed_by_former(record, offset):
                raise Violation(f"{self.key} offset {offset} is lost after delivery {record.delivery_count}")

    def is_skipped(self, offset: int) -> bool:
        """Whether a share partition has left out an offset, so that it is never delivered."""
        return offset in self.skipped_offsets or any(offset in one for one in self.skipped_ranges)

    def _is_completed_by_former(self, record: DeliveredRecord, offset: int) -> bool:
        """Whether the share partition of a deleted state delivered it, whose writes to the new state are accepted."""
        stored = self.stored
        return stored is not None and record.state_epoch != stored.state_epoch and _is_complete(stored, offset)

    def _is_completed_before(self, offset: int) -> bool:
        return offset in self.completed_before and self.stored is not None and _is_complete(self.stored, offset)

    def _restart_at(self, start_offset: int | None) -> None:
        """The start offset was altered, or the state deleted: all earlier deliveries are void."""
        self.records.clear()
        self.lost_completions.clear()
        self.completed_before.clear()
        self.first_offset = start_offset


#: By group, topic id and partition index: a `ShareKey`, or the same as a plain tuple.
DeliveryModels = dict[tuple[str, bytes, int], DeliveryModel]


def _is_complete(stored: StoredState, offset: int) -> bool:
    is_terminal = any(batch.first <= offset <= batch.last and batch.state != 0 for batch in stored.batches)
    return offset < stored.start_offset or is_terminal


def _delivery_count(stored: StoredState, offset: int) -> int:
    return max((b.delivery_count for b in stored.batches if b.first <= offset <= b.last), default=0)
