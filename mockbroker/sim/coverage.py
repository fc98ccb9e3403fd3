"""Coverage of a simulation: how often each transition, situation and fault occurred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from mockbroker.sim.edition_client import EditionClient
from mockbroker.state.share.in_flight_batch import TRANSITIONS, RecordEvent, RecordState
from mockbroker.state.share.share_rules import RELEASED, ShareRules

_LOCKS = ("delivered again", "delivered in record_limit", "lock expired", "lock renewed")
_WRITES = ("write rolled back", "write failed after the lock", "acknowledgement refused")
_SESSIONS = ("released by close", "released by disconnect", "session replaced", "session epoch wrong")
_STARTS = ("used elsewhere while parked", "archived at the limit", "start moved", "log start moved")
_LOADS = ("loaded", "loaded again", "load refused", "gap window opened")
_MEMBERS = ("member joined", "member left", "fetch throttled")
_PRODUCERS = ("producer initialized", "produced in sequence", "produced in a transaction", "produce refused")
_TRANSACTIONS = ("offsets in a transaction", "transaction committed", "transaction aborted")
_COMPACTION = ("delivery reported late", "archived by compaction", "start passed a gap", "gap delivered")
#: Situations of clients, records and share partitions, in addition to the transitions of the state table.
SITUATIONS = _LOCKS + _WRITES + _SESSIONS + _STARTS + _LOADS + _MEMBERS + _PRODUCERS + _TRANSACTIONS + _COMPACTION

#: Defects of 4.3.0 that excuse a violation: they are counted, and need not occur.
DEFECTS = ("stuck below the log start", "stuck in a gap", "initialization fenced", "state deleted late")
#: What a write that fails at once excuses: counted, and need not occur.
_WRITE_EXCUSES = ("release undone",)

_OFFSET_ACTIONS = ("config changed", "offsets altered", "offsets deleted", "offsets described")
_GROUP_ACTIONS = ("group described", "group deleted", "state read")
_TOPIC_ACTIONS = ("partitions added", "topic deleted", "retention changed")
_CLUSTER_ACTIONS = ("share groups switched off", "share groups switched on", "quota changed")
#: Actions of administrators.
ADMIN_ACTIONS = _OFFSET_ACTIONS + _GROUP_ACTIONS + _TOPIC_ACTIONS + _CLUSTER_ACTIONS

#: Situations, actions and transitions of dead-letter queues.
_QUEUE_SITUATIONS = (
    "dead-lettered",
    "dead-lettered twice",
    "archiving resumed",
    "queue changed",
)
#: What a disturbance excuses: counted, and need not occur.
_QUEUE_EXCUSES = ("dead letter left out",)
_QUEUE_EVENTS = (RecordEvent.DEAD_LETTER, RecordEvent.ARCHIVE)

_CLIENT_FAULTS = ("call delayed", "request lost", "response lost", "client crashed")
_NODE_FAULTS = ("leader moved", "coordinator moved", "node killed", "node stopped", "node started")
#: What the simulation does to requests, clients and nodes.
FAULTS = _CLIENT_FAULTS + _NODE_FAULTS

#: What happens to a cluster with a data directory, and what it promises its clients.
DISK_FAULTS = ("write failed", "short write", "sync failed", "bit flipped", "disk full")
PROCESS_ENDS = ("process ended", "process killed", "machine crashed", "process ended in a call")
PROMISES = ("batch acknowledged", "batch sent again", "transaction promised", "offset promised")
_DISK_ANSWERS = ("refused by the disk", "damaged records received")
#: What bits that have flipped excuse: counted, and need not occur.
_DISK_EXCUSES = ("start passed a damaged batch",)

#: By API key, the actions that need the API.
_BY_API = {87: ("state read",), 90: ("offsets described",), 91: ("offsets altered",), 92: ("offsets deleted",)}
#: Situations that only the messages of 4.3.0 can express.
_RELEASED_ONLY = ("lock renewed", "delivered in record_limit")


def _absent_names(rules: ShareRules, dialect: EditionClient) -> list[str]:
    """The names that cannot occur in an edition, by its messages or its rules."""
    if dialect.is_released:
        return []
    names = rules.groups.config_names
    by_rules = {
        "ACQUIRED-GAP": dialect.supported_types((0,)) != (0,),
        # Where the log's index of aborted transactions is used, aborted records are acquired, and dropped then.
        "ACQUIRED-DROP": rules.acquisition.marker_reader is not None
        or (names is not None and "share.isolation.level" not in names),
        "archived by compaction": not rules.acquisition.archives_compacted_records,
        "gap window opened": not rules.acquisition.fetches_state_gaps,
        # Without leader epochs hardly any write fails before the lock ends.
        "write rolled back": not rules.state.checks_leader_epochs,
        "state read": rules.state.in_partition_log or not rules.state.managed_by_coordinator,
    }
    by_messages = (name for key, acts in _BY_API.items() if dialect.lacks_api(key) for name in acts)
    return list(dict.fromkeys([*_RELEASED_ONLY, *by_messages, *(name for name, is_so in by_rules.items() if is_so)]))


class Coverage:
    """Counts by name. All names exist from the start, so that one that never occurred has the count zero."""

    def __init__(
        self, rules: ShareRules = RELEASED, dialect: EditionClient | None = None, *, on_disk: bool = False
    ) -> None:
        self._table = dict(TRANSITIONS)  # Uncommitted records are not a state of 4.3.0.
        if rules.acquisition.marker_reader is None:
            del self._table[RecordState.UNCOMMITTED]
        has_queues = rules.dead_letters.resumes_archiving
        transitions = [
            f"{state.name}-{event.name}"
            for state, row in self._table.items()
            for event in row
            if has_queues or event not in _QUEUE_EVENTS
        ]
        names = (*transitions, *SITUATIONS, *ADMIN_ACTIONS, *FAULTS, *DEFECTS, *_WRITE_EXCUSES)
        names += (*_QUEUE_SITUATIONS, *_QUEUE_EXCUSES) if has_queues else ()
        names += (*DISK_FAULTS, *PROCESS_ENDS, *PROMISES, *_DISK_ANSWERS, *_DISK_EXCUSES) if on_disk else ()
        self.counts: Counter[str] = Counter(dict.fromkeys(names, 0))
        self.absent = _absent_names(rules, dialect) if dialect is not None else []

    def expect(self, names: Iterable[str]) -> None:
        """Count these situations too."""
        self.counts.update(dict.fromkeys(names, 0))

    def count(self, name: str, times: int = 1) -> None:
        """Count an occurrence."""
        assert name in self.counts, name
        self.counts[name] += times

    def add(self, other: Coverage) -> None:
        """Add the counts of another run."""
        self.counts.update(other.counts)
        self.absent = other.absent

    def missing(self) -> list[str]:
        """The names that never occurred, without those that need not occur."""
        optional = (*DEFECTS, *_WRITE_EXCUSES, *_QUEUE_EXCUSES, *_DISK_EXCUSES, *self.absent)
        expected = [name for name in self.counts if name not in optional]
        return [name for name in expected if self.counts[name] == 0]

    def line(self) -> str:
        """All counts in one line."""
        occurred = ", ".join(f"{name} {times}" for name, times in self.counts.items() if name not in self.absent)
        return f"coverage: {occurred}" + (f"; not in this edition: {', '.join(self.absent)}" if self.absent else "")

    @contextmanager
    def counting_transitions(self) -> Iterator[None]:
        """Count the transitions of the state table in this context."""
        TRANSITIONS.update({state: _CountingRow(row, state, self) for state, row in self._table.items()})
        try:
            yield
        finally:
            TRANSITIONS.update(self._table)


class _CountingRow(dict[RecordEvent, RecordState]):
    """A row of the state table that counts look-ups."""

    def __init__(self, row: dict[RecordEvent, RecordState], state: RecordState, coverage: Coverage) -> None:
        super().__init__(row)
        self._state = state
        self._coverage = coverage

    def get(self, event: RecordEvent, default: RecordState | None = None) -> RecordState | None:  # type: ignore[override]
        """The target state; the transition is counted if it is legal."""
        target = super().get(event, default)
        if target is not None:
            self._coverage.count(f"{self._state.name}-{event.name}")
        return target
