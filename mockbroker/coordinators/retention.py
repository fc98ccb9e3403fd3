"""Which committed offsets a group coordinator forgets, and when: `offsets.retention.minutes` and what groups say to it.

Source: Kafka's OffsetMetadataManager.cleanupExpiredOffsets and OffsetExpirationConditionImpl.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.codec import decode_lenient
from kwire.errors import WireError
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from mockbroker.state.classic_group import ClassicGroup
from mockbroker.state.classic_rebalance import ClassicState
from mockbroker.state.consumer_group import ConsumerGroup
from mockbroker.state.group_kinds import Group
from mockbroker.state.offsets import Committed, Offsets, TopicPartition
from mockbroker.state.share_group import ShareGroup

#: From when an offset's time is reckoned.
Base = Callable[[Committed], int]
NameOf = Callable[[bytes], str | None]
_VERSION_SIZE = 2
_CONSUMER = "consumer"


def expired(
    group: Group, offsets: Offsets, name_of: NameOf, *, retention_ms: int, now_ms: int
) -> tuple[list[TopicPartition], bool]:
    """The offsets of a group whose time is over, and whether nothing is left then."""
    held = offsets.held(group.group_id)
    base = _base(group)
    if isinstance(group, ShareGroup):
        return [], group.has_died(retention_ms=retention_ms, now_ms=now_ms)
    if held and base is None:
        return [], False
    wants = _subscription(group)
    gone = [
        place
        for place, committed in held.items()
        if not wants(name_of(place[0]))
        and _is_over(committed, base, retention_ms, now_ms)
        and not offsets.is_pending(group.group_id, place)
    ]
    return gone, len(gone) == len(held) and not offsets.has_pending(group.group_id)


def _is_over(committed: Committed, base: Base | None, retention_ms: int, now_ms: int) -> bool:
    if committed.expires_ms is not None:
        return now_ms >= committed.expires_ms
    return base is not None and now_ms - base(committed) >= retention_ms


def _committed_at(committed: Committed) -> int:
    return committed.committed_at_ms


def _base(group: Group) -> Base | None:
    """None while nothing of the group is forgotten: it has members, and nobody knows what they read."""
    if not isinstance(group, ClassicGroup) or group.protocol_type_or_none is None:
        return _committed_at
    if group.state is ClassicState.EMPTY:
        since_ms = group.state_since_ms
        return lambda committed: since_ms if since_ms >= 0 else committed.committed_at_ms
    reads_topics = group.protocol_type == _CONSUMER and _classic_topics(group) is not None
    return _committed_at if reads_topics and group.state is ClassicState.STABLE else None


def _subscription(group: Group) -> Callable[[str | None], bool]:
    """Says of a topic whether somebody in the group reads it."""
    if isinstance(group, ClassicGroup):
        return (_classic_topics(group) or frozenset()).__contains__
    if isinstance(group, ConsumerGroup):
        return frozenset(group.subscribed_topic_names()).__contains__
    from mockbroker.state.streams_group import StreamsGroup

    def is_read(name: str | None) -> bool:
        return isinstance(group, StreamsGroup) and name is not None and group.is_subscribed_to(name)

    return is_read


def _classic_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that the members of a classic group read, None when one of them cannot be understood."""
    if group.protocol_type != _CONSUMER or group.protocol_name is None:
        return None
    names: set[str] = set()
    for member in group.members.all():
        try:
            names |= set(subscribed_topics(member.metadata(group.protocol_name)))
        except WireError:
            return None
    return frozenset(names)


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The topics that a consumer names in the classic protocol: every version begins with the fields of version 0.

    Raises: WireError.
    """
    return decode_lenient(ConsumerProtocolSubscription, 0, metadata[_VERSION_SIZE:]).message.topics
