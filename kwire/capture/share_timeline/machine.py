"""One share partition, rebuilt from what traffic tells of it: events in, transitions out. No clock, no Kafka, no Spark.

It believes what the broker answered, and fills in what no message says: locks that run out, and what must have happened
between two things that were seen. Whatever it fills in is marked as inferred.
Source of the rules: KIP-932, and Kafka 4.3.0's SharePartition, which docs/share-groups.md tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from kwire.capture.share_timeline.events import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GONE,
    STATES,
    Event,
    Kind,
    Transition,
)
from kwire.capture.share_timeline.runs import Run
from kwire.capture.share_timeline.stored import StoredState

#: Kafka's default of `group.share.delivery.count.limit`.
DELIVERY_COUNT_LIMIT = 5
#: Kafka's default of `group.share.record.lock.duration.ms`, where no answer tells another.
LOCK_DURATION_MS = 30_000
_INVALID_RECORD_STATE = 121
_ACKNOWLEDGED_AS = {
    0: ("gap", ARCHIVED),
    1: ("accept", ACKNOWLEDGED),
    2: ("release", AVAILABLE),
    3: ("reject", ARCHIVED),
}
_RENEW = 4
_MS = 1_000_000
#: A lock may end so much earlier or later than a capture's own times say.
_SLACK_MAX_MS = 1_000


class SharePartitionMachine(StoredState):
    """Feed it events in the order of `place_in_time`; each gives the transitions that it causes."""

    def __init__(
        self, *, delivery_count_limit: int = DELIVERY_COUNT_LIMIT, lock_duration_ms: int = LOCK_DURATION_MS
    ) -> None:
        super().__init__()
        self._default_limit = delivery_count_limit
        # Limits, with the time from which on each holds: a lock that has run out is told a little late.
        self._limits = [(0, delivery_count_limit)]
        self._is_limit_told = False
        self._lock_ms = lock_duration_ms
        # Up to where an answer has shown that the start goes; for one event.
        self._passed = 0

    def run(self, events: Iterable[Event], until: int) -> Iterator[Transition]:
        """What events in their order come to, up to the end of the capture."""
        for event in events:
            yield from self.feed(event)
        yield from self.finish(until)

    def feed(self, event: Event) -> list[Transition]:
        """What an event causes, and the ends of locks that come before it."""
        # Who reads the state anew sees what has run out until then.
        is_read = event.note == GONE or (self._is_moved and event.kind in (Kind.LOOK, Kind.ACQUIRE))
        told = self._run_out(event.ts, slack=not is_read)
        before = self.start_offset
        _HANDLERS[event.kind](self, event)
        return told + self.tell(event, before)

    def finish(self, until: int) -> list[Transition]:
        """The ends of locks up to the end of the capture."""
        return self._run_out(until, slack=False)

    # Locks.

    def _slack(self) -> int:
        return min(_SLACK_MAX_MS, self._lock_ms // 10) * _MS

    def _run_out(self, now: int, *, slack: bool = True) -> list[Transition]:
        """End the locks that nobody has said anything about in time."""
        latest = now - (self._slack() if slack else 0)
        if self.next_deadline is None or self.next_deadline > latest:
            return []
        over = [run for run in self.runs if run.deadline is not None and run.deadline <= latest]
        told: list[Transition] = []
        for deadline, runs in groupby(sorted(over, key=_end_of_lock), key=lambda run: run.deadline):
            before = self.start_offset
            for run in runs:
                self._come_back(run.first, run.last, run, deadline or now, "lock_timeout")
            told += self.tell(None, before)
        self.next_deadline = min((run.deadline for run in self.runs if run.deadline is not None), default=None)
        return told

    def _come_back(self, first: int, last: int, held: Run, ts: int, cause: str, *, is_inferred: bool = True) -> None:
        """Records that were held may be delivered again, unless they have met the limit or lie below the start."""
        start = self.start_offset
        state = ARCHIVED if self._is_spent(held, ts) or (start is not None and last < start) else AVAILABLE
        self.step(
            ts,
            Run(first, last, state, held.delivery_count),
            cause,
            member_id=held.member_id,
            is_inferred=is_inferred,
        )

    def _is_over(self, held: Run, ts: int) -> bool:
        return held.deadline is not None and held.deadline - self._slack() <= ts

    # Deliveries.

    def _acquire(self, event: Event) -> None:
        self._look(event)
        self._lock_ms = event.lock_ms or self._lock_ms
        self._apply_log_start(event)
        for first, last, count in event.runs:
            if not 0 <= first <= last:
                continue  # A batch size of 0 has the broker send an empty run.
            for low, high, known in self.runs.pieces(first, last):
                self._explain(low, high, known, count, event.ts)
            if self.floor is not None:
                self.floor = min(self.floor, first)  # Nothing below the start is ever given.
            if not self._is_limit_told and count > self._limits[-1][1]:
                self._limits.append((event.ts, count))
            run = Run(first, last, ACQUIRED, count, event.member_id, event.ts + self._lock_ms * _MS, event.broker)
            self.step(event.ts, run, "acquire")

    def _explain(self, first: int, last: int, known: Run | None, count: int, ts: int) -> None:
        """What must have happened to records that are delivered now, if nothing has told why they could be."""
        if known is None:
            if self.lowest is not None and self.lowest <= first < (self.start_offset or 0):
                self.step(ts, Run(first, last, AVAILABLE, count - 1), "load", is_inferred=True)
            return
        came_back = Run(first, last, AVAILABLE, count - 1)
        if known.delivery_count is not None and count <= known.delivery_count:
            # Counts never fall but where a leader knows only what was stored.
            self.step(ts, came_back, "load", member_id=known.member_id, is_inferred=True)
        elif known.state == ACQUIRED and count - 1 == (known.delivery_count or count - 1) and self._is_over(known, ts):
            assert known.deadline is not None
            self.step(min(ts, known.deadline), came_back, "lock_timeout", member_id=known.member_id, is_inferred=True)
        elif known.state != AVAILABLE or known.delivery_count not in (None, count - 1):
            self.step(ts, came_back, "unseen", member_id=known.member_id, is_inferred=True)

    # Words of members.

    def _acknowledge(self, event: Event) -> None:
        self._lock_ms = event.lock_ms or self._lock_ms
        if event.error_code:
            if event.error_code == _INVALID_RECORD_STATE:
                self._renew_in_vain(event)
            return
        start = self.start_offset
        self._passed = 0
        for first, last, kind in event.runs:
            if not 0 <= first <= last or (kind != _RENEW and kind not in _ACKNOWLEDGED_AS):
                continue
            for low, high, known in self.runs.pieces(first, last):
                if self._is_settled(low, high, known, start):
                    continue
                held = known or Run(low, high, ACQUIRED, None, event.member_id)
                if known is not None and self._has_passed(known, event):
                    self._come_back(low, high, known, min(known.deadline or event.ts, event.ts), "lock_timeout")
                else:
                    self._settle(low, high, held, kind, event)
                    if kind == _RENEW:
                        self._passed = 0  # What seemed over is held again.

    def _is_settled(self, first: int, last: int, known: Run | None, start: int | None) -> bool:
        """Whether a word on these changes nothing: what is settled is settled, below the start and above."""
        if known is not None:
            return known.is_terminal or (self.floor is not None and last < self.floor)
        if start is None or last >= start:
            return False
        return self.floor is not None or (self.lowest is not None and first >= self.lowest)

    def _has_passed(self, held: Run, event: Event) -> bool:
        """Whether a good answer means that the start has passed these: their last lock has run out in front of it."""
        if held.member_id == event.member_id and (held.deadline or event.ts) >= event.ts:
            return False
        for run in self.runs.since(self._passed):
            if run.first > held.first:
                break
            if not run.is_terminal and not self._ends_here(run, event.ts):
                return False
            self._passed = run.last + 1
        return True

    def _ends_here(self, held: Run, ts: int) -> bool:
        return held.state == ACQUIRED and self._is_spent(held, ts) and self._is_over(held, ts)

    def _is_spent(self, held: Run, ts: int) -> bool:
        limit = next(limit for since, limit in reversed(self._limits) if since <= ts)
        return held.delivery_count is not None and held.delivery_count >= limit

    def _settle(self, first: int, last: int, held: Run, kind: int, event: Event) -> None:
        is_inferred = event.error_code is None
        if kind == _RENEW:
            deadline = event.ts + self._lock_ms * _MS
            run = Run(first, last, ACQUIRED, held.delivery_count, event.member_id, deadline, event.broker)
            self.step(event.ts, run, "renew", is_inferred=is_inferred)
            return
        cause, state = _ACKNOWLEDGED_AS[kind]
        if kind == 2:
            holder = replace(held, member_id=event.member_id)
            self._come_back(first, last, holder, event.ts, cause, is_inferred=is_inferred)
            return
        run = Run(first, last, state, held.delivery_count)
        self.step(event.ts, run, cause, member_id=event.member_id, is_inferred=is_inferred)

    def _renew_in_vain(self, event: Event) -> None:
        """A refused acknowledgement changes nothing, but the renewals before the refused offset hold."""
        start = self.start_offset or 0
        for first, last, kind in event.runs:
            for low, high, known in self.runs.pieces(first, last):
                if known is None and high < start:
                    continue  # What the start has passed is never refused.
                is_over = known is not None and known.deadline is not None and known.deadline <= event.ts
                if known is None or known.member_id != event.member_id or is_over:
                    return
                if kind == _RENEW:
                    self._settle(low, high, known, kind, event._replace(error_code=None))

    def _close(self, event: Event) -> None:
        """Give back what the member holds; a broker that leads no more gives nothing back."""
        if self._is_moved:
            return
        for run in list(self.runs):
            if run.state != ACQUIRED or run.member_id != event.member_id or run.broker not in (None, event.broker):
                continue
            is_over = run.deadline is not None and run.deadline <= event.ts
            cause, ts = ("lock_timeout", run.deadline or event.ts) if is_over else ("session_close", event.ts)
            is_inferred = is_over or event.kind is Kind.DISCONNECT or event.error_code is None
            self._come_back(run.first, run.last, run, ts, cause, is_inferred=is_inferred)

    # What leaders write, and what the log cuts off.

    def _write(self, event: Event) -> None:
        """What a leader writes shows what it knows: locks that have run out, and where it begins."""
        for first, last, count, state in event.runs:
            for low, high, known in self.runs.pieces(first, last):
                if known is None or known.state != ACQUIRED or STATES.get(state) not in (AVAILABLE, ARCHIVED):
                    continue
                is_over = self._is_over(known, event.ts)
                ts = min(event.ts, known.deadline or event.ts) if is_over else event.ts
                run = Run(low, high, STATES[state], count)
                cause = "lock_timeout" if is_over else "unseen"
                self.step(ts, run, cause, member_id=known.member_id)
        start = self.start_offset
        if event.start is not None and event.start >= 0 and start is not None and event.start > start:
            for low, high, known in self.runs.pieces(start, event.start - 1):
                if known is None or not known.is_terminal:
                    count_known = None if known is None else known.delivery_count
                    self.step(event.ts, Run(low, high, ARCHIVED, count_known), "start_moved", is_inferred=True)
        if self.floor is None and event.start is not None and event.start >= 0:
            self.floor = event.start

    def _cut(self, event: Event) -> None:
        self._log_start = max(self._log_start or 0, event.start or 0)

    def _apply_log_start(self, event: Event) -> None:
        """Once something behind the log's new start is delivered, what nobody holds below it is gone."""
        cut = self._log_start
        if cut is None or any(first < cut for first, *_ in event.runs):
            return
        self._log_start = None
        for run in list(self.runs):
            if run.first < cut and run.state == AVAILABLE:
                gone = Run(run.first, min(run.last, cut - 1), ARCHIVED, run.delivery_count)
                self.step(event.ts, gone, "log_start", is_inferred=True)
        self.floor = max(self.floor or 0, cut)
        self.end_offset = max(self.end_offset or 0, cut)

    def _set_limit(self, event: Event) -> None:
        self._is_limit_told = event.start is not None
        self._limits.append((event.ts, self._default_limit if event.start is None else event.start))


def _end_of_lock(run: Run) -> tuple[int, int]:
    return run.deadline or 0, run.first


_HANDLERS = {
    Kind.LIMIT: SharePartitionMachine._set_limit,
    Kind.RESET: SharePartitionMachine._reset,
    Kind.LOAD: SharePartitionMachine._load,
    Kind.LOG_START: SharePartitionMachine._cut,
    Kind.MOVE: SharePartitionMachine._move,
    Kind.ACKNOWLEDGE: SharePartitionMachine._acknowledge,
    Kind.CLOSE: SharePartitionMachine._close,
    Kind.DISCONNECT: SharePartitionMachine._close,
    Kind.WRITE: SharePartitionMachine._write,
    Kind.LOOK: SharePartitionMachine._look,
    Kind.ACQUIRE: SharePartitionMachine._acquire,
}
