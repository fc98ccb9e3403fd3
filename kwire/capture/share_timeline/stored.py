"""What of a share partition is stored, who changes that, and what a leader knows that has just read it."""

from __future__ import annotations

from kwire.capture.share_timeline.events import ACQUIRED, AVAILABLE, GONE, STATES, Event
from kwire.capture.share_timeline.ledger import Ledger, Step
from kwire.capture.share_timeline.runs import Run

_NOBODY = -1


class StoredState(Ledger):
    """Leaders come and go; what they have not written goes with them."""

    def __init__(self) -> None:
        super().__init__()
        self._log_start: int | None = None
        # Who leads, and since which epoch, where that was told.
        self._leader: int | None = None
        self._leader_epoch = -1
        # The broker that was seen to lead last; none once it was seen to lead no more.
        self._leading: str | None = None
        # It leads no more, and the next one has not read yet.
        self._is_moved = False
        # The move was seen before anybody told who leads next.
        self._is_heard = False

    def _load(self, event: Event) -> None:
        if event.start is None or event.start < 0:
            self._forget(None)
            return
        self._forget(event.start)
        self._step_open(event, "load")
        expected = event.start
        for first, last, count, state in event.runs:
            if not expected <= first <= last:
                continue
            if expected < first:
                # Holes in the stored state are delivered before the start passes them.
                self.runs.put(Run(expected, first - 1, AVAILABLE, 0))
            run = Run(first, last, STATES.get(state, AVAILABLE), count)
            self.step(event.ts, run, "load")
            expected = last + 1
        self.stored = event.start, sum(run.size for run in self.runs if run.is_terminal)

    def _reset(self, event: Event) -> None:
        start = event.start if event.start is not None and event.start >= 0 else None
        self._forget(start)
        self.stored = event.start, 0 if start is not None else None
        self._step_open(event, event.note or "load")

    def _forget(self, start: int | None) -> None:
        self.runs.clear()
        self.lowest = self.floor = self.end_offset = start
        self._log_start = self.next_deadline = None
        self._is_moved = False
        self.stored = (start, 0) if start is not None else (None, None)

    def _step_open(self, event: Event, cause: str) -> None:
        """A row about everything from an offset on: nothing of it is in flight."""
        first = event.start if event.start is not None and event.start >= 0 else 0
        self.steps.append(Step(event.ts, Run(first, first - 1, AVAILABLE, 0), None, cause, is_inferred=False))

    # Who leads.

    def _move(self, event: Event) -> None:
        """A broker leads no more, or another one does."""
        if event.broker is None:
            self._hear(event)
        elif event.broker in {self._leading, *(run.broker for run in self.runs if run.state == ACQUIRED)}:
            if event.note == GONE:
                self._read_anew(event)
            else:
                # Its locks still run out, and that is written until the next leader has read.
                self._is_moved = True
            self._is_heard = True
            if event.start != _NOBODY:
                self._note_leader(event)

    def _hear(self, event: Event) -> None:
        """Metadata: what it tells may have been seen already."""
        if (event.complete or 0) <= self._leader_epoch:
            return
        # Two epochs later it may have led on, but not in between.
        is_another = event.start != self._leader or (event.complete or 0) > self._leader_epoch + 1
        if is_another and not self._is_heard and self._leader not in (None, _NOBODY):
            self._is_moved = True
        self._is_heard = False
        self._note_leader(event)

    def _note_leader(self, event: Event) -> None:
        if event.start is not None and event.complete is not None and event.complete > self._leader_epoch:
            self._leader, self._leader_epoch, self._is_heard = event.start, event.complete, False

    def _look(self, event: Event) -> None:
        """Somebody fetches: whoever leads since a move reads the state now."""
        if self._is_moved:
            self._read_anew(event)
        self._leading = event.broker

    def _read_anew(self, event: Event) -> None:
        """The next leader knows what was written: what was held is as it was before it was given out."""
        start = self.start_offset
        self._leading = self.next_deadline = None
        self._is_moved = False
        if start is None:
            return
        if self.stored[0] is not None and self.stored[1] == 0:
            start = self.stored[0]
        self.steps.append(Step(event.ts, Run(start, start - 1, AVAILABLE, 0), None, "load", is_inferred=True))
        for run in list(self.runs):
            if run.state == ACQUIRED:
                count = None if run.delivery_count is None else run.delivery_count - 1
                back = Run(run.first, run.last, AVAILABLE, count)
                self.step(event.ts, back, "load", member_id=run.member_id, is_inferred=True)
        self.runs.forget_end()
        self.floor = start
        self.end_offset = max(start, self.runs.end or start)
