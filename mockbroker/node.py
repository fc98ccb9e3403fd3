"""One broker of the cluster: its address, and the rooms that hold its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.persister import Persister
from mockbroker.state.fetch_session import FetchSessions
from mockbroker.state.groups import Groups
from mockbroker.state.logs import Logs, LogStore
from mockbroker.state.offsets import Offsets
from mockbroker.state.producer_ids import ProducerIds
from mockbroker.state.share_coordinator import ShareCoordinator, ShareKey
from mockbroker.state.share_partitions import SharePartitions
from mockbroker.state.share_session import ShareSessions
from mockbroker.state.topics import CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.context import ClusterState


class Node:
    """A broker; what another node wants of it travels by `Calls`, and touches its rooms only from there.

    host, port: what clients are told of the first listener. rack: of the placement, or None.
    """

    def __init__(self, node_id: int, cluster: ClusterState, store: LogStore, *, rack: str | None = None) -> None:
        self.node_id = node_id
        self.rack = rack
        self.host = ""
        self.port = 0
        self._endpoints: dict[str, tuple[str, int]] = {}
        metadata = cluster.metadata

        def is_mine(key: ShareKey) -> bool:
            return metadata.coordinator_for(CoordinatorKind.SHARE, str(key)) == node_id

        self.logs = Logs(node_id, metadata, store)
        self.fetch_sessions = FetchSessions(cluster.config.integer("max.incremental.fetch.session.cache.slots"))
        self.producer_ids = ProducerIds(node_id)
        self.groups = Groups(metadata, lambda key: cluster.wake(key))
        self.offsets = Offsets()
        self.persister = Persister(cluster.calls, metadata, cluster.rng)
        self.share_sessions = ShareSessions()
        self.share_partitions = SharePartitions(wake=lambda key: cluster.wake(key), send=self.persister.send)
        self.share_coordinator = ShareCoordinator(metadata, cluster.config, is_mine=is_mine)
        metadata.watch(self.share_coordinator.topic_changed)
        metadata.watch(lambda change, topic: self.share_partitions.topic_changed(change, topic, node_id=node_id))

    def listen(self, listener: str, host: str, port: int) -> None:
        """Note the address at which clients reach this node by a listener; the first is the node's own."""
        if not self._endpoints:
            self.host, self.port = host, port
        self._endpoints[listener] = (host, port)

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Host and port for clients that came in by this listener."""
        return self._endpoints.get(listener, (self.host, self.port))

    def next_deadline_ms(self) -> int | None:
        """When one of the rooms has something to do, or None."""
        due = (self.share_partitions.next_deadline_ms(), self.groups.next_deadline_ms())
        return min((at for at in due if at is not None), default=None)

    def expire(self, *, now_ms: int) -> None:
        """Let the rooms do what is due: locks first, then members and rebalances."""
        self.share_partitions.expire(now_ms=now_ms)
        self.groups.expire(now_ms=now_ms)
