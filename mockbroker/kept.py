"""What outlives a broker beside the logs: what coordinators would read from their topics after an election.

Groups and committed offsets are in `__consumer_offsets` in Kafka, on every replica of the partition that a group
belongs to. Here they are handed over as they are: whoever is elected has all of them.
Source: docs/decisions/replicas-share-a-log.md.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.state.group_kinds import Group
    from mockbroker.state.offsets import Offsets
    from mockbroker.state.producer_ids import ProducerIds


class Kept:
    """One for the cluster; a node enters only what its coordinators are responsible for.

    groups: those that nobody coordinates at the moment, by name.
    """

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self._producer_ids: dict[int, ProducerIds] = {}

    @cached_property
    def offsets(self) -> Offsets:
        """The committed offsets of all groups; a group's coordinator is the only one that asks for its offsets."""
        from mockbroker.state.offsets import Offsets

        return Offsets()

    def producer_ids(self, node_id: int) -> ProducerIds:
        """The producer ids of a node: one that has restarted goes on where it was, and gives none twice."""
        room = self._producer_ids.get(node_id)
        if room is None:
            from mockbroker.state.producer_ids import ProducerIds

            room = self._producer_ids[node_id] = ProducerIds(node_id)
        return room
