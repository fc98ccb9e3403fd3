"""`ClusterControl`: stops, starts and pauses nodes and moves leaders, for faults and for the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.faults.state_changes import change_state
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from random import Random

    from mockbroker.engine.core import Core
    from mockbroker.faults.state_changes import StateTarget
    from mockbroker.state.metadata.topics import CoordinatorKind


class Listeners(Protocol):
    """The listening sockets of the nodes. Implemented by `mockbroker.net`."""

    def close_listeners(self, node_id: int) -> None:
        """Refuse new connections to a node."""

    def open_listeners(self, node_id: int) -> None:
        """Listen again at the previous addresses of a node. Raises: OSError if one is in use by now."""

    def update_paused(self, node_id: int) -> None:
        """Read nothing and accept no connection while a node is paused, or do so again."""


class ClusterControl:
    """Acts on the nodes of a cluster. listeners: returns their sockets, None for a cluster without sockets.

    It may be used inside a deadline of the core. Every method raises KafkaError where the cluster is in no state for
    it: a node that is down is stopped, or a partition has no other in-sync replica.
    """

    def __init__(self, core: Core, listeners: Callable[[], Listeners | None] = lambda: None) -> None:
        self._core = core
        self._listeners = listeners

    def stop_node(self, node_id: int) -> None:
        """Stop a node cleanly: others become leaders first."""
        self._core.stop_node(node_id, self._core.now_ms)
        self.close_listeners(node_id)

    def kill_node(self, node_id: int) -> None:
        """Kill a node: others become leaders when its session expires."""
        self._core.kill_node(node_id, self._core.now_ms)
        self.close_listeners(node_id)

    def start_node(self, node_id: int) -> None:
        """Start a node that is down, at its previous addresses."""
        self._core.start_node(node_id, self._core.now_ms)
        self.open_listeners(node_id)

    def pause_node(self, node_id: int) -> None:
        """Let a node stand still, with its connections and timers."""
        self._core.pause_node(node_id, self._core.now_ms)
        self._update_paused(node_id)

    def resume_node(self, node_id: int) -> None:
        """Let a paused node go on."""
        self._core.resume_node(node_id, self._core.now_ms)
        self._update_paused(node_id)

    def _update_paused(self, node_id: int) -> None:
        listeners = self._listeners()
        if listeners is not None:
            listeners.update_paused(node_id)

    def close_listeners(self, node_id: int) -> None:
        """Refuse new connections to a node."""
        listeners = self._listeners()
        if listeners is not None:
            listeners.close_listeners(node_id)

    def open_listeners(self, node_id: int) -> None:
        """Accept connections to a node again."""
        listeners = self._listeners()
        if listeners is not None:
            listeners.open_listeners(node_id)

    def expire_sessions(self, principal: str | None) -> int:
        """End the SASL sessions of a principal, or of all. Returns: how many, at least one.

        Raises: KafkaError if there is none.
        """
        count = self._core.expire_sessions(principal, self._core.now_ms)
        if not count:
            whose = "nobody has" if principal is None else f"{principal} has no"
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{whose} SASL session")
        return count

    def change_state(self, name: str, target: StateTarget, rng: Random) -> None:
        """Let a change of `STATE_CHANGES` happen; rng: chooses what the target leaves open.

        Raises: KafkaError where there is nothing that it could act on.
        """
        change_state(name, self._core.state, target, rng, now_ms=self._core.now_ms)

    def move_leader(self, topic: str, partition_index: int, *, to: int | None) -> None:
        """Make another in-sync replica the leader of a partition."""
        self._core.move_leader(topic, partition_index, self._core.now_ms, to=to)

    def move_leaders(self, topic_name: str, partition_index: int | None, *, to: int | None) -> int:
        """Move the leaders of a topic, or of one partition. Returns: how many moved, at least one.

        Raises: the KafkaError of the last one that could not move, if none could.
        """
        topic = self._core.state.metadata.topic(topic_name)
        indexes = [partition_index] if partition_index is not None else []
        if topic is not None and partition_index is None:
            indexes = [partition.index for partition in topic.partitions]
        moved, last_error = 0, None
        for index in indexes:
            try:
                self.move_leader(topic_name, index, to=to)
                moved += 1
            except KafkaError as error:
                last_error = error
        if not moved and last_error is not None:
            raise last_error
        return moved

    def move_coordinators(self, kind: CoordinatorKind, *, to: int | None) -> int:
        """Move the coordinators of a kind: the leaders of all partitions of their topic. Returns, raises: as above."""
        return self.move_leaders(self._core.state.metadata.internal_topic(kind).name, None, to=to)
