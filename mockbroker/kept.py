"""What outlives a broker beside the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.state.producer_ids import ProducerIds


class Kept:
    """One for the cluster: what its controller remembers of brokers."""

    def __init__(self) -> None:
        self._producer_ids: dict[int, ProducerIds] = {}

    def producer_ids(self, node_id: int) -> ProducerIds:
        """The producer ids of a node: one that has restarted goes on where it was, and gives none twice."""
        room = self._producer_ids.get(node_id)
        if room is None:
            from mockbroker.state.producer_ids import ProducerIds

            room = self._producer_ids[node_id] = ProducerIds(node_id)
        return room
