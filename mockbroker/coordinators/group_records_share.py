"""The records of share groups. Source: share-semantics 5.8."""

from __future__ import annotations

from kwire.records.coordinator.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kwire.records.coordinator.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from kwire.records.coordinator.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from kwire.records.coordinator.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from kwire.records.coordinator.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kwire.records.coordinator.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from mockbroker.coordinators.group_records import Form, NameOf
from mockbroker.state.group_facts import (
    EpochFact,
    FactKind,
    MemberFact,
    Partitions,
    ShareCurrentFact,
    StatesFact,
    TargetEpochFact,
    TargetFact,
)

#: Kafka's number for a member that has all of its target; a share group's member always has.
_STABLE = 0


def _write_member(fact: MemberFact, _name_of: NameOf) -> ShareGroupMemberMetadataValue:
    return ShareGroupMemberMetadataValue(*fact[:4])


def _read_member(value: ShareGroupMemberMetadataValue) -> MemberFact:
    return MemberFact(value.rack_id, value.client_id, value.client_host, value.subscribed_topic_names)


def _write_epoch(fact: EpochFact, _name_of: NameOf) -> ShareGroupMetadataValue:
    return ShareGroupMetadataValue(*fact)


def _read_epoch(value: ShareGroupMetadataValue) -> EpochFact:
    return EpochFact(value.epoch, value.metadata_hash)


def _write_target_epoch(fact: TargetEpochFact, _name_of: NameOf) -> ShareGroupTargetAssignmentMetadataValue:
    return ShareGroupTargetAssignmentMetadataValue(*fact)


def _read_target_epoch(value: ShareGroupTargetAssignmentMetadataValue) -> TargetEpochFact:
    return TargetEpochFact(value.assignment_epoch, value.assignment_timestamp)


def _write_target(fact: TargetFact, _name_of: NameOf) -> ShareGroupTargetAssignmentMemberValue:
    rows = fact.partitions.items()
    return ShareGroupTargetAssignmentMemberValue([TopicPartition(topic, tuple(sorted(some))) for topic, some in rows])


def _read_target(value: ShareGroupTargetAssignmentMemberValue) -> TargetFact:
    return TargetFact({row.topic_id: frozenset(row.partitions) for row in value.topic_partitions})


def _write_current(fact: ShareCurrentFact, _name_of: NameOf) -> ShareGroupCurrentMemberAssignmentValue:
    rows = [TopicPartitions(topic_id, tuple(sorted(some))) for topic_id, some in fact.assigned.items()]
    return ShareGroupCurrentMemberAssignmentValue(fact.member_epoch, fact.previous_member_epoch, _STABLE, rows)


def _read_current(value: ShareGroupCurrentMemberAssignmentValue) -> ShareCurrentFact:
    assigned = {row.topic_id: frozenset(row.partitions) for row in value.assigned_partitions}
    return ShareCurrentFact(value.member_epoch, value.previous_member_epoch, assigned)


def _write_states(fact: StatesFact, name_of: NameOf) -> ShareGroupStatePartitionMetadataValue:
    return ShareGroupStatePartitionMetadataValue(
        _named(fact.initializing, name_of),
        _named(fact.initialized, name_of),
        [TopicInfo(topic_id, name_of(topic_id)) for topic_id in sorted(fact.deleting)],
    )


def _named(partitions: Partitions, name_of: NameOf) -> list[TopicPartitionsInfo]:
    rows = partitions.items()
    return [TopicPartitionsInfo(topic_id, name_of(topic_id), tuple(sorted(some))) for topic_id, some in rows]


def _read_states(value: ShareGroupStatePartitionMetadataValue) -> StatesFact:
    return StatesFact(
        {row.topic_id: frozenset(row.partitions) for row in value.initializing_topics},
        {row.topic_id: frozenset(row.partitions) for row in value.initialized_topics},
        frozenset(row.topic_id for row in value.deleting_topics),
    )


FORMS: dict[FactKind, Form] = {
    FactKind.SHARE_MEMBER: Form(
        ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, 0, _write_member, _read_member
    ),
    FactKind.SHARE_EPOCH: Form(ShareGroupMetadataKey, ShareGroupMetadataValue, 0, _write_epoch, _read_epoch),
    FactKind.SHARE_TARGET_EPOCH: Form(
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupTargetAssignmentMetadataValue,
        0,
        _write_target_epoch,
        _read_target_epoch,
    ),
    FactKind.SHARE_TARGET: Form(
        ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue, 0, _write_target, _read_target
    ),
    FactKind.SHARE_CURRENT: Form(
        ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue, 0, _write_current, _read_current
    ),
    FactKind.SHARE_STATES: Form(
        ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue, 0, _write_states, _read_states
    ),
}
