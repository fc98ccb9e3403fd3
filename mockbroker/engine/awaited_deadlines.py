"""The deadlines that clients wait for, to which a clock in the mode `auto` jumps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mockbroker.state.timers import INITIAL_DELAY, LIVENESS

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.engine.active_request import Connection
    from mockbroker.engine.request_runner import RequestRunner
    from mockbroker.state.timers import Timers


def next_awaited_ms(
    cluster: ClusterState, requests: RequestRunner, connections: Mapping[int, Connection], *, is_busy: bool
) -> int | None:
    """The next deadline that clients wait for, or None.

    They are those of parked requests, the end of the throttle time of clients that have sent another request, and the
    end of a first rebalance that waits for more members. is_busy: a paused node has clients; otherwise while a request
    is in progress its answer may be delayed, so that what is scheduled between nodes is awaited as well.
    """
    muted = requests.muted
    deadlines = [requests.purgatory.next_answer_ms(), muted.next_awaited_ms()]
    deadlines += (timers.next_of_kind(INITIAL_DELAY) for timers in _group_timers(cluster))
    is_busy = is_busy or any(entry.is_busy and number not in muted for number, entry in connections.items())
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
