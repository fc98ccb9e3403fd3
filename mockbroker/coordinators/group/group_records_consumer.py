"""The records of consumer groups (KIP-848)."""

from __future__ import annotations

from typing import NoReturn

from kwire.records.coordinator import consumer_group_current_member_assignment as current
from kwire.records.coordinator import consumer_group_member_metadata as metadata
from kwire.records.coordinator.consumer_group_regular_expression import ConsumerGroupRegularExpressionValue
from kwire.records.coordinator.consumer_group_target_assignment_member import TopicPartition
from mockbroker.coordinators.group.group_records import (
    RecordForm,
    TopicNameLookup,
    plain_form,
    record_form,
    target_form,
)
from mockbroker.state.group import coordinator_records as values
from mockbroker.state.group.coordinator_records import ClassicProtocolMetadata, PartitionEpochs, RecordKind


def _write_member(
    value: values.MemberMetadataValue, _name_of: TopicNameLookup
) -> metadata.ConsumerGroupMemberMetadataValue:
    return metadata.ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=value.subscribed_topic_names,
        subscribed_topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic_member_metadata=_write_classic(value.classic),
    )


def _read_member(value: metadata.ConsumerGroupMemberMetadataValue) -> values.MemberMetadataValue:
    return values.MemberMetadataValue(
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


def _write_classic(classic: ClassicProtocolMetadata | None) -> metadata.ClassicMemberMetadata | None:
    if classic is None:
        return None
    rows = [metadata.ClassicProtocol(*row) for row in classic.protocols]
    return metadata.ClassicMemberMetadata(classic.session_timeout_ms, rows)


def _read_classic(value: metadata.ClassicMemberMetadata | None) -> ClassicProtocolMetadata | None:
    if value is None:
        return None
    rows = tuple((row.name, bytes(row.metadata)) for row in value.supported_protocols)
    return ClassicProtocolMetadata(value.session_timeout_ms, rows)


def _write_current(
    value: values.ConsumerCurrentValue, _name_of: TopicNameLookup
) -> current.ConsumerGroupCurrentMemberAssignmentValue:
    return current.ConsumerGroupCurrentMemberAssignmentValue(
        value.member_epoch, value.previous_member_epoch, value.state, _rows(value.assigned), _rows(value.revoking)
    )


def _rows(epochs: PartitionEpochs) -> list[current.TopicPartitions]:
    grouped: dict[bytes, list[tuple[int, int]]] = {}
    for (topic_id, index), epoch in sorted(epochs.items()):
        grouped.setdefault(topic_id, []).append((index, epoch))
    return [current.TopicPartitions(topic_id, *zip(*pairs, strict=True)) for topic_id, pairs in grouped.items()]


def _read_current(value: current.ConsumerGroupCurrentMemberAssignmentValue) -> values.ConsumerCurrentValue:
    return values.ConsumerCurrentValue(
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        _epochs(value.assigned_partitions, value.member_epoch),
        _epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _epochs(rows: list[current.TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """Partitions with their epochs; where a record has none, they are those of the member."""
    epochs_by_partition: dict[tuple[bytes, int], int] = {}
    for row in rows:
        epochs = row.assignment_epochs or (member_epoch,) * len(row.partitions)
        epochs_by_partition |= zip(((row.topic_id, index) for index in row.partitions), epochs, strict=True)
    return epochs_by_partition


def _write_regex(value: values.RegexValue, _name_of: TopicNameLookup) -> ConsumerGroupRegularExpressionValue:
    return ConsumerGroupRegularExpressionValue(tuple(sorted(value.names)), value.version, value.resolved_at_ms)


def _read_regex(value: ConsumerGroupRegularExpressionValue) -> values.RegexValue:
    return values.RegexValue(frozenset(value.topics), value.version, value.timestamp)


def _reject_value(*_: object) -> NoReturn:
    """Older brokers wrote these; 4.3 only strikes them out."""
    raise AssertionError("records of type 4 have no values")


FORMS: dict[RecordKind, RecordForm] = {
    RecordKind.CONSUMER_MEMBER: record_form("ConsumerGroupMemberMetadata", _write_member, _read_member),
    RecordKind.CONSUMER_EPOCH: plain_form("ConsumerGroupMetadata", values.GroupEpochValue),
    RecordKind.CONSUMER_TOPICS: record_form("ConsumerGroupPartitionMetadata", _reject_value, _reject_value),
    RecordKind.CONSUMER_TARGET_EPOCH: plain_form("ConsumerGroupTargetAssignmentMetadata", values.TargetEpochValue),
    RecordKind.CONSUMER_TARGET: target_form("ConsumerGroupTargetAssignmentMember", TopicPartition),
    RecordKind.CONSUMER_CURRENT: record_form("ConsumerGroupCurrentMemberAssignment", _write_current, _read_current),
    RecordKind.CONSUMER_REGEX: record_form("ConsumerGroupRegularExpression", _write_regex, _read_regex),
}
