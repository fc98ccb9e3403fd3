"""`ClusterLog`: logs the changes of a cluster, found in its metadata and in the groups whose records were written.

Changes are collected while an event is handled, and logged after it, so that what belongs together is one line. Where
such lines are not logged, nothing is collected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kwire import uuids
from mockbroker.kafka_error import KafkaError
from mockbroker.log.subjects import GROUPS, LEADERS, SERVER, TOPICS
from mockbroker.state.metadata.cluster_image import TopicChange

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.state.group.group import Group
    from mockbroker.state.metadata.topics import Topic

_NO_LEADER = -1
#: The maximum number of partitions that one line names.
_PARTITIONS_MAX = 100
_MEMBER = "group %(group)r: member %(member)r of client %(client_id)r at %(client)s"


class _SeenGroup(NamedTuple):
    """A group when it was logged last. members: client id and host by member id. epoch: 0 before the first one."""

    epoch: int
    members: Mapping[str, tuple[str, str]]


_NEW_GROUP = _SeenGroup(0, {})


class ClusterLog:
    """The topics, leaders and groups that were logged last, and the changes since.

    schedule: is called when there is a change, and has `write` called when the event in progress has ended.
    """

    def __init__(self, schedule: Callable[[], None]) -> None:
        self._schedule = schedule
        self._topics: dict[tuple[TopicChange, bytes], Topic] = {}
        self._groups: dict[str, None] = {}
        self._leaders: dict[bytes, list[int]] = {}
        self._seen_groups: dict[str, _SeenGroup] = {}

    def watch(self, state: ClusterState, *, known: Collection[bytes] = ()) -> None:
        """Log the changes of a cluster from now on, its present topics first, and of no other.

        known: the ids of topics that were stored, and are not new.
        """
        self._state = state
        for collected in (self._topics, self._groups, self._leaders, self._seen_groups):
            collected.clear()
        for topic in state.metadata.topics():
            if topic.topic_id in known:
                self._leaders[topic.topic_id] = [partition.leader for partition in topic.partitions]
            else:
                self._topics[TopicChange.CREATED, topic.topic_id] = topic

        def add_topic(change: TopicChange, topic: Topic, _: object) -> None:
            if state is self._state and (TOPICS.has_info or LEADERS.has_info):
                self._topics[change, topic.topic_id] = topic
                self._schedule()

        def add_group(group_id: str) -> None:
            if state is self._state and GROUPS.has_info:
                self._groups[group_id] = None
                self._schedule()

        state.metadata.add_listener(add_topic)
        state.group_listeners.append(add_group)

    def write(self) -> None:
        """Log the changes that were collected."""
        topics, self._topics = self._topics, {}
        groups, self._groups = self._groups, {}
        for (change, _), topic in topics.items():
            self._write_topic(change, topic)
        for group_id in groups:
            self._write_group(group_id)

    def _write_topic(self, change: TopicChange, topic: Topic) -> None:
        name, count = topic.name, len(topic.partitions)
        match change:
            case TopicChange.CREATED:
                template = "topic %(topic)s was made: partitions %(partition_count)d, replicas %(replicas)d"
                identity = {"topic_id": uuids.to_text(topic.topic_id), "replicas": topic.replication_factor}
                TOPICS.info(template, about=name, topic=name, partition_count=count, **identity)
            case TopicChange.PARTITIONS_ADDED:
                template = "topic %(topic)s got partitions: %(partition_count)d now"
                TOPICS.info(template, about=name, topic=name, partition_count=count)
            case TopicChange.DELETED:
                self._leaders.pop(topic.topic_id, None)
                topic_id = uuids.to_text(topic.topic_id)
                TOPICS.info("topic %(topic)s was deleted", about=name, topic=name, topic_id=topic_id)
                return
        self._write_leaders(topic)

    def _write_leaders(self, topic: Topic) -> None:
        """Log one line for all partitions that moved from one node to the same other one."""
        after = [partition.leader for partition in topic.partitions]
        before = self._leaders.get(topic.topic_id, after)
        self._leaders[topic.topic_id] = after
        moved: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, (former, present) in enumerate(zip(before, after, strict=False)):
            if former != present:
                moved[former, present].append(index)
        for (former, present), indexes in moved.items():
            _log_leader(topic.name, indexes, former, present)

    def _write_group(self, group_id: str) -> None:
        from mockbroker.broker.group_views import find_coordinator_node

        node = find_coordinator_node(self._state, group_id)
        if node is None:
            return  # Its coordinator has ended: the group is loaded elsewhere, without a change.
        group = node.groups.find_group(group_id)
        if group is not None:
            self._write_members(group)
            return
        try:
            node.group_log.require_loaded(group_id)
        except KafkaError:  # It is being loaded.
            return
        if self._seen_groups.pop(group_id, None) is not None:
            GROUPS.info("group %(group)r was deleted", about=group_id, group=group_id)

    def _write_members(self, group: Group) -> None:
        group_id, kind = group.group_id, group.kind.value
        before, after = self._seen_groups.get(group_id, _NEW_GROUP), _summarize(group)
        self._seen_groups[group_id] = after
        for verb, members, others in (
            ("joined", after.members, before.members),
            ("left", before.members, after.members),
        ):
            for member_id in [member_id for member_id in members if member_id not in others]:
                client_id, host = members[member_id]
                who = {"member": member_id, "client_id": client_id, "client": host.removeprefix("/")}
                GROUPS.info(f"{_MEMBER} {verb}", about=group_id, group=group_id, group_type=kind, **who)
        if before.epoch != after.epoch and (after.members or before.members):
            template = "group %(group)r has rebalanced: %(group_type)s, epoch %(epoch)d, members %(member_count)d"
            facts = {"group_type": kind, "epoch": after.epoch, "member_count": len(after.members)}
            GROUPS.info(template, about=group_id, group=group_id, **facts)


def _log_leader(topic: str, indexes: list[int], former: int, present: int) -> None:
    fields = {"topic": topic, "partitions": indexes[:_PARTITIONS_MAX], "partition_count": len(indexes)}
    what = "%(topic)s %(partitions)s"
    if len(indexes) > _PARTITIONS_MAX:
        what += f" and {len(indexes) - _PARTITIONS_MAX} more"
    if former == _NO_LEADER:
        template = f"leader of {what} is node %(to_node)d; there was none"
    elif present == _NO_LEADER:
        template = f"leader of {what} was node %(from_node)d; there is none any more"
    else:
        template = f"leader of {what} moved from node %(from_node)d to node %(to_node)d"
    LEADERS.info(template, about=topic, from_node=former, to_node=present, **fields)


def _summarize(group: Group) -> _SeenGroup:
    """The generation or the epoch of the assignment of a group, and its members."""
    from mockbroker.state.group.classic_group import ClassicGroup
    from mockbroker.state.group.epoch_group import EpochGroup
    from mockbroker.state.share.share_group import ShareGroup

    if isinstance(group, ClassicGroup):
        members = group.members.by_id.items()
        return _SeenGroup(group.generation_id, {key: (m.client_id, m.client_host) for key, m in members})
    assert isinstance(group, EpochGroup | ShareGroup)
    rows = group.members.items()
    return _SeenGroup(group.assignment_epoch, {key: (m.client_id, m.client_host) for key, m in rows})


def log_full_memory(used: int, limit: int) -> None:
    """Log that the logs take as many bytes as they may."""
    template = "produced batches are refused: the logs take %(used)d bytes, and may take %(limit)d (--memory-limit)"
    SERVER.warning(template, used=used, limit=limit)
