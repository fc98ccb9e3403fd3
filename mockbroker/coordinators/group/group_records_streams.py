"""The records of streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

from kwire.records.coordinator import streams_group_current_member_assignment as current
from kwire.records.coordinator import streams_group_member_metadata as metadata
from kwire.records.coordinator import streams_group_target_assignment_member as target
from kwire.records.coordinator import streams_group_topology as topologies
from kwire.records.coordinator.streams_group_metadata import LastAssignmentConfig, StreamsGroupMetadataValue
from mockbroker.coordinators.group.group_records import RecordForm, TopicNameLookup, plain_form, record_form
from mockbroker.state.group.coordinator_records import RecordKind, TargetEpochValue
from mockbroker.state.streams import streams_record_values as values
from mockbroker.state.streams.streams_members import Task, partitions_by_subtopology
from mockbroker.state.streams.streams_topology import CopartitionGroup, StreamsInternalTopic, Subtopology, Topology

if TYPE_CHECKING:
    from kwire.messages import streams_group_heartbeat as heartbeat


def _write_epoch(value: values.StreamsEpochValue, _name_of: TopicNameLookup) -> StreamsGroupMetadataValue:
    configs = [LastAssignmentConfig(name, text) for name, text in value.configs]
    return StreamsGroupMetadataValue(
        value.epoch,
        value.digest,
        value.validated_topology_epoch,
        configs,
        stored_description_topology_epoch=value.described_epoch,
    )


def _read_epoch(value: StreamsGroupMetadataValue) -> values.StreamsEpochValue:
    configs = tuple((row.key, row.value) for row in value.last_assignment_configs or ())
    return values.StreamsEpochValue(
        value.epoch,
        value.metadata_hash,
        value.validated_topology_epoch,
        configs,
        value.stored_description_topology_epoch,
    )


def _write_member(
    value: values.StreamsMemberValue, _name_of: TopicNameLookup
) -> metadata.StreamsGroupMemberMetadataValue:
    endpoint = None if value.user_endpoint is None else metadata.Endpoint(*value.user_endpoint)
    tags = [metadata.KeyValue(name, text) for name, text in value.client_tags]
    return metadata.StreamsGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=endpoint,
        client_tags=tags,
    )


def _read_member(value: metadata.StreamsGroupMemberMetadataValue) -> values.StreamsMemberValue:
    endpoint = value.user_endpoint
    return values.StreamsMemberValue(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        tuple((row.key, row.value) for row in value.client_tags),
    )


def _write_target(
    value: values.StreamsTargetValue, _name_of: TopicNameLookup
) -> target.StreamsGroupTargetAssignmentMemberValue:
    active, standby, warmup = (
        [target.TaskIds(*row) for row in partitions_by_subtopology(tasks).items()] for tasks in value
    )
    return target.StreamsGroupTargetAssignmentMemberValue(active, standby, warmup)


def _read_target(value: target.StreamsGroupTargetAssignmentMemberValue) -> values.StreamsTargetValue:
    return values.StreamsTargetValue(
        _tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)
    )


def _tasks(rows: Sequence[target.TaskIds] | Sequence[current.TaskIds]) -> Set[Task]:
    return frozenset((row.subtopology_id, index) for row in rows for index in row.partitions)


def _write_current(
    value: values.StreamsCurrentValue, _name_of: TopicNameLookup
) -> current.StreamsGroupCurrentMemberAssignmentValue:
    return current.StreamsGroupCurrentMemberAssignmentValue(
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        *_encode_tasks(*value.assigned),
        *_encode_tasks(*value.revoking),
    )


def _encode_tasks(
    active: Mapping[Task, int], standby: Set[Task], warmup: Set[Task]
) -> tuple[list[current.TaskIds], list[current.TaskIds], list[current.TaskIds]]:
    """The rows of active, standby and warmup tasks; only active tasks have epochs."""
    active_rows = [
        current.TaskIds(name, indexes, tuple(active[name, index] for index in indexes))
        for name, indexes in partitions_by_subtopology(active).items()
    ]
    standby_rows = [current.TaskIds(*row) for row in partitions_by_subtopology(standby).items()]
    warmup_rows = [current.TaskIds(*row) for row in partitions_by_subtopology(warmup).items()]
    return active_rows, standby_rows, warmup_rows


def _read_current(value: current.StreamsGroupCurrentMemberAssignmentValue) -> values.StreamsCurrentValue:
    epoch = value.member_epoch
    return values.StreamsCurrentValue(
        epoch,
        value.previous_member_epoch,
        value.state,
        (_epochs(value.active_tasks, epoch), _tasks(value.standby_tasks), _tasks(value.warmup_tasks)),
        (
            _epochs(value.active_tasks_pending_revocation, epoch),
            _tasks(value.standby_tasks_pending_revocation),
            _tasks(value.warmup_tasks_pending_revocation),
        ),
    )


def _epochs(rows: Sequence[current.TaskIds], member_epoch: int) -> dict[Task, int]:
    """Tasks with their epochs; the member epoch if the record has no matching epochs."""
    epochs_by_task: dict[Task, int] = {}
    for row in rows:
        epochs = row.assignment_epochs or ()
        if len(epochs) != len(row.partitions):
            epochs = (member_epoch,) * len(row.partitions)
        epochs_by_task |= zip(((row.subtopology_id, index) for index in row.partitions), epochs, strict=True)
    return epochs_by_task


def _write_topology(value: Topology, _name_of: TopicNameLookup) -> topologies.StreamsGroupTopologyValue:
    rows = [
        topologies.Subtopology(
            subtopology.subtopology_id,
            subtopology.source_topics,
            subtopology.source_topic_regex,
            list(map(_write_topic, subtopology.changelogs)),
            subtopology.repartition_sinks,
            list(map(_write_topic, subtopology.repartition_sources)),
            [topologies.CopartitionGroup(*group) for group in subtopology.copartition_groups],
        )
        for subtopology in value.subtopologies
    ]
    return topologies.StreamsGroupTopologyValue(value.epoch, rows)


def _write_topic(topic: StreamsInternalTopic) -> topologies.TopicInfo:
    configs = [topologies.TopicConfig(key, value) for key, value in topic.configs]
    return topologies.TopicInfo(topic.name, topic.partition_count, topic.replication_factor, configs)


def read_topology(topology: topologies.StreamsGroupTopologyValue | heartbeat.Topology) -> Topology:
    """The topology of a record or of a heartbeat, which have the same form."""
    subtopologies = tuple(
        Subtopology(
            subtopology.subtopology_id,
            subtopology.source_topics,
            subtopology.source_topic_regex,
            tuple(map(_read_topic, subtopology.state_changelog_topics)),
            subtopology.repartition_sink_topics,
            tuple(map(_read_topic, subtopology.repartition_source_topics)),
            tuple(
                CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
                for group in subtopology.copartition_groups
            ),
        )
        for subtopology in topology.subtopologies
    )
    return Topology(topology.epoch, subtopologies)


def _read_topic(topic: topologies.TopicInfo | heartbeat.TopicInfo) -> StreamsInternalTopic:
    configs = tuple((row.key, row.value) for row in topic.topic_configs)
    return StreamsInternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


FORMS: dict[RecordKind, RecordForm] = {
    RecordKind.STREAMS_EPOCH: record_form("StreamsGroupMetadata", _write_epoch, _read_epoch),
    RecordKind.STREAMS_MEMBER: record_form("StreamsGroupMemberMetadata", _write_member, _read_member),
    RecordKind.STREAMS_TARGET_EPOCH: plain_form("StreamsGroupTargetAssignmentMetadata", TargetEpochValue),
    RecordKind.STREAMS_TARGET: record_form("StreamsGroupTargetAssignmentMember", _write_target, _read_target),
    RecordKind.STREAMS_CURRENT: record_form("StreamsGroupCurrentMemberAssignment", _write_current, _read_current),
    RecordKind.STREAMS_TOPOLOGY: record_form("StreamsGroupTopology", _write_topology, read_topology),
}
