"""What a test waits for in groups: states, numbers of members, and offsets."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.broker.group_views import GroupView, find_coordinator_node, group_view, led_share_partition
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.group import GroupType
from mockbroker.state.share.share_group import ShareGroup
from mockbroker.state.share.share_partition import PartitionStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mockbroker.server import Server

_EPOCH_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
#: The states of the groups of each type, with Kafka's names. Dead: there is no such group.
GROUP_STATES = {
    GroupType.CLASSIC.value: ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    GroupType.CONSUMER.value: _EPOCH_STATES,
    GroupType.SHARE.value: ("Empty", "Stable", "Dead"),
    GroupType.STREAMS.value: ("NotReady", *_EPOCH_STATES),
}


class GroupWait:
    """Waits for a group in a state, with a number of members; None: with any.

    Raises: ValueError for a state that no group can have, and for members in a group that has none in this state.
    """

    def __init__(self, group_id: str, *, state: str | None, members: int | None) -> None:
        known = sorted({name for names in GROUP_STATES.values() for name in names})
        if state is not None and state not in known:
            nearest = get_close_matches(state, known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"the states are {', '.join(known)}"
            raise ValueError(f"{state!r} is not a state of a group; {hint}")
        has_members = None if state is None else state not in ("Empty", "Dead")
        if members is not None and (members < 0 or has_members not in (None, members > 0)):
            count = "at least one member" if has_members else "no members" if has_members is False else "0 or more"
            raise ValueError(f"members={members}: a group in state {state or 'any'} has {count}")
        self._group_id = group_id
        self._state = state
        self._members = members

    def check(self, server: Server) -> GroupView | None:
        """The group, once it is as expected. Raises: ValueError if groups of its type are never in the state."""
        view = group_view(server.core.state, self._group_id)
        if view is None:
            return GroupView(self._group_id, "no", "Dead", ()) if self._state == "Dead" else None
        states = GROUP_STATES[view.kind]
        if self._state not in (None, view.state, *states):
            raise ValueError(f"a {view.kind} group is never in state {self._state}; its states are {', '.join(states)}")
        is_expected = self._state in (None, view.state) and self._members in (None, len(view.members))
        return view if is_expected else None

    def expected(self) -> str:
        """The group with its state and members."""
        text = f"group {self._group_id!r}" + (f" in state {self._state}" if self._state else "")
        return text if self._members is None else f"{text} with {self._members} member{'s' * (self._members != 1)}"

    def seen(self, server: Server) -> str:
        """The group as it is, or the others."""
        view = group_view(server.core.state, self._group_id)
        if view is not None:
            return str(view)
        node = find_coordinator_node(server.core.state, self._group_id)
        others = [group.group_id for group in node.groups.all_groups()] if node is not None else []
        return f"no such group{'; there are ' + ', '.join(map(repr, others)) if others else ''}"


class ShareMembersWait:
    """Waits for members of a share group that have the current assignment, and whose partitions can be delivered.

    is_active: every partition of the subscribed topics has been fetched and is active at its leader: records that are
    produced from now on are delivered, wherever the group starts.
    """

    def __init__(self, group_id: str, members: int, *, is_active: bool) -> None:
        if members < 1:
            raise ValueError(f"members={members}; expected at least one")
        self._group_id = group_id
        self._members = members
        self._is_active = is_active

    def check(self, server: Server) -> GroupView | None:
        """The group, once it is as expected. Raises: ValueError for a group of another type, or a deleted topic."""
        if any(self._missing(server)):
            return None
        return group_view(server.core.state, self._group_id)

    def expected(self) -> str:
        """The number of members."""
        noun = "member" if self._members == 1 else "members"
        return f"share group {self._group_id!r} with {self._members} assigned {noun}"

    def seen(self, server: Server) -> str:
        """What is missing, and the group."""
        view = group_view(server.core.state, self._group_id)
        return f"{'; '.join(self._missing(server))}\n{view or 'no such group'}"

    def _missing(self, server: Server) -> Iterator[str]:
        """What is not as expected yet."""
        state = server.core.state
        node = find_coordinator_node(state, self._group_id)
        group = node.groups.find_group(self._group_id) if node is not None else None
        if group is None:
            yield "there is no such group"
            return
        if not isinstance(group, ShareGroup):
            raise ValueError(f"group {self._group_id!r} is a {group.kind.value} group, not a share group")
        if len(group.members) != self._members:
            yield f"{len(group.members)} members"
        behind = [m.member_id for m in group.members.values() if m.member_epoch != group.group_epoch]
        if behind:
            yield f"without the current assignment: {', '.join(behind)}"
        yield from self._missing_topics(server, group)

    def _missing_topics(self, server: Server, group: ShareGroup) -> Iterator[str]:
        state = server.core.state
        deleted = set(server.core.journal.topic_names.values())
        for name in group.subscribed_topic_names():
            topic = state.metadata.topic(name)
            if topic is None:
                if name in deleted:
                    raise ValueError(f"members of group {self._group_id!r} subscribe to {name!r}, which was deleted")
                yield f"topic {name!r} does not exist"
                continue
            for index in range(len(topic.partitions)):
                if not any(index in member.assigned.get(topic.topic_id, ()) for member in group.members.values()):
                    yield f"{name}-{index} is not assigned"
                elif self._is_active:
                    partition = led_share_partition(state, self._group_id, topic.topic_id, index)
                    if partition is None or partition.status is not PartitionStatus.ACTIVE:
                        yield f"{name}-{index} is not active at its leader"


class OffsetWait:
    """Waits until a group has committed at least this offset; a share group: until the share partition starts there.

    Raises: ValueError for a negative offset.
    """

    def __init__(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        if offset < 0:
            raise ValueError(f"offset={offset}; expected 0 or more")
        self._group_id = group_id
        self._topic = topic
        self._partition = partition
        self._offset = offset

    def check(self, server: Server) -> int | None:
        """The offset, once it is high enough. Raises: UNKNOWN_TOPIC_OR_PARTITION, for a deleted topic too."""
        offset = self._find_offset(server)
        return offset if offset is not None and offset >= self._offset else None

    def expected(self) -> str:
        """The offset."""
        return f"group {self._group_id!r} to reach offset {self._offset} of {self._topic}-{self._partition}"

    def seen(self, server: Server) -> str:
        """The group with its offsets."""
        offset = self._find_offset(server)
        view = group_view(server.core.state, self._group_id)
        return f"{'no offset' if offset is None else f'offset {offset}'}\n{view or 'no such group'}"

    def _find_offset(self, server: Server) -> int | None:
        state = server.core.state
        topic = state.metadata.topic(self._topic)
        if topic is None or topic.partition(self._partition) is None:
            was_deleted = topic is None and self._topic in server.core.journal.topic_names.values()
            text = f"topic {self._topic!r} was deleted" if was_deleted else "there is no such partition"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self._topic}-{self._partition}: {text}")
        node = find_coordinator_node(state, self._group_id)
        if node is None:
            return None
        if isinstance(node.groups.find_group(self._group_id), ShareGroup):
            share_partition = led_share_partition(state, self._group_id, topic.topic_id, self._partition)
            return None if share_partition is None else share_partition.start_offset
        committed = node.offsets.find_offset(self._group_id, (topic.topic_id, self._partition))
        return None if committed is None else committed.offset
