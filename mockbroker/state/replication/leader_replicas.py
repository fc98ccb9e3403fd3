"""`LeaderReplicas`: the replicas of one partition at its leader: who is in sync, and the high watermark.

Source: Kafka's Partition; KIP-497 for changes of the ISR that the controller has not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from mockbroker.state.replication.follower_progress import FollowerProgress

#: Node ids, in an order that matters.
Nodes = tuple[int, ...]
#: Whether a replica may join the ISR: its broker is neither fenced nor about to stop.
IsEligible = Callable[[int], bool]


class IsrChange(msgspec.Struct, frozen=True):
    """A change of the ISR that a leader requests. committed: the ISR that the leader knows."""

    leader_epoch: int
    committed: Nodes
    isr: Nodes

    @property
    def maximal_isr(self) -> Nodes:
        """The replicas that the high watermark waits for until the controller has answered: the stricter choice."""
        return self.isr if len(self.isr) > len(self.committed) else self.committed


class LagRules(msgspec.Struct, frozen=True):
    """When a replica counts as caught up. lag_max_ms: `replica.lag.time.max.ms`."""

    lag_max_ms: int
    is_eligible: IsEligible


class LeaderReplicas:
    """One partition at its leader.

    leader_epoch: -1 before the first one. epoch_start_offset: the end of the leader's log when its epoch began.
    isr: as the controller has confirmed it. pending: the change that the controller has not answered yet.
    """

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.leader_epoch = -1
        self.epoch_start_offset = 0
        self.isr: Nodes = ()
        self.pending: IsrChange | None = None
        self.followers: dict[int, FollowerProgress] = {}

    @property
    def maximal_isr(self) -> Nodes:
        """The ISR, with the replicas that are about to join it."""
        return self.isr if self.pending is None else self.pending.maximal_isr

    def set_registration(self, replicas: Iterable[int], isr: Nodes) -> None:
        """What the controller has confirmed; a pending change is over."""
        others = [node_id for node_id in replicas if node_id != self.node_id]
        self.followers = {node_id: self.followers.get(node_id) or FollowerProgress() for node_id in others}
        self.isr, self.pending = isr, None

    def start_epoch(self, leader_epoch: int, *, end_offset: int, now_ms: int) -> None:
        """Lead in a new epoch, from this end of the log on; `set_registration` comes first."""
        is_new_leader = self.leader_epoch < 0
        self.leader_epoch, self.epoch_start_offset = leader_epoch, end_offset
        for node_id, progress in self.followers.items():
            is_in_sync = node_id in self.isr
            progress.start_epoch(end_offset, is_in_sync=is_in_sync, is_new_leader=is_new_leader, now_ms=now_ms)

    def find_high_watermark(self, end_offset: int, least_in_sync: int, rules: LagRules, *, now_ms: int) -> int | None:
        """The smallest end of the replicas in sync, and of those that are about to be; None with too few in sync.

        The caller never moves the high watermark back.
        """
        if len(self.isr) < least_in_sync:
            return None
        smallest, in_sync = end_offset, self.maximal_isr
        for node_id, progress in self.followers.items():
            if progress.end_offset < smallest and (
                node_id in in_sync
                or (
                    progress.is_caught_up(end_offset, now_ms=now_ms, lag_max_ms=rules.lag_max_ms)
                    and rules.is_eligible(node_id)
                )
            ):
                smallest = progress.end_offset
        return smallest

    def plan_expansion(self, node_id: int, high_watermark: int, is_eligible: IsEligible) -> IsrChange | None:
        """Request that a follower joins the ISR, if it has every record up to the high watermark and of past epochs."""
        progress = self.followers.get(node_id)
        if progress is None or self.pending is not None or node_id in self.isr or not is_eligible(node_id):
            return None
        if progress.end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        return self._request((*self.isr, node_id))

    def plan_shrinking(self, end_offset: int, lag_max_ms: int, *, now_ms: int) -> IsrChange | None:
        """Request that the followers leave the ISR that have not caught up for too long."""
        if self.pending is not None:
            return None
        kept = tuple(
            node_id
            for node_id in self.isr
            if node_id == self.node_id or self._is_caught_up(node_id, end_offset, lag_max_ms, now_ms)
        )
        return None if kept == self.isr else self._request(kept)

    def abandon(self, change: IsrChange) -> None:
        """The controller has refused a change, and the ISR is as before."""
        if self.pending is change:
            self.pending = None

    def _is_caught_up(self, node_id: int, end_offset: int, lag_max_ms: int, now_ms: int) -> bool:
        progress = self.followers.get(node_id)
        return progress is not None and progress.is_caught_up(end_offset, now_ms=now_ms, lag_max_ms=lag_max_ms)

    def _request(self, isr: Nodes) -> IsrChange:
        self.pending = IsrChange(self.leader_epoch, self.isr, isr)
        return self.pending
