"""`ReplicatedNodes`: makes the brokers of a cluster whose followers fetch, and the store of their logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.broker.node import Node, find_rack
from mockbroker.replication.node_replication import NodeReplication
from mockbroker.replication.replicated_log_store import ReplicatedLogStore

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.state.metadata.topics import TopicPartitionKey
    from mockbroker.state.replication.leader_replicas import IsrChange
    from mockbroker.state.storage.log_directory import LogDirectory
    from mockbroker.state.storage.memory_budget import MemoryBudget


class ReplicatedNodes:
    """Makes brokers. clock: milliseconds of the cluster's clock. directory: of the logs, None for logs in memory."""

    def __init__(
        self,
        state: ClusterState,
        clock: Callable[[], int],
        *,
        started_ms: int,
        budget: MemoryBudget | None,
        directory: LogDirectory | None,
    ) -> None:
        self._state = state
        self._clock = clock
        self.store = ReplicatedLogStore(
            state.metadata,
            state.configs,
            state.wake,
            running=self._list_running,
            started_ms=started_ms,
            budget=budget,
            directory=directory,
            earliest=state.earliest_deadline,
        )

    def make_node(self, node_id: int) -> Node:
        """A broker that replicates. Raises: OSError if its log directory cannot be read."""
        node = Node(node_id, self._state, self.store, rack=find_rack(self._state, node_id))
        logs = self.store.node_logs(node_id)
        node.replication = NodeReplication(node_id, self._state, logs, self._alter_isr, self._clock)
        return node

    def _list_running(self) -> Iterator[NodeReplication]:
        for node in list(self._state.inter_broker.nodes.values()):
            if node.replication is not None:
                yield node.replication

    def _alter_isr(self, node_id: int, key: TopicPartitionKey, change: IsrChange, now_ms: int) -> ErrorCode:
        assert self._state.controller is not None
        return self._state.controller.alter_isr(node_id, key, change, now_ms)
