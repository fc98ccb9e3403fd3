"""The records of share groups. Source: share-semantics 5.8."""

from __future__ import annotations

from kwire.records.coordinator import share_group_current_member_assignment as current
from kwire.records.coordinator import share_group_state_partition_metadata as states
from kwire.records.coordinator.share_group_target_assignment_member import TopicPartition
from mockbroker.coordinators.group.group_records import (
    RecordForm,
    TopicNameLookup,
    plain_form,
    record_form,
    target_form,
)
from mockbroker.state.group import coordinator_records as values
from mockbroker.state.group.coordinator_records import PartitionsByTopic, RecordKind

#: Kafka's number for a member that has all of its target; a share group's member always has.
_STABLE = 0


def _write_current(
    value: values.ShareCurrentValue, _name_of: TopicNameLookup
) -> current.ShareGroupCurrentMemberAssignmentValue:
    rows = [current.TopicPartitions(topic_id, tuple(sorted(indexes))) for topic_id, indexes in value.assigned.items()]
    return current.ShareGroupCurrentMemberAssignmentValue(
        value.member_epoch, value.previous_member_epoch, _STABLE, rows
    )


def _read_current(value: current.ShareGroupCurrentMemberAssignmentValue) -> values.ShareCurrentValue:
    assigned = {row.topic_id: frozenset(row.partitions) for row in value.assigned_partitions}
    return values.ShareCurrentValue(value.member_epoch, value.previous_member_epoch, assigned)


def _write_states(
    value: values.SharePartitionStatesValue, name_of: TopicNameLookup
) -> states.ShareGroupStatePartitionMetadataValue:
    return states.ShareGroupStatePartitionMetadataValue(
        _named(value.initializing, name_of),
        _named(value.initialized, name_of),
        [states.TopicInfo(topic_id, name_of(topic_id)) for topic_id in sorted(value.deleting)],
    )


def _named(partitions: PartitionsByTopic, name_of: TopicNameLookup) -> list[states.TopicPartitionsInfo]:
    rows = partitions.items()
    return [
        states.TopicPartitionsInfo(topic_id, name_of(topic_id), tuple(sorted(indexes))) for topic_id, indexes in rows
    ]


def _read_states(value: states.ShareGroupStatePartitionMetadataValue) -> values.SharePartitionStatesValue:
    return values.SharePartitionStatesValue(
        {row.topic_id: frozenset(row.partitions) for row in value.initializing_topics},
        {row.topic_id: frozenset(row.partitions) for row in value.initialized_topics},
        frozenset(row.topic_id for row in value.deleting_topics),
    )


FORMS: dict[RecordKind, RecordForm] = {
    RecordKind.SHARE_MEMBER: plain_form("ShareGroupMemberMetadata", values.MemberMetadataValue),
    RecordKind.SHARE_EPOCH: plain_form("ShareGroupMetadata", values.GroupEpochValue),
    RecordKind.SHARE_TARGET_EPOCH: plain_form("ShareGroupTargetAssignmentMetadata", values.TargetEpochValue),
    RecordKind.SHARE_TARGET: target_form("ShareGroupTargetAssignmentMember", TopicPartition),
    RecordKind.SHARE_CURRENT: record_form("ShareGroupCurrentMemberAssignment", _write_current, _read_current),
    RecordKind.SHARE_STATES: record_form("ShareGroupStatePartitionMetadata", _write_states, _read_states),
}
