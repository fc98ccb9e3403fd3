"""The deadlines that clients wait for, to which a clock in the mode `auto` jumps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mockbroker.state.timers import INITIAL_DELAY, LIVENESS

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.state.timers import Timers


def next_awaited_ms(cluster: ClusterState, *, answer_ms: int | None, is_busy: bool) -> int | None:
    """The next deadline that clients wait for, or None.

    answer_ms: that of parked requests. is_busy: a request is in progress, whose answer may be delayed. The end of a
    first rebalance that waits for more members is awaited too.
    """
    deadlines = [answer_ms, *(timers.next_of_kind(INITIAL_DELAY) for timers in _group_timers(cluster))]
    if is_busy:
        deadlines.append(cluster.inter_broker.next_deadline_ms())
    return min((due for due in deadlines if due is not None), default=None)


def postpone_sessions(cluster: ClusterState, duration_ms: int) -> None:
    """Move the deadlines by which members of groups have to send requests, as they follow their own clocks."""
    for timers in _group_timers(cluster):
        timers.postpone(LIVENESS, duration_ms)


def _group_timers(cluster: ClusterState) -> Iterator[Timers]:
    for node in cluster.inter_broker.nodes.values():
        if node.is_loaded("group_log"):
            yield node.groups.timers
