"""Methods of `Cluster` that show groups and share partitions, and delete groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.cluster_methods.topics import TopicMethods
from mockbroker.cluster_methods.waiting import WAIT_TIMEOUT_S
from mockbroker.cluster_methods.waits import WaitMethods

if TYPE_CHECKING:
    from mockbroker.broker.group_views import GroupView
    from mockbroker.broker.inspection import SharePartitionView


class GroupMethods(TopicMethods, WaitMethods):
    """Groups of a running cluster, as their coordinators have them."""

    def groups(self) -> list[GroupView]:
        """All groups of every type by their ids, with members, assignments, offsets and lag."""
        from mockbroker.broker.group_views import group_views

        return self._read(lambda server: group_views(server.core.state))

    def group(self, group_id: str) -> GroupView | None:
        """A group, or None."""
        from mockbroker.broker.group_views import group_view

        return self._read(lambda server: group_view(server.core.state, group_id))

    def delete_group(self, group_id: str, *, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Delete a group without members, with its offsets and the state of its share partitions.

        Raises: KafkaError if it has members (NON_EMPTY_GROUP) or does not exist (GROUP_ID_NOT_FOUND); WaitTimeout if
        other nodes do not delete their part in this time.
        """
        from mockbroker.cluster_methods.group_deletion import GroupDeletion

        deletion = GroupDeletion(group_id)
        self.wait_until(lambda: self._change(deletion.step), timeout_s=timeout_s)

    def share_partitions(self, group_id: str) -> list[SharePartitionView]:
        """The share partitions of a group that are in their leaders' memory, by topic and partition, without history.

        Empty for a group of another type, and for one that does not exist.
        """
        from mockbroker.broker import inspection

        return self._read(lambda server: inspection.share_partitions(server.core.state, group_id))

    def share_partition(self, group_id: str, topic: str, partition: int) -> SharePartitionView | None:
        """A copy of a share partition in its leader's memory: start, end, records in flight, `state_of(offset)`.

        None if no fetch of the group has requested the partition there. Raises: KafkaError for an unknown partition.
        """
        from mockbroker.broker import inspection

        return self._read(lambda server: inspection.share_partition(server.core.state, group_id, topic, partition))
