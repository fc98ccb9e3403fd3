"""How often every transition and every fault was met: a simulation that never gets there proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from mockbroker.state.in_flight import TRANSITIONS, Event, State

#: What clients, records and share partitions go through, beside the moves of the state table.
SITUATIONS = (
    "delivered again",
    "delivered in record_limit",
    "lock expired",
    "lock renewed",
    "write rolled back",
    "write failed after the lock",
    "acknowledgement refused",
    "released by close",
    "released by disconnect",
    "session replaced",
    "session epoch wrong",
    "used elsewhere while parked",
    "given up at the limit",
    "start moved",
    "log start moved",
    "loaded",
    "loaded again",
    "load refused",
    "gap window opened",
    "member joined",
    "member left",
    "producer begun",
    "produced in sequence",
    "produced in a transaction",
    "produce refused",
    "offsets in a transaction",
    "transaction committed",
    "transaction aborted",
    "delivery told late",
    "archived by compaction",
    "start passed a hole",
    "hole delivered",
)

#: Where 4.3.0 does not keep what must hold: counted, as they excuse something, and not wanted.
DEFECTS = ("stuck below the log start", "stuck in a hole", "initialisation fenced", "state deleted late")

#: What administrators do.
ACTS = (
    "config changed",
    "offsets altered",
    "offsets deleted",
    "offsets described",
    "group described",
    "group deleted",
    "state read",
    "topic grown",
    "topic deleted",
    "retention changed",
    "share groups switched off",
    "share groups switched on",
)

#: What goes wrong around them.
FAULTS = (
    "call late",
    "request lost",
    "answer lost",
    "client crashed",
    "leader moved",
    "coordinator moved",
    "node killed",
    "node stopped",
    "node started",
)

#: The moves that 4.3.0 knows.
_RELEASED = {state: row for state, row in TRANSITIONS.items() if state is not State.UNCOMMITTED}


class Coverage:
    """Counts by name. Every name is known from the start, so that what was never met shows as zero."""

    def __init__(self) -> None:
        moves = [f"{state.name}-{event.name}" for state, row in _RELEASED.items() for event in row]
        self.counts: Counter[str] = Counter(dict.fromkeys((*moves, *SITUATIONS, *ACTS, *FAULTS, *DEFECTS), 0))

    def count(self, name: str, times: int = 1) -> None:
        """Note that something was met."""
        assert name in self.counts, name
        self.counts[name] += times

    def add(self, other: Coverage) -> None:
        """Take over the counts of another run."""
        for name, times in other.counts.items():
            self.counts[name] += times

    def missing(self) -> list[str]:
        """What was never met, but for defects."""
        return [name for name, times in self.counts.items() if times == 0 and name not in DEFECTS]

    def line(self) -> str:
        """All counts in one line."""
        return "coverage: " + ", ".join(f"{name} {times}" for name, times in self.counts.items())

    @contextmanager
    def of_transitions(self) -> Iterator[None]:
        """Count the moves of the state table while this lasts."""
        plain = dict(_RELEASED)
        for state, row in plain.items():
            TRANSITIONS[state] = _Counted(row, state, self)
        try:
            yield
        finally:
            TRANSITIONS.update(plain)


class _Counted(dict[Event, State]):
    """A row of the state table that notes what is looked up in it."""

    def __init__(self, row: dict[Event, State], state: State, coverage: Coverage) -> None:
        super().__init__(row)
        self._state = state
        self._coverage = coverage

    def get(self, event: Event, default: State | None = None) -> State | None:  # type: ignore[override]
        """The target, counted when there is one."""
        target = super().get(event, default)
        if target is not None:
            self._coverage.count(f"{self._state.name}-{event.name}")
        return target
