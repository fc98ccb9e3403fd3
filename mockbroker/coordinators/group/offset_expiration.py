"""Expiration of committed offsets: `offsets.retention.minutes`, and the conditions by the type and state of the group.

Source: Kafka's OffsetMetadataManager.cleanupExpiredOffsets and OffsetExpirationConditionImpl.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.codec import decode_lenient
from kwire.errors import WireError
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.classic_rebalance import ClassicState
from mockbroker.state.group.committed_offsets import CommittedOffset, CommittedOffsets
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.group.group import Group
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.share.share_group import ShareGroup

#: Returns the time from which the retention of an offset counts.
ExpirationBase = Callable[[CommittedOffset], int]
TopicNameLookup = Callable[[bytes], str | None]
#: A subscription begins with its version.
_VERSION_SIZE = 2
CONSUMER = "consumer"


def find_expired_offsets(
    group: Group, offsets: CommittedOffsets, name_of: TopicNameLookup, *, retention_ms: int, now_ms: int
) -> tuple[list[TopicPartitionKey], bool]:
    """The expired offsets of a group, and whether these are all it has."""
    committed_offsets = offsets.stored_offsets(group.group_id)
    base = _expiration_base(group)
    if isinstance(group, ShareGroup):
        return [], group.is_expired(retention_ms=retention_ms, now_ms=now_ms)
    if committed_offsets and base is None:
        return [], False
    is_subscribed = _subscription_check(group)
    expired = [
        partition
        for partition, committed in committed_offsets.items()
        if not is_subscribed(name_of(partition[0]))
        and _is_expired(committed, base, retention_ms, now_ms)
        and not offsets.is_pending(group.group_id, partition)
    ]
    return expired, len(expired) == len(committed_offsets) and not offsets.has_pending(group.group_id)


def next_expiration_ms(group: Group, offsets: CommittedOffsets, *, retention_ms: int, now_ms: int) -> int | None:
    """A time before which nothing of a group expires, after a check that left it; None: never without a write."""
    if isinstance(group, ShareGroup):
        return group.next_expiration_ms(retention_ms=retention_ms)
    base, committed_offsets = _expiration_base(group), offsets.stored_offsets(group.group_id)
    if base is None or not committed_offsets or offsets.has_pending(group.group_id):
        return now_ms  # It has members, or an open transaction, whose end is not written by the coordinator.
    return min(
        committed.expires_ms if committed.expires_ms is not None else base(committed) + retention_ms
        for committed in committed_offsets.values()
    )


def _is_expired(committed: CommittedOffset, base: ExpirationBase | None, retention_ms: int, now_ms: int) -> bool:
    if committed.expires_ms is not None:
        return now_ms >= committed.expires_ms
    return base is not None and now_ms - base(committed) >= retention_ms


def _commit_time(committed: CommittedOffset) -> int:
    return committed.committed_at_ms


def _expiration_base(group: Group) -> ExpirationBase | None:
    """None while no offset of the group can expire: it has members, and their subscriptions are unknown."""
    if not isinstance(group, ClassicGroup) or group.protocol_type_or_none is None:
        return _commit_time
    if group.state is ClassicState.EMPTY:
        since_ms = group.state_since_ms
        return lambda committed: since_ms if since_ms >= 0 else committed.committed_at_ms
    reads_topics = group.protocol_type == CONSUMER and classic_topics(group) is not None
    return _commit_time if reads_topics and group.state is ClassicState.STABLE else None


def _subscription_check(group: Group) -> Callable[[str | None], bool]:
    """A predicate: whether a member of the group subscribes to a topic."""
    if isinstance(group, ClassicGroup):
        return (classic_topics(group) or frozenset()).__contains__
    if isinstance(group, ConsumerGroup):
        return frozenset(group.subscribed_topic_names()).__contains__
    from mockbroker.state.streams.streams_group import StreamsGroup

    def is_subscribed(name: str | None) -> bool:
        return isinstance(group, StreamsGroup) and name is not None and group.is_subscribed_to(name)

    return is_subscribed


def classic_topics(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that the members of the last generation of a classic group subscribe to.

    None before the first generation, and when one subscription cannot be decoded. Pinned by the conversation
    other-offset-delete-classic-subscriptions.
    """
    if group.protocol_type != CONSUMER or group.subscriptions is None:
        return None
    try:
        return frozenset(name for subscription in group.subscriptions for name in _subscribed_topics(subscription))
    except WireError:
        return None


def _subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """The subscribed topics in the classic consumer protocol: every version begins with the fields of version 0.

    Raises: WireError.
    """
    return decode_lenient(ConsumerProtocolSubscription, 0, metadata[_VERSION_SIZE:]).message.topics
