"""Methods of `Cluster` that show groups and share partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.cluster_methods.cluster_thread import ClusterThread

if TYPE_CHECKING:
    from mockbroker.broker.group_views import GroupView
    from mockbroker.broker.inspection import SharePartitionView


class GroupMethods(ClusterThread):
    """Groups of a running cluster, as their coordinators have them."""

    def groups(self) -> list[GroupView]:
        """All groups of every type by their ids, with members, assignments, offsets and lag."""
        from mockbroker.broker.group_views import group_views

        return self._read(lambda server: group_views(server.core.state))

    def group(self, group_id: str) -> GroupView | None:
        """A group, or None."""
        from mockbroker.broker.group_views import group_view

        return self._read(lambda server: group_view(server.core.state, group_id))

    def share_partition(self, group_id: str, topic: str, partition: int) -> SharePartitionView | None:
        """A copy of a share partition in its leader's memory: start, end, records in flight, `state_of(offset)`.

        None if no fetch of the group has requested the partition there. Raises: KafkaError for an unknown partition.
        """
        from mockbroker.broker import inspection

        return self._read(lambda server: inspection.share_partition(server.core.state, group_id, topic, partition))
