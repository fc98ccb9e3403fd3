"""Producer ids: blocks of fresh ones. Source: Kafka's ProducerIdManager."""

from __future__ import annotations

#: How many ids a broker takes from the controller at once.
BLOCK_SIZE = 1000
#: Nodes have their blocks side by side, so that no two nodes ever give the same id.
_NODES_MAX = 1000


class ProducerIds:
    """A node's producer ids."""

    def __init__(self, node_id: int) -> None:
        self._node = node_id % _NODES_MAX
        self._given = 0

    def fresh(self) -> int:
        """An id that nobody in the cluster has had."""
        block, within = divmod(self._given, BLOCK_SIZE)
        self._given += 1
        return (block * _NODES_MAX + self._node) * BLOCK_SIZE + within
