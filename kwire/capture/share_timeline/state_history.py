"""The state of one share partition, and its changes as transitions."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.share_timeline.events import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    OPEN_ENDED,
    Transition,
)
from kwire.capture.share_timeline.offset_runs import OffsetRun, OffsetRunMap

if TYPE_CHECKING:
    from kwire.capture.share_timeline.events import Event

_INT64_MAX = 2**63 - 1
#: Causes after which a leader writes the state to the share coordinator.
_WRITTEN = frozenset({"accept", "release", "reject", "gap", "lock_timeout", "session_close", "unseen"})


class StateChange(NamedTuple):
    """A state change of a run, before its effect on the start and end offset is known."""

    ts: int
    run: OffsetRun
    member_id: str | None
    cause: str
    is_inferred: bool


class _Offsets(NamedTuple):
    """Offsets and counts of a share partition after a transition, with the names of `Transition`."""

    start_offset: int | None
    end_offset: int | None
    stored_start_offset: int | None
    delivery_complete_count: int | None
    available: int
    acquired: int
    acknowledged: int
    archived: int


class StateHistory:
    """Runs, start and end of one share partition. Changes become transitions by `take_transitions`."""

    def __init__(self) -> None:
        self.runs = OffsetRunMap()
        self.end_offset: int | None = None
        #: The latest state that the leader wrote: start offset and number of finished records after it.
        self.stored: tuple[int | None, int | None] = (None, None)
        #: The lowest offset of all events; records below it were finished, or delivered before the capture.
        self.lowest: int | None = None
        #: Lower bound of the start offset, from persisted state or the log start.
        self.floor: int | None = None
        self.next_deadline: int | None = None
        self.changes: list[StateChange] = []
        self._transition_count = 0

    @property
    def start_offset(self) -> int | None:
        """The first offset that may still be delivered."""
        front = self.runs.front
        start = self.end_offset if front is None else front.first
        return start if self.floor is None else max(self.floor, start or 0)

    def add_change(
        self, ts: int, run: OffsetRun, cause: str, *, member_id: str | None = None, is_inferred: bool = False
    ) -> None:
        """Set the state of a run. member_id: the member that caused it, or that held the records before."""
        self.runs.put(run)
        self.lowest = run.first if self.lowest is None else min(self.lowest, run.first)
        self.end_offset = max(self.end_offset or 0, run.last + 1)
        if run.deadline is not None:
            self.next_deadline = min(self.next_deadline or run.deadline, run.deadline)
        self.changes.append(StateChange(ts, run, member_id, cause, is_inferred))

    def take_transitions(self, event: Event | None, previous_start: int | None) -> list[Transition]:
        """The transitions since the last call. One event, or one expired lock, is one write of the leader."""
        changes, self.changes = self.changes, []
        if not changes:
            return []
        if any(change.cause in _WRITTEN for change in changes):
            self.stored = previous_start, self.runs.sizes[ACKNOWLEDGED] + self.runs.sizes[ARCHIVED]
        if event is not None and event.complete is not None:
            self.stored = event.start, event.complete
        self.runs.drop_finished_front()
        offsets = self._current_offsets()
        transitions: list[Transition] = []
        last: StateChange | None = None
        for change in changes:
            if last is not None and _continues(last, change):
                transitions[-1] = transitions[-1]._replace(last_offset=change.run.last)
            else:
                transitions.append(self._make_transition(change, offsets, event))
            last = change
        return transitions

    def _current_offsets(self) -> _Offsets:
        sizes = self.runs.sizes
        return _Offsets(
            _clamped(self.start_offset),
            _clamped(self.end_offset),
            _clamped(self.stored[0]),
            _clamped(self.stored[1]),
            min(sizes[AVAILABLE], _INT64_MAX),
            min(sizes[ACQUIRED], _INT64_MAX),
            min(sizes[ACKNOWLEDGED], _INT64_MAX),
            min(sizes[ARCHIVED] + sizes[ARCHIVING], _INT64_MAX),
        )

    def _make_transition(self, change: StateChange, offsets: _Offsets, event: Event | None) -> Transition:
        run = change.run
        self._transition_count += 1
        return Transition(
            change.ts,
            self._transition_count - 1,
            run.first,
            None if run.last < run.first else run.last,
            run.state,
            run.delivery_count,
            change.member_id or run.member_id,
            change.cause,
            change.is_inferred,
            *offsets,
            None if event is None else event.file,
            None if event is None else event.conn_id,
            None if event is None else event.correlation_id,
        )


def _continues(last: StateChange, change: StateChange) -> bool:
    return (
        change.run.first == last.run.last + 1
        and change._replace(run=last.run) == last
        and _state_of_records(change.run) == _state_of_records(last.run)
        and last.cause not in OPEN_ENDED
    )


_state_of_records = attrgetter("state", "delivery_count", "member_id")


def _clamped(value: int | None) -> int | None:
    """The value, limited to the range of the column: offsets of a capture may be invalid."""
    return None if value is None else min(value, _INT64_MAX)
