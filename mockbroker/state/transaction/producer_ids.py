"""Producer ids in blocks. Source: Kafka's RPCProducerIdManager and ProducerIdControlManager."""

from __future__ import annotations

from collections.abc import Callable

#: The size of a block, which a broker gets from the controller.
BLOCK_SIZE = 1000
#: A broker requests its next block when this many ids of the present one are left.
_NEXT_BLOCK_AT = BLOCK_SIZE // 10


class ProducerIdBlocks:
    """The blocks of a cluster, given to its brokers in the order of their requests.

    next_start: the first id of the next block, 0 in a new cluster.
    """

    def __init__(self) -> None:
        self.next_start = 0

    def next_block(self) -> range:
        """The ids of the next block."""
        start, self.next_start = self.next_start, self.next_start + BLOCK_SIZE
        return range(start, self.next_start)


class ProducerIds:
    """The producer ids of a node. next_block: requests a block from the controller."""

    def __init__(self, next_block: Callable[[], range]) -> None:
        self._request_block = next_block
        self._ids = range(0)
        self._next_ids: range | None = None

    def next_id(self) -> int:
        """An id that no producer of the cluster has had."""
        if not self._ids:
            self._ids = self._request_block() if self._next_ids is None else self._next_ids
            self._next_ids = None
        next_id, self._ids = self._ids[0], self._ids[1:]
        if len(self._ids) < _NEXT_BLOCK_AT and self._next_ids is None:
            self._next_ids = self._request_block()
        return next_id

    def drop_blocks(self, start: int) -> None:
        """Forget blocks that begin at an id or above it, as if they had not been requested."""
        if self._next_ids is not None and self._next_ids.start >= start:
            self._next_ids = None
        if self._ids and self._ids[0] >= start:
            self._ids = range(0)
