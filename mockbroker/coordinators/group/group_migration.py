"""Online migration of groups between the classic and the consumer protocol: `group.consumer.migration.policy`.

This module reads and writes the subscriptions and assignments of the classic consumer protocol, which the group state
machines do not decode. Source: KIP-848 "Online migration"; Kafka's ConsumerGroup.fromClassicGroup and
ClassicGroup.fromConsumerGroup.
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
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.classic_members import ClassicMember, ClassicMembers
from mockbroker.state.group.consumer_members import ConsumerMember
from mockbroker.state.group.coordinator_records import ClassicProtocolMetadata
from mockbroker.state.group.group import Assignment, Topics
from mockbroker.state.group.mixed_group import CONSUMER_PROTOCOL, DowngradeRequest, MixedGroup
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.settings import Settings, read_int

if TYPE_CHECKING:
    from mockbroker.state.groups import Groups

_VERSION_SIZE = 2
_NEWEST = ConsumerProtocolSubscription.VERSIONS[1]
_UPGRADES = frozenset({"upgrade", "bidirectional"})
_DOWNGRADES = frozenset({"downgrade", "bidirectional"})


class Subscription(NamedTuple):
    """The subscription of a consumer in a JoinGroup."""

    topic_names: tuple[str, ...]
    rack_id: str | None
    owned: frozenset[TopicPartitionKey]


def _policy(config: Settings) -> str:
    return str(config["group.consumer.migration.policy"]).lower()


def _version(data: bytes) -> int:
    """The version of classic protocol metadata; an unknown one is read and written as the newest one.

    Raises: InvalidValue.
    """
    version = int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)
    if len(data) < _VERSION_SIZE or version < 0:
        raise WireError(f"{version} is not a version")
    return min(version, _NEWEST)


def decode_subscription(metadata: bytes, topics: Topics) -> Subscription:
    """Decode a subscription. Raises: WireError."""
    message = decode_lenient(ConsumerProtocolSubscription, _version(metadata), metadata[_VERSION_SIZE:]).message
    owned = _partitions_by_topic_id({row.topic: row.partitions for row in message.owned_partitions}, topics)
    places = frozenset((topic_id, index) for topic_id, indexes in owned.items() for index in indexes)
    return Subscription(tuple(message.topics), message.rack_id, places)


def encode_assignment(partitions: Assignment, metadata: bytes, topics: Topics) -> bytes:
    """Encode an assignment in the version of the member's subscription."""
    version = _version(metadata)
    assigned = ((topics.topic_by_id(topic_id), indexes) for topic_id, indexes in partitions.items())
    rows = [TopicPartition(topic.name, tuple(sorted(indexes))) for topic, indexes in assigned if topic is not None]
    return version.to_bytes(_VERSION_SIZE, "big") + encode(ConsumerProtocolAssignment(rows), version)


def _partitions_by_topic_id(rows: Mapping[str, tuple[int, ...]], topics: Topics) -> Assignment:
    known = ((topics.topic(name), indexes) for name, indexes in rows.items())
    return {topic.topic_id: frozenset(indexes) for topic, indexes in known if topic is not None}


def _decode_assignment(data: bytes, topics: Topics) -> Assignment:
    """Decode an assignment; that of a custom assignor, which has user data, cannot be migrated.

    Raises: WireError, GROUP_ID_NOT_FOUND.
    """
    if not data:
        return {}
    message = decode_lenient(ConsumerProtocolAssignment, _version(data), data[_VERSION_SIZE:]).message
    if message.user_data:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "an unsupported custom assignor is in use")
    return _partitions_by_topic_id({row.topic: row.partitions for row in message.assigned_partitions}, topics)


def upgrade_group(group: ClassicGroup, groups: Groups, topics: Topics, config: Settings) -> MixedGroup:
    """Convert a classic group with members to a consumer group, which is not stored yet.

    Raises: GROUP_ID_NOT_FOUND where that is not allowed, UNKNOWN_SERVER_ERROR before the first generation is complete.
    """
    if _policy(config) not in _UPGRADES:
        reason = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER_PROTOCOL:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > read_int(config, "group.consumer.max.size"):
        reason = "the group size exceeds the consumer group maximum size"
    else:
        group.reject_waiting_members(ErrorCode.REBALANCE_IN_PROGRESS)
        if group.protocol_name is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka 4.3.0 fails on the missing name.
        try:
            return _convert_members(group, groups.new_consumer_group(group.group_id), group.protocol_name, topics)
        except WireError:
            reason = "the embedded consumer protocol is malformed"
    raise KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.",
    )


def _convert_members(group: ClassicGroup, target: MixedGroup, protocol: str, topics: Topics) -> MixedGroup:
    for old in group.members.in_map_order():
        subscription = decode_subscription(old.metadata(protocol), topics)
        partitions = _decode_assignment(old.assignment, topics)
        member = ConsumerMember(
            old.member_id,
            old.group_instance_id,
            subscription.rack_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            subscribed_topic_names=tuple(sorted(set(subscription.topic_names))),
            classic=ClassicProtocolMetadata(old.session_timeout_ms, old.protocols),
        )
        member.member_epoch = member.previous_member_epoch = group.generation_id
        places = ((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)
        member.assigned = dict.fromkeys(places, group.generation_id)
        target.add_migrated_member(member, partitions)
    target.start_from_group(group.generation_id, group.records)
    return target


def downgrade_group(request: DowngradeRequest, groups: Groups, topics: Topics, config: Settings) -> bool:
    """Convert a consumer group to a classic one if the policy allows it. Returns: whether it was converted."""
    group = request.group
    remaining = [member for member in group.members.values() if member.member_id not in request.leaving]
    if _policy(config) not in _DOWNGRADES or len(remaining) > read_int(config, "group.max.size"):
        return False
    members = ClassicMembers()
    for member in remaining:
        classic = member.classic
        assert classic is not None
        members.add_member(
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
    name = members.select_protocol()
    if name is None:
        return False
    classic_group = groups.create_classic_group(group.group_id)
    classic_group.members = members
    for classic_member in members.in_map_order():
        target = group.target.get(classic_member.member_id, {})
        classic_member.assignment = encode_assignment(target, classic_member.metadata(name), topics)
    classic_group.start_stable(group.group_epoch, name, rebalances=request.rebalances, now_ms=request.now_ms)
    return True
