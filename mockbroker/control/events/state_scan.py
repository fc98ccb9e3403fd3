"""Finds what has changed in a cluster: groups, share partitions, topics, nodes, faults, chaos and the clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from mockbroker.broker.group_views import group_views
from mockbroker.broker.inspection import share_partitions
from mockbroker.broker.node_views import node_views, topic_views
from mockbroker.control.events.event_ring import Event

if TYPE_CHECKING:
    from mockbroker.clock import ClockMode
    from mockbroker.faults.cluster_model import ClusterFault
    from mockbroker.faults.model import Fault
    from mockbroker.server import Server

#: The kinds of events that a scan finds.
STATE_KINDS = frozenset({"group", "share-partition", "topic", "node", "fault", "chaos", "clock"})
Key = tuple[str | int, ...]
#: The size of a view without its rows, and of a row, bytes, about.
_VIEW_BYTES, _ROW_BYTES = 1000, 300


class FaultView(NamedTuple):
    """A fault that was not removed, at one moment."""

    number: int
    name: str
    hits: int
    held: int
    fault: Fault | ClusterFault
    near_misses: tuple[str, ...]


class ChaosView(NamedTuple):
    """A chaos profile that was started, at one moment. faults: their numbers."""

    number: int
    profile: str
    seed: int
    hits: int
    is_active: bool
    faults: tuple[int, ...]


class ClockView(NamedTuple):
    """The mode of the clock, its time if it is frozen, and how far it was moved from the wall clock."""

    mode: ClockMode
    frozen_ms: int | None
    moved_ms: int


class Gone(NamedTuple):
    """Something that does not exist any more, by its names or numbers."""

    key: Key


class StateScan:
    """Compares the state of a cluster with the previous scan. Its methods run in the cluster's thread."""

    def __init__(self) -> None:
        self._seen: dict[str, Mapping[Key, object]] = {}

    def forget(self) -> None:
        """Let the next scan find no changes."""
        self._seen.clear()

    def find_changes(self, server: Server, kinds: frozenset[str]) -> Iterator[Event]:
        """An event for each difference; none for a kind that was not looked at before."""
        now_ms = server.clock.now_ms()
        for kind in sorted(STATE_KINDS):
            if kind not in kinds:
                self._seen.pop(kind, None)
                continue
            before, after = self._seen.get(kind), dict(_views(server, kind))
            self._seen[kind] = after
            if before is None:
                continue
            for key, view in after.items():
                if before.get(key) != view:
                    yield Event(kind, now_ms, view, _size(view))
            for key in before:
                if key not in after:
                    yield Event(kind, now_ms, Gone(key), _VIEW_BYTES)


def _views(server: Server, kind: str) -> Iterator[tuple[Key, object]]:
    state = server.core.state
    match kind:
        case "group":
            yield from (((view.group_id,), view) for view in group_views(state))
        case "share-partition":
            for partition in share_partitions(state):
                yield (partition.group_id, partition.topic, partition.partition), partition
        case "topic":
            yield from (((topic.name,), topic) for topic in topic_views(state))
        case "node":
            yield from (((node.node_id,), node) for node in node_views(state, server.nodes))
        case "fault":
            yield from _faults(server)
        case "chaos":
            yield from _chaos(server)
        case "clock":
            clock = server.clock
            yield (), ClockView(clock.mode, clock.now_ms() if clock.is_frozen else None, clock.moved_ms)


def _faults(server: Server) -> Iterator[tuple[Key, FaultView]]:
    if server.has_faults:
        for active in server.faults.active:
            view = FaultView(
                active.number,
                active.name,
                active.hits,
                active.held_count,
                active.fault,
                tuple(active.near_misses),
            )
            yield (active.number,), view


def _chaos(server: Server) -> Iterator[tuple[Key, ChaosView]]:
    if server.has_faults:
        active = set(map(id, server.faults.active))
        for run in server.faults.chaos_runs:
            hits, numbers = sum(fault.hits for fault in run.faults), tuple(fault.number for fault in run.faults)
            is_active = any(id(fault) in active for fault in run.faults)
            yield (run.number,), ChaosView(run.number, run.profile, run.seed, hits, is_active, numbers)


def _size(view: object) -> int:
    rows = sum(len(getattr(view, name, ())) for name in ("members", "offsets", "in_flight", "partitions"))
    return _VIEW_BYTES + _ROW_BYTES * rows
