"""Groups that change their protocol while members are in them: `group.consumer.migration.policy`.

Here are the forms that consumers give their subscriptions and assignments in the classic protocol, which state rooms do
not know. Source: KIP-848 "Online migration"; Kafka's ConsumerGroup.fromClassicGroup and ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kwire.codec import decode_lenient, encode
from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from mockbroker.kafka_error import KafkaError
from mockbroker.state.classic_group import ClassicGroup
from mockbroker.state.classic_members import ClassicMember
from mockbroker.state.consumer_members import ConsumerMember
from mockbroker.state.group_facts import ClassicSide
from mockbroker.state.group_kinds import Assignment, Settings, Topics, number
from mockbroker.state.mixed_group import CONSUMER_PROTOCOL, Downgrade, MixedGroup

if TYPE_CHECKING:
    from mockbroker.state.groups import Groups

_VERSION_SIZE = 2
_NEWEST = ConsumerProtocolSubscription.VERSIONS[1]
_UPGRADES = frozenset({"upgrade", "bidirectional"})
_DOWNGRADES = frozenset({"downgrade", "bidirectional"})


class Subscription(NamedTuple):
    """What a consumer says in a JoinGroup."""

    topic_names: tuple[str, ...]
    rack_id: str | None
    owned: frozenset[tuple[bytes, int]]


def _policy(config: Settings) -> str:
    return str(config["group.consumer.migration.policy"]).lower()


def _version(data: bytes) -> int:
    """A version that is not known is read and written as the newest one.

    Raises: InvalidValue.
    """
    version = int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)
    if len(data) < _VERSION_SIZE or version < 0:
        raise WireError(f"{version} is no version")
    return min(version, _NEWEST)


def subscription(metadata: bytes, topics: Topics) -> Subscription:
    """Read a subscription. Raises: WireError."""
    message = decode_lenient(ConsumerProtocolSubscription, _version(metadata), metadata[_VERSION_SIZE:]).message
    owned = _by_id({row.topic: row.partitions for row in message.owned_partitions}, topics)
    places = frozenset((topic_id, index) for topic_id, indexes in owned.items() for index in indexes)
    return Subscription(tuple(message.topics), message.rack_id, places)


def assignment_bytes(partitions: Assignment, metadata: bytes, topics: Topics) -> bytes:
    """An assignment in the version that the member's subscription has."""
    version = _version(metadata)
    found = ((topics.topic_by_id(topic_id), indexes) for topic_id, indexes in partitions.items())
    rows = [TopicPartition(topic.name, tuple(sorted(some))) for topic, some in found if topic is not None]
    return version.to_bytes(_VERSION_SIZE, "big") + encode(ConsumerProtocolAssignment(rows), version)


def _by_id(rows: Mapping[str, tuple[int, ...]], topics: Topics) -> Assignment:
    found = ((topics.topic(name), indexes) for name, indexes in rows.items())
    return {topic.topic_id: frozenset(indexes) for topic, indexes in found if topic is not None}


def _assigned(data: bytes, topics: Topics) -> Assignment:
    """Read an assignment; one of a custom assignor, which has data of its own, cannot be carried over.

    Raises: WireError, GROUP_ID_NOT_FOUND.
    """
    if not data:
        return {}
    message = decode_lenient(ConsumerProtocolAssignment, _version(data), data[_VERSION_SIZE:]).message
    if message.user_data:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "an unsupported custom assignor is in use")
    return _by_id({row.topic: row.partitions for row in message.assigned_partitions}, topics)


def upgraded(group: ClassicGroup, groups: Groups, topics: Topics, config: Settings) -> MixedGroup:
    """A consumer group made of a classic one that has members; not kept yet.

    Raises: GROUP_ID_NOT_FOUND where that may not be, UNKNOWN_SERVER_ERROR before the first generation is complete.
    """
    if _policy(config) not in _UPGRADES:
        reason = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER_PROTOCOL:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > number(config, "group.consumer.max.size"):
        reason = "the group size exceeds the consumer group maximum size"
    else:
        group.interrupt()
        if group.protocol_name is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka 4.3.0 trips over the missing name.
        try:
            return _converted(group, groups.make_consumer(group.group_id), group.protocol_name, topics)
        except WireError:
            reason = "the embedded consumer protocol is malformed"
    raise KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.",
    )


def _converted(group: ClassicGroup, made: MixedGroup, protocol: str, topics: Topics) -> MixedGroup:
    for old in group.members.all():
        says = subscription(old.metadata(protocol), topics)
        partitions = _assigned(old.assignment, topics)
        member = ConsumerMember(
            old.member_id,
            old.group_instance_id,
            says.rack_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            subscribed_topic_names=tuple(sorted(set(says.topic_names))),
            classic=ClassicSide(old.session_timeout_ms, old.protocols),
        )
        member.member_epoch = member.previous_member_epoch = group.generation_id
        places = ((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)
        member.assigned = dict.fromkeys(places, group.generation_id)
        made.take_in(member, partitions)
    made.begin_at(group.generation_id, group.ledger)
    return made


def downgrade(wish: Downgrade, groups: Groups, topics: Topics, config: Settings) -> bool:
    """Make a consumer group a classic one, if that may be, and say whether it was done."""
    group = wish.group
    staying = [member for member in group.members.values() if member.member_id not in wish.leaving]
    if _policy(config) not in _DOWNGRADES or len(staying) > number(config, "group.max.size"):
        return False
    made = groups.make_classic(group.group_id)
    for member in staying:
        classic = member.classic
        assert classic is not None
        made.members.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                classic.session_timeout_ms,
                member.rebalance_timeout_ms,
                CONSUMER_PROTOCOL,
                classic.protocols,
            )
        )
    name = made.members.select_protocol()
    for new in made.members.all():
        target = group.target.get(new.member_id, {})
        new.assignment = assignment_bytes(target, new.metadata(name), topics)
    made.begin_at(group.group_epoch, name, rebalances=wish.rebalances, now_ms=wish.now_ms)
    return True
