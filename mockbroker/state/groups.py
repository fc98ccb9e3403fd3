"""All groups that a node coordinates, by id: groups of all types share one name space."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.group.coordinator_records import AppendRecords, CoordinatorRecord, RecordKind, discard_records
from mockbroker.state.group.coordinator_rules import RULES_4_3
from mockbroker.state.group.group import Group, GroupType, Topics
from mockbroker.state.group.mixed_group import Downgrade, MixedGroup
from mockbroker.state.settings import Settings
from mockbroker.state.share.share_group import ShareGroup
from mockbroker.state.share.share_rules import RELEASED, ShareRules
from mockbroker.state.streams.streams_group import StreamsGroup
from mockbroker.state.streams.streams_rules import DEFAULT_STREAMS_RULES, StreamsRules
from mockbroker.state.streams.topic_creation_errors import TopicCreationErrors
from mockbroker.state.timers import EarliestDeadline, Timers

WaitKey = tuple[Hashable, ...]
G = TypeVar("G", bound=Group)

#: The last tombstone of a group of each type.
_END_RECORDS = {
    GroupType.CLASSIC: RecordKind.CLASSIC_GROUP,
    GroupType.CONSUMER: RecordKind.CONSUMER_EPOCH,
    GroupType.SHARE: RecordKind.SHARE_EPOCH,
    GroupType.STREAMS: RecordKind.STREAMS_EPOCH,
}
_TYPES = {kind: next(type_ for type_ in GroupType if kind.name.startswith(type_.name)) for kind in RecordKind}


class Groups:
    """The registry of one node's groups, with their deadlines.

    topics: the cluster's metadata, live. wake: called with ("group", group_id) when a waiting request may continue.
    append_records: writes to the coordinator's log. downgrade: converts a consumer group to a classic one, if possible.
    """

    def __init__(
        self,
        topics: Topics,
        wake: Callable[[WaitKey], None],
        append_records: AppendRecords = discard_records,
        earliest: EarliestDeadline | None = None,
    ) -> None:
        self._topics = topics
        self._wake = wake
        self._append_records = append_records
        self.share_rules: ShareRules = RELEASED
        self.streams_rules: StreamsRules = DEFAULT_STREAMS_RULES
        self.coordinator_rules = RULES_4_3
        self._groups: dict[str, Group] = {}
        self.timers = Timers(earliest)
        self.topic_creation_errors = TopicCreationErrors()
        self.downgrade: Downgrade = lambda request: False

    def find_group(self, group_id: str) -> Group | None:
        """The group of this id, of any type, or None."""
        return self._groups.get(group_id)

    def all_groups(self) -> list[Group]:
        """All groups, in creation order."""
        return list(self._groups.values())

    def delete_group(self, group_id: str, *, now_ms: int) -> None:
        """Remove a group and its deadlines, and write the tombstones."""
        group = self._remove_group(group_id)
        if group is not None:
            group.records.write_tombstones(_END_RECORDS[group.kind], now_ms)

    def drop_group(self, group_id: str) -> None:
        """Remove a group without members in memory only: it is back when its partition is loaded again."""
        self._remove_group(group_id)

    def unload_groups(self, group_ids: Iterable[str]) -> None:
        """Remove groups that another node coordinates now; waiting requests get NOT_COORDINATOR."""
        for group_id in group_ids:
            group = self._remove_group(group_id)
            if isinstance(group, ClassicGroup):
                group.reject_waiting_members(ErrorCode.NOT_COORDINATOR)

    def replay(self, record: CoordinatorRecord, *, now_ms: int) -> None:
        """Apply a record. A group starts with any record of it, and ends with the last tombstone of its type."""
        group = self._groups.get(record.group_id)
        if group is None or group.kind is not _TYPES[record.kind]:
            if record.value is None:
                return
            group = self._create_group(_TYPES[record.kind], record.group_id)
        if record.value is None and record.kind is _END_RECORDS[group.kind]:
            self._remove_group(record.group_id)
        else:
            group.replay(record, now_ms=now_ms)

    def resume_groups(self, group_ids: Iterable[str], *, settings: Callable[[str], Settings], now_ms: int) -> None:
        """Resume loaded groups."""
        for group_id in group_ids:
            self._groups[group_id].resume(settings=settings(group_id), now_ms=now_ms)

    def _remove_group(self, group_id: str) -> Group | None:
        self.timers.cancel_group(group_id)
        return self._groups.pop(group_id, None)

    def _create_group(self, kind: GroupType, group_id: str) -> Group:
        """A new group, replacing the one of this id."""
        self._remove_group(group_id)
        if kind is GroupType.CLASSIC:
            return self.create_classic_group(group_id)
        if kind is GroupType.SHARE:
            return self.get_share_group(group_id, create=True)
        if kind is GroupType.STREAMS:
            return self.register(self.get_streams_group(group_id, create=True))
        return self.register(self.get_consumer_group(group_id, create=True))

    def get_share_group(self, group_id: str, *, create: bool = False, noun: str = "Group") -> ShareGroup:
        """The share group of this id. noun: what an error calls it, in Kafka by the request.

        Raises: GROUP_ID_NOT_FOUND when there is none and none is created, and for a group of another type, even an
        empty one.
        Source: share-semantics 5.1 rule 10.
        """
        group = self._groups.get(group_id)
        if group is None and create:
            group = ShareGroup(
                group_id,
                self._topics,
                self.timers,
                self._append_records,
                self.share_rules,
                coordinator_rules=self.coordinator_rules,
            )
            self._groups[group_id] = group
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{noun} {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        return group

    def find_classic_group(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this id, or None; classic requests do not see groups of other types."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def get_consumer_group(self, group_id: str, *, create: bool = False) -> ConsumerGroup:
        """The consumer group of this id. A new one is not stored until `register`, so that a failed join has no effect.

        A classic group without members is replaced; its offsets stay.
        Raises: GROUP_ID_NOT_FOUND when there is none and none is created, and for a group of another type.
        """
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if create and _is_replaceable(group):
            return _replace_group(group, self.new_consumer_group(group_id))
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def new_consumer_group(self, group_id: str) -> MixedGroup:
        """A consumer group that is not stored until `register`."""
        return MixedGroup(
            group_id,
            self._topics,
            self.timers,
            self._append_records,
            self.downgrade,
            coordinator_rules=self.coordinator_rules,
        )

    def get_streams_group(self, group_id: str, *, create: bool = False) -> StreamsGroup:
        """The streams group of this id; as with consumer groups, a new one is not stored until `register`.

        Raises: GROUP_ID_NOT_FOUND when there is none and none is created, and for a group of another type.
        """
        group = self._groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        if create and _is_replaceable(group):
            arguments = group_id, self._topics, self.timers, self._append_records, self.streams_rules
            rules, replaces = self.coordinator_rules, group is not None
            return _replace_group(group, StreamsGroup(*arguments, coordinator_rules=rules, replaces=replaces))
        problem = "not found" if group is None else "not a streams group"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is {problem}.")

    def register(self, group: ConsumerGroup | StreamsGroup) -> Group:
        """Store a new consumer or streams group, replacing the one of this id, and return it."""
        if self._groups.get(group.group_id) is not group:
            self._groups.pop(group.group_id, None)
            self._groups[group.group_id] = group
        return group

    def create_classic_group(self, group_id: str) -> ClassicGroup:
        """A new classic group, replacing an empty one of a newer protocol if there is one."""
        group = ClassicGroup(group_id, self.timers, lambda: self._wake(("group", group_id)), self._append_records)
        self._groups[group_id] = _replace_group(self._remove_group(group_id), group)
        return group

    def next_deadline_ms(self) -> int | None:
        """The earliest session or rebalance deadline of any group, or None."""
        return self.timers.next_deadline_ms()

    def expire(self, *, now_ms: int) -> int:
        """Run due timers: remove expired members, end rebalances. Returns the number of actions."""
        return self.timers.expire(now_ms=now_ms)


def _is_replaceable(group: Group | None) -> bool:
    """Return whether a new group may take the id: it is free, or has a classic group without members."""
    return group is None or (isinstance(group, ClassicGroup) and group.is_deletable())


def _replace_group(former: Group | None, new: G) -> G:
    """The new group, whose first records are the tombstones of the one that had its id before."""
    if former is not None:
        new.records.add_tombstones_of(former.records, _END_RECORDS[former.kind])
    return new
