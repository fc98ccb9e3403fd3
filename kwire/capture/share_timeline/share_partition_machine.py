"""State machine of one share partition, reconstructed from traffic: it takes events and returns transitions.

Responses of the broker are facts. Changes without a message are inferred and marked: locks that expire, and changes
that must have happened between two events.
Source of the rules: KIP-932, and SharePartition of Kafka 4.3.0 as described in docs/share-groups.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from kwire.capture.share_timeline.events import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    BROKER_GONE,
    STATES,
    Event,
    EventKind,
    Transition,
)
from kwire.capture.share_timeline.offset_runs import OffsetRun
from kwire.capture.share_timeline.persisted_state import PersistedState

#: Kafka's default of `group.share.delivery.count.limit`.
DELIVERY_COUNT_LIMIT = 5
#: Kafka's default of `group.share.record.lock.duration.ms`, used if no response contains the duration.
LOCK_DURATION_MS = 30_000
_INVALID_RECORD_STATE = 121
_ACK_RESULTS = {0: ("gap", ARCHIVED), 1: ("accept", ACKNOWLEDGED), 2: ("release", AVAILABLE), 3: ("reject", ARCHIVED)}
_RENEW = 4
_MS = 1_000_000
#: Tolerance for the end of a lock, since the times of a capture are not those of the broker.
_TOLERANCE_MAX_MS = 1_000


class SharePartitionMachine(PersistedState):
    """Takes events in the order of `event_sort_key` and returns the transitions that they cause."""

    def __init__(
        self, *, delivery_count_limit: int = DELIVERY_COUNT_LIMIT, lock_duration_ms: int = LOCK_DURATION_MS
    ) -> None:
        super().__init__()
        self._default_limit = delivery_count_limit
        # Limits with their start times; an expired lock is detected a little later than its deadline.
        self._limits = [(0, delivery_count_limit)]
        self._is_limit_known = False
        self._lock_ms = lock_duration_ms
        # During one event: the offset up to which the start offset has moved, as a response implies.
        self._passed_offset = 0

    def run(self, events: Iterable[Event], end_ts: int) -> Iterator[Transition]:
        """The transitions of ordered events, up to the end of the capture."""
        for event in events:
            yield from self.process_event(event)
        yield from self.finish(end_ts)

    def process_event(self, event: Event) -> list[Transition]:
        """The transitions of an event, and of locks that expire before it."""
        # A broker that reads the state has expired all locks before.
        is_state_read = event.note == BROKER_GONE or (
            self._has_leader_changed and event.kind in (EventKind.FETCH_START, EventKind.ACQUIRE)
        )
        transitions = self._expire_locks(event.ts, has_tolerance=not is_state_read)
        previous_start = self.start_offset
        _HANDLERS[event.kind](self, event)
        return transitions + self.take_transitions(event, previous_start)

    def finish(self, end_ts: int) -> list[Transition]:
        """The transitions of locks that expire before the end of the capture."""
        return self._expire_locks(end_ts, has_tolerance=False)

    # Locks.

    def _tolerance(self) -> int:
        return min(_TOLERANCE_MAX_MS, self._lock_ms // 10) * _MS

    def _expire_locks(self, now: int, *, has_tolerance: bool = True) -> list[Transition]:
        """Expire the locks that were not acknowledged or renewed in time."""
        latest = now - (self._tolerance() if has_tolerance else 0)
        if self.next_deadline is None or self.next_deadline > latest:
            return []
        expired_runs = [run for run in self.runs if run.deadline is not None and run.deadline <= latest]
        transitions: list[Transition] = []
        for deadline, runs in groupby(sorted(expired_runs, key=_lock_order), key=lambda run: run.deadline):
            previous_start = self.start_offset
            for run in runs:
                self._release(run.first, run.last, run, deadline or now, "lock_timeout")
            transitions += self.take_transitions(None, previous_start)
        self.next_deadline = min((run.deadline for run in self.runs if run.deadline is not None), default=None)
        return transitions

    def _release(
        self, first: int, last: int, acquired: OffsetRun, ts: int, cause: str, *, is_inferred: bool = True
    ) -> None:
        """Make acquired records available again, or archive them at the delivery limit or below the start offset."""
        start = self.start_offset
        state = ARCHIVED if self._is_at_limit(acquired, ts) or (start is not None and last < start) else AVAILABLE
        run = OffsetRun(first, last, state, acquired.delivery_count)
        self.add_change(ts, run, cause, member_id=acquired.member_id, is_inferred=is_inferred)

    def _is_expired(self, acquired_run: OffsetRun, ts: int) -> bool:
        return acquired_run.deadline is not None and acquired_run.deadline - self._tolerance() <= ts

    # Deliveries.

    def _acquire(self, event: Event) -> None:
        self._start_fetch(event)
        self._lock_ms = event.lock_ms or self._lock_ms
        self._apply_log_start(event)
        for first, last, count in event.runs:
            if not 0 <= first <= last:
                continue  # With a batch size of 0 the broker sends an empty run.
            for low, high, known in self.runs.split_range(first, last):
                self._infer_release(low, high, known, count, event.ts)
            if self.floor is not None:
                self.floor = min(self.floor, first)  # No record below the start offset is delivered.
            if not self._is_limit_known and count > self._limits[-1][1]:
                self._limits.append((event.ts, count))
            run = OffsetRun(first, last, ACQUIRED, count, event.member_id, event.ts + self._lock_ms * _MS, event.broker)
            self.add_change(event.ts, run, "acquire")

    def _infer_release(self, first: int, last: int, known: OffsetRun | None, count: int, ts: int) -> None:
        """Infer why records that are delivered now were available, if no event explains it."""
        if known is None:
            if self.lowest is not None and self.lowest <= first < (self.start_offset or 0):
                self.add_change(ts, OffsetRun(first, last, AVAILABLE, count - 1), "load", is_inferred=True)
            return
        before = count - 1
        if known.delivery_count is not None and count <= known.delivery_count:
            # Delivery counts decrease only after a leader has read the persisted state.
            cause = "load"
        elif known.state == ACQUIRED and known.delivery_count in (None, 0, before) and self._is_expired(known, ts):
            assert known.deadline is not None
            cause = "lock_timeout"
            ts = min(ts, known.deadline)
        elif known.state != AVAILABLE or known.delivery_count not in (None, before):
            cause = "unseen"
        else:
            return
        released = OffsetRun(first, last, AVAILABLE, before)
        self.add_change(ts, released, cause, member_id=known.member_id, is_inferred=True)

    # Acknowledgements.

    def _acknowledge(self, event: Event) -> None:
        self._lock_ms = event.lock_ms or self._lock_ms
        if event.error_code:
            if event.error_code == _INVALID_RECORD_STATE:
                self._renew_before_error(event)
            return
        start = self.start_offset
        self._passed_offset = 0
        for first, last, kind in event.runs:
            if not 0 <= first <= last or (kind != _RENEW and kind not in _ACK_RESULTS):
                continue
            for low, high, known in self.runs.split_range(first, last):
                if self._is_finished(low, high, known, start):
                    continue
                acquired_run = known or OffsetRun(low, high, ACQUIRED, None, event.member_id)
                if known is not None and self._has_start_passed(known, event):
                    self._release(low, high, known, min(known.deadline or event.ts, event.ts), "lock_timeout")
                else:
                    self._apply_acknowledgement(low, high, acquired_run, kind, event)
                    if kind == _RENEW:
                        self._passed_offset = 0  # A lock that seemed expired was renewed.

    def _is_finished(self, first: int, last: int, known: OffsetRun | None, start: int | None) -> bool:
        """Whether an acknowledgement changes nothing, since the records are finished or below the start offset."""
        if known is not None:
            return known.is_terminal or (self.floor is not None and last < self.floor)
        if start is None or last >= start:
            return False
        return self.floor is not None or (self.lowest is not None and first >= self.lowest)

    def _has_start_passed(self, acquired_run: OffsetRun, event: Event) -> bool:
        """Whether a response without an error implies that the start offset moved beyond records whose lock expired."""
        if acquired_run.member_id == event.member_id and (acquired_run.deadline or event.ts) >= event.ts:
            return False
        for run in self.runs.runs_from(self._passed_offset):
            if run.first > acquired_run.first:
                break
            if not run.is_terminal and not self._is_exhausted(run, event.ts):
                return False
            self._passed_offset = run.last + 1
        return True

    def _is_exhausted(self, run: OffsetRun, ts: int) -> bool:
        return run.state == ACQUIRED and self._is_at_limit(run, ts) and self._is_expired(run, ts)

    def _is_at_limit(self, acquired_run: OffsetRun, ts: int) -> bool:
        limit = next(limit for since, limit in reversed(self._limits) if since <= ts)
        return acquired_run.delivery_count is not None and acquired_run.delivery_count >= limit

    def _apply_acknowledgement(self, first: int, last: int, acquired_run: OffsetRun, kind: int, event: Event) -> None:
        is_inferred = event.error_code is None
        if kind == _RENEW:
            deadline = event.ts + self._lock_ms * _MS
            run = OffsetRun(first, last, ACQUIRED, acquired_run.delivery_count, event.member_id, deadline, event.broker)
            self.add_change(event.ts, run, "renew", is_inferred=is_inferred)
            return
        cause, state = _ACK_RESULTS[kind]
        if kind == 2:
            holder = replace(acquired_run, member_id=event.member_id)
            self._release(first, last, holder, event.ts, cause, is_inferred=is_inferred)
            return
        run = OffsetRun(first, last, state, acquired_run.delivery_count)
        self.add_change(event.ts, run, cause, member_id=event.member_id, is_inferred=is_inferred)

    def _renew_before_error(self, event: Event) -> None:
        """A rejected acknowledgement changes nothing, except renewals before the rejected offset."""
        start = self.start_offset or 0
        for first, last, kind in event.runs:
            for low, high, known in self.runs.split_range(first, last):
                if known is None and high < start:
                    continue  # Records below the start offset are not rejected.
                is_expired = known is not None and known.deadline is not None and known.deadline <= event.ts
                if known is None or known.member_id != event.member_id or is_expired:
                    return
                if kind == _RENEW:
                    self._apply_acknowledgement(low, high, known, kind, event._replace(error_code=None))

    def _close(self, event: Event) -> None:
        """Release the records of the member, unless the broker is no longer the leader."""
        if self._has_leader_changed:
            return
        for run in list(self.runs):
            if run.state != ACQUIRED or run.member_id != event.member_id or run.broker not in (None, event.broker):
                continue
            is_expired = run.deadline is not None and run.deadline <= event.ts
            cause, ts = ("lock_timeout", run.deadline or event.ts) if is_expired else ("session_close", event.ts)
            is_inferred = is_expired or event.kind is EventKind.DISCONNECT or event.error_code is None
            self._release(run.first, run.last, run, ts, cause, is_inferred=is_inferred)

    # Writes of leaders, and deleted records.

    def _write(self, event: Event) -> None:
        """Apply a write of the leader, which shows expired locks and the start offset."""
        for first, last, count, state in event.runs:
            for low, high, known in self.runs.split_range(first, last):
                if self._write_dead_letter(low, high, known, STATES.get(state), event):
                    continue
                if known is None or known.state != ACQUIRED or STATES.get(state) not in (AVAILABLE, ARCHIVED):
                    continue
                is_expired = self._is_expired(known, event.ts)
                ts = min(event.ts, known.deadline or event.ts) if is_expired else event.ts
                run = OffsetRun(low, high, STATES[state], count)
                cause = "lock_timeout" if is_expired else "unseen"
                self.add_change(ts, run, cause, member_id=known.member_id)
        start = self.start_offset
        if event.start is not None and event.start >= 0 and start is not None and event.start > start:
            for low, high, known in self.runs.split_range(start, event.start - 1):
                if known is None or not known.is_terminal:
                    archived = OffsetRun(low, high, ARCHIVED, None if known is None else known.delivery_count)
                    self.add_change(event.ts, archived, "start_moved", is_inferred=True)
        if self.floor is None and event.start is not None and event.start >= 0:
            self.floor = event.start

    def _write_dead_letter(
        self, first: int, last: int, known: OffsetRun | None, state: str | None, event: Event
    ) -> bool:
        """Apply the write of a record before it goes to the dead-letter queue, and after that; whether it is one."""
        if state != ARCHIVING and (known is None or known.state != ARCHIVING):
            return False
        # The start offset has passed a rejected record, which is still on its way.
        known = known or OffsetRun(first, last, ARCHIVED, None)
        if state == ARCHIVING and known.state == ACQUIRED and self._is_expired(known, event.ts):
            self._release(first, last, known, min(event.ts, known.deadline or event.ts), "lock_timeout")
        cause = "dead_letter" if state == ARCHIVING else "dead_letter_done"
        if known.state != state and state in (ARCHIVING, ARCHIVED):
            self.add_change(event.ts, OffsetRun(first, last, state, known.delivery_count), cause)
        return True

    def _set_log_start(self, event: Event) -> None:
        self._log_start = max(self._log_start or 0, event.start or 0)

    def _apply_log_start(self, event: Event) -> None:
        """Archive available records below the log start, after records beyond it were delivered."""
        log_start = self._log_start
        if log_start is None or any(first < log_start for first, *_ in event.runs):
            return
        self._log_start = None
        for run in list(self.runs):
            if run.first < log_start and run.state == AVAILABLE:
                archived = OffsetRun(run.first, min(run.last, log_start - 1), ARCHIVED, run.delivery_count)
                self.add_change(event.ts, archived, "log_start", is_inferred=True)
        self.floor = max(self.floor or 0, log_start)
        self.end_offset = max(self.end_offset or 0, log_start)

    def _set_limit(self, event: Event) -> None:
        self._is_limit_known = event.start is not None
        self._limits.append((event.ts, self._default_limit if event.start is None else event.start))


def _lock_order(run: OffsetRun) -> tuple[int, int]:
    return run.deadline or 0, run.first


_HANDLERS = {
    EventKind.LIMIT: SharePartitionMachine._set_limit,
    EventKind.RESET: SharePartitionMachine._reset,
    EventKind.LOAD: SharePartitionMachine._load,
    EventKind.LOG_START: SharePartitionMachine._set_log_start,
    EventKind.LEADER_CHANGE: SharePartitionMachine._change_leader,
    EventKind.ACKNOWLEDGE: SharePartitionMachine._acknowledge,
    EventKind.CLOSE: SharePartitionMachine._close,
    EventKind.DISCONNECT: SharePartitionMachine._close,
    EventKind.WRITE: SharePartitionMachine._write,
    EventKind.FETCH_START: SharePartitionMachine._start_fetch,
    EventKind.ACQUIRE: SharePartitionMachine._acquire,
}
