"""The records of consumer groups (KIP-848)."""

from __future__ import annotations

from kwire.records.coordinator.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kwire.records.coordinator.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from kwire.records.coordinator.consumer_group_metadata import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kwire.records.coordinator.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from kwire.records.coordinator.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kwire.records.coordinator.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kwire.records.coordinator.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from mockbroker.coordinators.group_records import Form, NameOf
from mockbroker.state.group_facts import (
    ClassicSide,
    ConsumerCurrentFact,
    EpochFact,
    Epochs,
    FactKind,
    MemberFact,
    RegexFact,
    TargetEpochFact,
    TargetFact,
)


def _write_member(fact: MemberFact, _name_of: NameOf) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=fact.instance_id,
        rack_id=fact.rack_id,
        client_id=fact.client_id,
        client_host=fact.client_host,
        subscribed_topic_names=fact.subscribed_topic_names,
        subscribed_topic_regex=fact.subscribed_topic_regex,
        rebalance_timeout_ms=fact.rebalance_timeout_ms,
        server_assignor=fact.server_assignor,
        classic_member_metadata=_write_classic(fact.classic),
    )


def _read_member(value: ConsumerGroupMemberMetadataValue) -> MemberFact:
    return MemberFact(
        value.rack_id,
        value.client_id,
        value.client_host,
        value.subscribed_topic_names,
        value.instance_id,
        value.subscribed_topic_regex or "",
        value.rebalance_timeout_ms,
        value.server_assignor,
        _read_classic(value.classic_member_metadata),
    )


def _write_classic(classic: ClassicSide | None) -> ClassicMemberMetadata | None:
    if classic is None:
        return None
    return ClassicMemberMetadata(classic.session_timeout_ms, [ClassicProtocol(*row) for row in classic.protocols])


def _read_classic(value: ClassicMemberMetadata | None) -> ClassicSide | None:
    if value is None:
        return None
    rows = tuple((row.name, bytes(row.metadata)) for row in value.supported_protocols)
    return ClassicSide(value.session_timeout_ms, rows)


def _write_epoch(fact: EpochFact, _name_of: NameOf) -> ConsumerGroupMetadataValue:
    return ConsumerGroupMetadataValue(*fact)


def _read_epoch(value: ConsumerGroupMetadataValue) -> EpochFact:
    return EpochFact(value.epoch, value.metadata_hash)


def _write_target_epoch(fact: TargetEpochFact, _name_of: NameOf) -> ConsumerGroupTargetAssignmentMetadataValue:
    return ConsumerGroupTargetAssignmentMetadataValue(*fact)


def _read_target_epoch(value: ConsumerGroupTargetAssignmentMetadataValue) -> TargetEpochFact:
    return TargetEpochFact(value.assignment_epoch, value.assignment_timestamp)


def _write_target(fact: TargetFact, _name_of: NameOf) -> ConsumerGroupTargetAssignmentMemberValue:
    rows = [TopicPartition(topic_id, tuple(sorted(some))) for topic_id, some in fact.partitions.items()]
    return ConsumerGroupTargetAssignmentMemberValue(rows)


def _read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> TargetFact:
    return TargetFact({row.topic_id: frozenset(row.partitions) for row in value.topic_partitions})


def _write_current(fact: ConsumerCurrentFact, _name_of: NameOf) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        fact.member_epoch, fact.previous_member_epoch, fact.state, _rows(fact.assigned), _rows(fact.revoking)
    )


def _rows(epochs: Epochs) -> list[TopicPartitions]:
    grouped: dict[bytes, list[tuple[int, int]]] = {}
    for (topic_id, index), epoch in sorted(epochs.items()):
        grouped.setdefault(topic_id, []).append((index, epoch))
    return [TopicPartitions(topic_id, *zip(*pairs, strict=True)) for topic_id, pairs in grouped.items()]


def _read_current(value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerCurrentFact:
    return ConsumerCurrentFact(
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        _epochs(value.assigned_partitions, value.member_epoch),
        _epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _epochs(rows: list[TopicPartitions], member_epoch: int) -> Epochs:
    """Partitions with their epochs; where a record has none, they are those of the member."""
    return {
        (row.topic_id, index): epoch
        for row in rows
        for index, epoch in zip(
            row.partitions, row.assignment_epochs or (member_epoch,) * len(row.partitions), strict=True
        )
    }


def _write_regex(fact: RegexFact, _name_of: NameOf) -> ConsumerGroupRegularExpressionValue:
    return ConsumerGroupRegularExpressionValue(tuple(sorted(fact.names)), fact.version, fact.resolved_at_ms)


def _read_regex(value: ConsumerGroupRegularExpressionValue) -> RegexFact:
    return RegexFact(frozenset(value.topics), value.version, value.timestamp)


def _never(_value: object, *_: object) -> ConsumerGroupPartitionMetadataValue:
    """Older brokers wrote these; 4.3 only strikes them out."""
    raise AssertionError("records of type 4 have no values")


def _passed_over(_value: ConsumerGroupPartitionMetadataValue) -> EpochFact:
    raise AssertionError("records of type 4 have no values")


FORMS: dict[FactKind, Form] = {
    FactKind.CONSUMER_MEMBER: Form(
        ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0, _write_member, _read_member
    ),
    FactKind.CONSUMER_EPOCH: Form(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0, _write_epoch, _read_epoch),
    FactKind.CONSUMER_TOPICS: Form(
        ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, 0, _never, _passed_over
    ),
    FactKind.CONSUMER_TARGET_EPOCH: Form(
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
        0,
        _write_target_epoch,
        _read_target_epoch,
    ),
    FactKind.CONSUMER_TARGET: Form(
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
        0,
        _write_target,
        _read_target,
    ),
    FactKind.CONSUMER_CURRENT: Form(
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
        0,
        _write_current,
        _read_current,
    ),
    FactKind.CONSUMER_REGEX: Form(
        ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, 0, _write_regex, _read_regex
    ),
}
