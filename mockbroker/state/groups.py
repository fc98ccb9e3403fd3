"""All groups that a node coordinates, by name: classic, consumer and share groups have one name space."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.classic_group import ClassicGroup
from mockbroker.state.consumer_group import ConsumerGroup
from mockbroker.state.group_facts import Fact, FactKind, Record, keep_no_record
from mockbroker.state.group_kinds import Group, GroupType, Settings, Topics
from mockbroker.state.group_timers import Timers
from mockbroker.state.mixed_group import Downgrade, MixedGroup
from mockbroker.state.share_group import ShareGroup
from mockbroker.state.share_rules import RELEASED, ShareRules
from mockbroker.state.streams_creation import RefusedTopics
from mockbroker.state.streams_group import StreamsGroup

Key = tuple[Hashable, ...]

#: The fact that a group of each type ends with.
_ENDS = {
    GroupType.CLASSIC: FactKind.CLASSIC_GROUP,
    GroupType.CONSUMER: FactKind.CONSUMER_EPOCH,
    GroupType.SHARE: FactKind.SHARE_EPOCH,
    GroupType.STREAMS: FactKind.STREAMS_EPOCH,
}
_TYPES = {kind: next(type_ for type_ in GroupType if kind.name.startswith(type_.name)) for kind in FactKind}


class Groups:
    """The registry of one node's groups, and their deadlines.

    topics: the cluster's metadata, live. wake: called with ("group", group_id) when a waiting request may go on.
    record: takes what is to be written to the coordinator's log. downgrade: makes a consumer group classic again, if
    that may be.
    """

    def __init__(self, topics: Topics, wake: Callable[[Key], None], record: Record = keep_no_record) -> None:
        self._topics = topics
        self._wake = wake
        self._record = record
        self.share_rules: ShareRules = RELEASED
        self._groups: dict[str, Group] = {}
        self.timers = Timers()
        self.refused_topics = RefusedTopics()
        self.downgrade: Callable[[Downgrade], bool] = lambda wish: False

    def find(self, group_id: str) -> Group | None:
        """The group of this name, whatever its type, or None."""
        return self._groups.get(group_id)

    def all(self) -> list[Group]:
        """All groups, in the order they were made."""
        return list(self._groups.values())

    def remove(self, group_id: str, *, now_ms: int) -> None:
        """Forget a group and its deadlines, and have that written."""
        group = self._forget(group_id)
        if group is not None:
            group.ledger.bury(_ENDS[group.kind], now_ms)

    def unload(self, group_ids: Iterable[str]) -> None:
        """Forget groups that another node coordinates now; who waits in them is sent there."""
        for group_id in group_ids:
            group = self._forget(group_id)
            if isinstance(group, ClassicGroup):
                group.give_up()

    def replay(self, fact: Fact, *, now_ms: int) -> None:
        """Take over a fact from the log. A group begins with any fact of it, and ends with the last one of its type."""
        group = self._groups.get(fact.group_id)
        if group is None or group.kind is not _TYPES[fact.kind]:
            if fact.value is None:
                return
            group = self._make(_TYPES[fact.kind], fact.group_id)
        if fact.value is None and fact.kind is _ENDS[group.kind]:
            self._forget(fact.group_id)
        else:
            group.replay(fact, now_ms=now_ms)

    def resume(self, group_ids: Iterable[str], *, settings: Callable[[str], Settings], now_ms: int) -> None:
        """Go on with groups that are loaded."""
        for group_id in group_ids:
            self._groups[group_id].resume(settings=settings(group_id), now_ms=now_ms)

    def _forget(self, group_id: str) -> Group | None:
        self.timers.cancel_all(group_id)
        return self._groups.pop(group_id, None)

    def _make(self, kind: GroupType, group_id: str) -> Group:
        """A new group, in place of what has its name."""
        self._forget(group_id)
        if kind is GroupType.CLASSIC:
            return self.make_classic(group_id)
        if kind is GroupType.SHARE:
            return self.share(group_id, create=True)
        streams = kind is GroupType.STREAMS
        group = self.streams(group_id, create=True) if streams else self.consumer(group_id, create=True)
        self.keep(group)
        return group

    def share(self, group_id: str, *, create: bool = False) -> ShareGroup:
        """The share group of this name.

        Raises: GROUP_ID_NOT_FOUND when there is none and none is to be made, and when the name is another type's,
        even with nobody in it. Source: share-semantics 5.1 rule 10.
        """
        group = self._groups.get(group_id)
        if group is None and create:
            group = self._groups[group_id] = ShareGroup(
                group_id, self._topics, self.timers, self._record, self.share_rules
            )
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        return group

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this name, or None: to the classic requests, groups of other types do not exist."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str, *, create: bool = False) -> ConsumerGroup:
        """The consumer group of this name. A new one is not kept until `keep`, so that a refused join leaves no trace.

        A classic group that nobody is in gives its name up; its offsets stay.
        Raises: GROUP_ID_NOT_FOUND when there is none and none is to be made, and when the name is another type's.
        """
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if create and (group is None or (isinstance(group, ClassicGroup) and group.is_deletable())):
            made = self.make_consumer(group_id)
            if group is not None:
                made.ledger.succeed(group.ledger, _ENDS[group.kind])
            return made
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def make_consumer(self, group_id: str) -> MixedGroup:
        """A consumer group that is not kept until `keep`."""
        return MixedGroup(group_id, self._topics, self.timers, self._record, downgrade=self.downgrade)

    def streams(self, group_id: str, *, create: bool = False) -> StreamsGroup:
        """The streams group of this name; a new one, as of `consumer`, is not kept until `keep`.

        Raises: GROUP_ID_NOT_FOUND when there is none and none is to be made, and when the name is another type's.
        """
        group = self._groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        if create and (group is None or (isinstance(group, ClassicGroup) and group.is_deletable())):
            made = StreamsGroup(group_id, self._topics, self.timers, self._record)
            if group is not None:
                made.ledger.succeed(group.ledger, _ENDS[group.kind])
            return made
        what = "not found" if group is None else "not a streams group"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is {what}.")

    def keep(self, group: ConsumerGroup | StreamsGroup) -> None:
        """Register a group that `consumer` or `streams` made, in place of what had its name."""
        if self._groups.get(group.group_id) is not group:
            self._groups.pop(group.group_id, None)
            self._groups[group.group_id] = group

    def make_classic(self, group_id: str) -> ClassicGroup:
        """A new classic group, in place of an empty one of the newer protocol if there is one."""
        group = ClassicGroup(group_id, self.timers, lambda: self._wake(("group", group_id)), self._record)
        former = self._forget(group_id)
        if former is not None:
            group.ledger.succeed(former.ledger, _ENDS[former.kind])
        self._groups[group_id] = group
        return group

    def next_deadline_ms(self) -> int | None:
        """The earliest session or rebalance deadline of any group, or None."""
        return self.timers.next_deadline_ms()

    def expire(self, *, now_ms: int) -> int:
        """Do what the groups have due: remove silent members, end rebalances. Returns how much it was."""
        return self.timers.expire(now_ms=now_ms)
