"""What is known of a share partition so far, and the rows that are told whenever it changes."""

from __future__ import annotations

from typing import NamedTuple

from kwire.capture.share_timeline.events import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, Event, Transition
from kwire.capture.share_timeline.runs import Run, RunMap

_INT64_MAX = 2**63 - 1
#: What a leader writes to the share coordinator when it happens.
_WRITTEN = frozenset({"accept", "release", "reject", "gap", "lock_timeout", "session_close", "unseen"})
#: Rows about everything from an offset on.
_OPEN_ENDED = frozenset(
    {"load", "alter_offsets", "delete_offsets", "delete_group", "delete_topic", "initialize", "delete_state"}
)


class Step(NamedTuple):
    """A run that has come into a state, before it is known what that does to start and end."""

    ts: int
    run: Run
    member_id: str | None
    cause: str
    is_inferred: bool


class _Window(NamedTuple):
    """A share partition as it stands after a transition, in the words of `Transition`."""

    start_offset: int | None
    end_offset: int | None
    stored_start_offset: int | None
    delivery_complete_count: int | None
    available: int
    acquired: int
    acknowledged: int
    archived: int


class Ledger:
    """Runs, start and end of one share partition. A run that is put here becomes a row with the next `tell`."""

    def __init__(self) -> None:
        self.runs = RunMap()
        self.end_offset: int | None = None
        #: What the leader has last written: the start before the change, and how many records behind it are settled.
        self.stored: tuple[int | None, int | None] = (None, None)
        #: Below it nothing has been seen: settled, or from before the capture.
        self.lowest: int | None = None
        #: No start lies below: a state that was told, or the log's start.
        self.floor: int | None = None
        self.next_deadline: int | None = None
        self.steps: list[Step] = []
        self._told = 0

    @property
    def start_offset(self) -> int | None:
        """The first offset that may still be delivered."""
        front = self.runs.front
        start = self.end_offset if front is None else front.first
        return start if self.floor is None else max(self.floor, start or 0)

    def step(self, ts: int, run: Run, cause: str, *, member_id: str | None = None, is_inferred: bool = False) -> None:
        """Say that a run has come into a state; member_id: who did it, or held it until now."""
        self.runs.put(run)
        self.lowest = run.first if self.lowest is None else min(self.lowest, run.first)
        self.end_offset = max(self.end_offset or 0, run.last + 1)
        if run.deadline is not None:
            self.next_deadline = min(self.next_deadline or run.deadline, run.deadline)
        self.steps.append(Step(ts, run, member_id, cause, is_inferred))

    def tell(self, event: Event | None, before: int | None) -> list[Transition]:
        """The transitions since the last telling; one event, or one lock, is one write of the leader."""
        steps, self.steps = self.steps, []
        if not steps:
            return []
        if any(step.cause in _WRITTEN for step in steps):
            self.stored = before, self.runs.sizes[ACKNOWLEDGED] + self.runs.sizes[ARCHIVED]
        if event is not None and event.complete is not None:
            self.stored = event.start, event.complete
        self.runs.settle_front()
        window = self._window()
        told: list[Transition] = []
        last: Step | None = None
        for step in steps:
            if last is not None and _goes_on(last, step):
                told[-1] = told[-1]._replace(last_offset=step.run.last)
            else:
                told.append(self._transition(step, window, event))
            last = step
        return told

    def _window(self) -> _Window:
        return _Window(
            _fitting(self.start_offset),
            _fitting(self.end_offset),
            _fitting(self.stored[0]),
            _fitting(self.stored[1]),
            *(min(self.runs.sizes[state], _INT64_MAX) for state in (AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED)),
        )

    def _transition(self, step: Step, window: _Window, event: Event | None) -> Transition:
        run = step.run
        self._told += 1
        return Transition(
            step.ts,
            self._told - 1,
            run.first,
            None if run.last < run.first else run.last,
            run.state,
            run.delivery_count,
            step.member_id or run.member_id,
            step.cause,
            step.is_inferred,
            *window,
            None if event is None else event.file,
            None if event is None else event.conn_id,
            None if event is None else event.correlation_id,
        )


def _goes_on(last: Step, step: Step) -> bool:
    return (
        step.run.first == last.run.last + 1
        and (step.ts, step.member_id, step.cause, step.is_inferred)
        == (last.ts, last.member_id, last.cause, last.is_inferred)
        and (step.run.state, step.run.delivery_count, step.run.member_id)
        == (last.run.state, last.run.delivery_count, last.run.member_id)
        and last.cause not in _OPEN_ENDED
    )


def _fitting(value: int | None) -> int | None:
    """Offsets may come from a hostile wire; beyond what a column holds there is nothing to tell."""
    return None if value is None else min(value, _INT64_MAX)
