"""Persisted share-partition state: its updates, changes of the leader, and the state that a new leader reads."""

from __future__ import annotations

from kwire.capture.share_timeline.events import ACQUIRED, AVAILABLE, BROKER_GONE, STATES, Event
from kwire.capture.share_timeline.offset_runs import OffsetRun
from kwire.capture.share_timeline.state_history import StateChange, StateHistory

_NO_LEADER = -1


class PersistedState(StateHistory):
    """The state of a share partition with its leader. A new leader has only the state that was persisted."""

    def __init__(self) -> None:
        super().__init__()
        self._log_start: int | None = None
        # The leader and its epoch, if a message contained them.
        self._leader: int | None = None
        self._leader_epoch = -1
        # The address of the broker that served the latest fetch; None after it stopped being the leader.
        self._leader_address: str | None = None
        # The leader has changed, and the new one has not read the state yet.
        self._has_leader_changed = False
        # The change was detected before a message named the new leader.
        self._is_change_detected = False

    def _load(self, event: Event) -> None:
        if event.start is None or event.start < 0:
            self._clear(None)
            return
        self._clear(event.start)
        self._add_open_change(event.ts, event.start, "load")
        expected = event.start
        for first, last, count, state in event.runs:
            if not expected <= first <= last:
                continue
            if expected < first:
                # Gaps in the persisted state are delivered before the start offset moves beyond them.
                self.runs.put(OffsetRun(expected, first - 1, AVAILABLE, 0))
            run = OffsetRun(first, last, STATES.get(state, AVAILABLE), count)
            self.add_change(event.ts, run, "load")
            expected = last + 1
        self.stored = event.start, sum(run.size for run in self.runs if run.is_terminal)

    def _reset(self, event: Event) -> None:
        start = event.start if event.start is not None and event.start >= 0 else None
        self._clear(start)
        self.stored = event.start, 0 if start is not None else None
        self._add_open_change(event.ts, start or 0, event.note or "load")

    def _clear(self, start: int | None) -> None:
        self.runs.clear()
        self.lowest = self.floor = self.end_offset = start
        self._log_start = self.next_deadline = None
        self._has_leader_changed = False
        self.stored = (start, 0) if start is not None else (None, None)

    def _add_open_change(self, ts: int, first: int, cause: str, *, is_inferred: bool = False) -> None:
        """A change of all records from an offset on: none of them is in flight."""
        self.changes.append(StateChange(ts, OffsetRun(first, first - 1, AVAILABLE, 0), None, cause, is_inferred))

    # Leader changes.

    def _change_leader(self, event: Event) -> None:
        """A broker is no longer the leader, or Metadata names a leader."""
        if event.broker is None:
            self._apply_metadata(event)
        elif event.broker in {self._leader_address, *(run.broker for run in self.runs if run.state == ACQUIRED)}:
            if event.note == BROKER_GONE:
                self._read_state(event)
            else:
                # Its locks still expire, and are written, until the next leader has read the state.
                self._has_leader_changed = True
            self._is_change_detected = True
            if event.start != _NO_LEADER:
                self._note_leader(event)

    def _apply_metadata(self, event: Event) -> None:
        """Apply the leader in Metadata; its change may have been detected before."""
        if (event.complete or 0) <= self._leader_epoch:
            return
        # If the epoch has grown by two, another broker was the leader in between.
        is_other_leader = event.start != self._leader or (event.complete or 0) > self._leader_epoch + 1
        if is_other_leader and not self._is_change_detected and self._leader not in (None, _NO_LEADER):
            self._has_leader_changed = True
        self._is_change_detected = False
        self._note_leader(event)

    def _note_leader(self, event: Event) -> None:
        if event.start is not None and event.complete is not None and event.complete > self._leader_epoch:
            self._leader, self._leader_epoch, self._is_change_detected = event.start, event.complete, False

    def _start_fetch(self, event: Event) -> None:
        """A member fetches: after a leader change, the new leader reads the state now."""
        if self._has_leader_changed:
            self._read_state(event)
        self._leader_address = event.broker

    def _read_state(self, event: Event) -> None:
        """A new leader reads the persisted state: acquired records are in the state before their acquisition."""
        start = self.start_offset
        self._leader_address = self.next_deadline = None
        self._has_leader_changed = False
        if start is None:
            return
        if self.stored[0] is not None and self.stored[1] == 0:
            start = self.stored[0]
        self._add_open_change(event.ts, start, "load", is_inferred=True)
        for run in list(self.runs):
            if run.state == ACQUIRED:
                count = None if run.delivery_count is None else run.delivery_count - 1
                released = OffsetRun(run.first, run.last, AVAILABLE, count)
                self.add_change(event.ts, released, "load", member_id=run.member_id, is_inferred=True)
        self.runs.drop_undelivered_end()
        self.floor = start
        self.end_offset = max(start, self.runs.end or start)
