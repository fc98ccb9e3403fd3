"""Leader hints of Produce, Fetch, ShareFetch and ShareAcknowledge responses (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.engine.context import Context
from mockbroker.handlers.shared.broker_addresses import broker_address

#: Errors with which Fetch and the share APIs return the current leader.
LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

L = TypeVar("L")
E = TypeVar("E")


class _PartitionRow(Protocol[L]):
    current_leader: L


class LeaderHints(Generic[L, E]):
    """Sets the current leader in partition rows, and collects the endpoints of those leaders.

    leader_row, endpoint_row: the classes LeaderIdAndEpoch and NodeEndpoint of the response.
    """

    def __init__(
        self, leader_row: Callable[[int, int], L], endpoint_row: Callable[[int, str, int, str | None], E], ctx: Context
    ) -> None:
        self._leader_row = leader_row
        self._endpoint_row = endpoint_row
        self._ctx = ctx
        self._endpoints: dict[int, E] = {}

    def set_leader(self, row: _PartitionRow[L], topic_id: bytes, partition_index: int) -> None:
        """Fill in the current leader of a partition; a partition that does not exist is left as it is."""
        partition = self._ctx.cluster.metadata.find_partition(topic_id, partition_index)
        if partition is None:
            return
        row.current_leader = self._leader_row(partition.leader, partition.leader_epoch)
        node = self._ctx.cluster.nodes.get(partition.leader)
        if node is not None:
            address = broker_address(node, self._ctx)
            self._endpoints[node.node_id] = self._endpoint_row(node.node_id, *address, node.rack)

    def endpoints(self) -> list[E]:
        """The endpoints of all leaders that were set, each once."""
        return list(self._endpoints.values())
