"""Snapshots of groups at their coordinators: state, members with their assignments, committed offsets with lag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire import uuids
from kwire.codec import decode_lenient
from kwire.errors import WireError
from kwire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.metadata.topics import CoordinatorKind, TopicPartitionKey
from mockbroker.state.share.share_group import ShareGroup
from mockbroker.state.streams.streams_group import StreamsGroup

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node
    from mockbroker.state.group.group import Group
    from mockbroker.state.share.share_partition import SharePartition

_VERSION_SIZE = 2


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member of a group.

    partitions: assigned to it, by the name of the topic; of a streams group its active tasks, by subtopology.
    epoch: None for a member of the classic protocol.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    epoch: int | None
    partitions: Mapping[str, tuple[int, ...]]

    def __str__(self) -> str:
        assigned = ", ".join(f"{topic}[{', '.join(map(str, indexes))}]" for topic, indexes in self.partitions.items())
        return f"{self.member_id} ({self.client_id!r}): {assigned or 'nothing assigned'}"


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The committed offset of a partition; of a share group, the start offset of the share partition.

    lag: records from there to the high watermark, `end_offset`.
    """

    topic: str
    partition: int
    offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """The number of offsets up to the end."""
        return max(self.end_offset - self.offset, 0)


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group at one moment. kind: "classic", "consumer", "share" or "streams". state: as in the responses of Kafka."""

    group_id: str
    kind: str
    state: str
    members: tuple[MemberView, ...]
    offsets: tuple[GroupOffset, ...] = ()

    def __str__(self) -> str:
        """The group, its members and its offsets, one line each."""
        lines = [f"  {member}" for member in self.members]
        lines += [f"  {row.topic}-{row.partition}: offset {row.offset}, lag {row.lag}" for row in self.offsets]
        noun = "member" if len(self.members) == 1 else "members"
        return "\n".join([f"{self.kind} group {self.group_id}: {self.state}, {len(self.members)} {noun}", *lines])

    def lag_of(self, topic: str, partition: int | None = None) -> int:
        """The lag of a partition, or of all partitions of a topic that have an offset; 0 without any."""
        return sum(row.lag for row in self.offsets if row.topic == topic and partition in (None, row.partition))


def group_views(cluster: ClusterState) -> list[GroupView]:
    """All groups whose coordinator runs, by their ids."""
    loaded = [node for node in cluster.inter_broker.nodes.values() if node.is_loaded("group_log")]
    views = [_view(cluster, node, group) for node in loaded for group in node.groups.all_groups()]
    return sorted(views, key=lambda view: view.group_id)


def group_view(cluster: ClusterState, group_id: str) -> GroupView | None:
    """A group, or None if there is none, or its coordinator does not run."""
    node = find_coordinator_node(cluster, group_id)
    group = node.groups.find_group(group_id) if node is not None else None
    return _view(cluster, node, group) if node is not None and group is not None else None


def find_coordinator_node(cluster: ClusterState, group_id: str) -> Node | None:
    """The node that coordinates a group; None if it does not run or has had no group yet. Creates nothing."""
    metadata = cluster.metadata
    if not metadata.has_internal_topic(CoordinatorKind.GROUP):
        return None
    node = cluster.inter_broker.nodes.get(metadata.coordinator_id(CoordinatorKind.GROUP, group_id))
    return node if node is not None and node.is_loaded("group_log") else None


def led_share_partition(cluster: ClusterState, group_id: str, topic_id: bytes, index: int) -> SharePartition | None:
    """A share partition in the memory of its leader, or None."""
    partition = cluster.metadata.find_partition(topic_id, index)
    node = cluster.inter_broker.nodes.get(partition.leader) if partition is not None else None
    if node is None or not node.is_loaded("share_partitions"):
        return None
    return node.share_partitions.get(group_id, topic_id, index)


def _view(cluster: ClusterState, node: Node, group: Group) -> GroupView:
    offsets = _share_offsets(cluster, group) if isinstance(group, ShareGroup) else _committed(cluster, node, group)
    members = tuple(_members(cluster, group))
    return GroupView(group.group_id, group.kind.value, group.state_name, members, tuple(offsets))


def _members(cluster: ClusterState, group: Group) -> Iterator[MemberView]:
    if isinstance(group, ClassicGroup):
        for classic in group.members.by_id.values():
            partitions = _decode_assignment(classic.assignment)
            identity = classic.member_id, classic.client_id, classic.client_host, classic.group_instance_id
            yield MemberView(*identity, None, partitions)
    elif isinstance(group, ShareGroup):
        for share in group.members.values():
            keys = [(topic_id, index) for topic_id, indexes in share.assigned.items() for index in indexes]
            identity = share.member_id, share.client_id, share.client_host, None
            yield MemberView(*identity, share.member_epoch, _by_name(cluster, keys))
    elif isinstance(group, ConsumerGroup):
        for member in group.members.values():
            identity = member.member_id, member.client_id, member.client_host, member.instance_id
            yield MemberView(*identity, member.member_epoch, _by_name(cluster, member.assigned))
    elif isinstance(group, StreamsGroup):
        for worker in group.members.values():
            identity = worker.member_id, worker.client_id, worker.client_host, worker.instance_id
            yield MemberView(*identity, worker.member_epoch, _collect(worker.assigned.active))


def _decode_assignment(data: bytes) -> dict[str, tuple[int, ...]]:
    """The partitions in a classic assignment; nothing for that of another protocol than consumers'."""
    version = int.from_bytes(data[:_VERSION_SIZE], "big")
    try:
        newest = min(version, ConsumerProtocolAssignment.VERSIONS[1])
        assignment = decode_lenient(ConsumerProtocolAssignment, newest, data, at=_VERSION_SIZE).message
    except WireError:
        return {}
    return {row.topic: tuple(sorted(row.partitions)) for row in assignment.assigned_partitions}


def _by_name(cluster: ClusterState, partitions: Iterable[TopicPartitionKey]) -> dict[str, tuple[int, ...]]:
    return _collect((_topic_name(cluster, topic_id), index) for topic_id, index in partitions)


def _collect(partitions: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    collected: dict[str, tuple[int, ...]] = {}
    for name, index in sorted(partitions):
        collected[name] = (*collected.get(name, ()), index)
    return collected


def _topic_name(cluster: ClusterState, topic_id: bytes) -> str:
    topic = cluster.metadata.topic_by_id(topic_id)
    return topic.name if topic is not None else uuids.to_text(topic_id)


def _committed(cluster: ClusterState, node: Node, group: Group) -> Iterator[GroupOffset]:
    for (topic_id, index), committed in node.offsets.all_offsets(group.group_id, cluster.metadata).items():
        yield _offset_row(cluster, topic_id, index, committed.offset)


def _share_offsets(cluster: ClusterState, group: ShareGroup) -> Iterator[GroupOffset]:
    for topic_id, indexes in group.partition_states.initialized.items():
        for index in sorted(indexes):
            partition = led_share_partition(cluster, group.group_id, topic_id, index)
            if partition is not None and partition.start_offset >= 0:
                yield _offset_row(cluster, topic_id, index, partition.start_offset)


def _offset_row(cluster: ClusterState, topic_id: bytes, index: int, offset: int) -> GroupOffset:
    assert cluster.log_store is not None
    topic = cluster.metadata.topic_by_id(topic_id)
    end = cluster.log_store.open_log(topic, index).high_watermark if topic is not None else offset
    return GroupOffset(_topic_name(cluster, topic_id), index, offset, end)
