"""How often every transition and every fault was met: a simulation that never gets there proves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from mockbroker.sim.speech import Speech
from mockbroker.state.in_flight import TRANSITIONS, Event, State
from mockbroker.state.share_rules import RELEASED, ShareRules

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
_RELEASED: dict[State, dict[Event, State]] = {
    state: row for state, row in TRANSITIONS.items() if state is not State.UNCOMMITTED
}

#: By the key of its API, what is not done where there is none.
_NEEDED = {87: ("state read",), 90: ("offsets described",), 91: ("offsets altered",), 92: ("offsets deleted",)}
#: What only the messages of 4.3.0 can say.
_LATER = ("lock renewed", "delivered in record_limit")


def _absent(rules: ShareRules, speech: Speech) -> list[str]:
    """What an edition does not have, in its messages or by its rules."""
    if speech.is_released:
        return []
    names = rules.group_configs
    by_rules = {
        "ACQUIRED-GAP": speech.sayable((0,)) != (0,),
        # Aborted records are acquired, and dropped then, where the log's index tells of them.
        "ACQUIRED-DROP": rules.follows_markers or (names is not None and "share.isolation.level" not in names),
        "archived by compaction": not rules.archives_missing,
        "gap window opened": not rules.reads_holes,
        # Leaders have no epochs, so hardly any write fails while the lock lasts.
        "write rolled back": not rules.knows_leader_epochs,
        "state read": rules.state_in_log or not rules.manages_state,
    }
    by_messages = (name for key, acts in _NEEDED.items() if speech.lacks(key) for name in acts)
    return list(dict.fromkeys([*_LATER, *by_messages, *(name for name, is_so in by_rules.items() if is_so)]))


class Coverage:
    """Counts by name. Every name is known from the start, so that what was never met shows as zero."""

    def __init__(self, rules: ShareRules = RELEASED, speech: Speech | None = None) -> None:
        self._table = dict(TRANSITIONS) if rules.follows_markers else _RELEASED
        moves = [f"{state.name}-{event.name}" for state, row in self._table.items() for event in row]
        self.counts: Counter[str] = Counter(dict.fromkeys((*moves, *SITUATIONS, *ACTS, *FAULTS, *DEFECTS), 0))
        self.absent = _absent(rules, speech) if speech is not None else []

    def count(self, name: str, times: int = 1) -> None:
        """Note that something was met."""
        assert name in self.counts, name
        self.counts[name] += times

    def add(self, other: Coverage) -> None:
        """Take over the counts of another run."""
        self.counts.update(other.counts)
        self.absent = other.absent

    def missing(self) -> list[str]:
        """What was never met, but for defects."""
        there = [name for name in self.counts if name not in DEFECTS and name not in self.absent]
        return [name for name in there if self.counts[name] == 0]

    def line(self) -> str:
        """All counts in one line."""
        met = ", ".join(f"{name} {times}" for name, times in self.counts.items() if name not in self.absent)
        return f"coverage: {met}" + (f"; not in this edition: {', '.join(self.absent)}" if self.absent else "")

    @contextmanager
    def of_transitions(self) -> Iterator[None]:
        """Count the moves of the state table while this lasts."""
        plain = dict(self._table)
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
