"""The records of streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from kwire.records.coordinator.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from kwire.records.coordinator.streams_group_current_member_assignment import TaskIds as HeldIds
from kwire.records.coordinator.streams_group_member_metadata import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
)
from kwire.records.coordinator.streams_group_metadata import (
    LastAssignmentConfig,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
)
from kwire.records.coordinator.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    TaskIds,
)
from kwire.records.coordinator.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
)
from kwire.records.coordinator.streams_group_topology import (
    CopartitionGroup as WrittenGroup,
)
from kwire.records.coordinator.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    TopicConfig,
    TopicInfo,
)
from kwire.records.coordinator.streams_group_topology import (
    Subtopology as WrittenSubtopology,
)
from mockbroker.coordinators.group_records import Form, NameOf
from mockbroker.state.group_facts import FactKind, TargetEpochFact
from mockbroker.state.streams_members import Task
from mockbroker.state.streams_topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from mockbroker.state.streams_values import (
    StreamsCurrentFact,
    StreamsEpochFact,
    StreamsMemberFact,
    StreamsTargetFact,
)


def _write_epoch(fact: StreamsEpochFact, _name_of: NameOf) -> StreamsGroupMetadataValue:
    configs = [LastAssignmentConfig(key, value) for key, value in fact.configs]
    return StreamsGroupMetadataValue(fact.epoch, fact.digest, fact.validated_topology_epoch, configs)


def _read_epoch(value: StreamsGroupMetadataValue) -> StreamsEpochFact:
    configs = tuple((row.key, row.value) for row in value.last_assignment_configs or ())
    return StreamsEpochFact(value.epoch, value.metadata_hash, value.validated_topology_epoch, configs)


def _write_member(fact: StreamsMemberFact, _name_of: NameOf) -> StreamsGroupMemberMetadataValue:
    return StreamsGroupMemberMetadataValue(
        instance_id=None,
        rack_id=fact.rack_id,
        client_id=fact.client_id,
        client_host=fact.client_host,
        rebalance_timeout_ms=fact.rebalance_timeout_ms,
        topology_epoch=fact.topology_epoch,
        process_id=fact.process_id,
        user_endpoint=None if fact.user_endpoint is None else Endpoint(*fact.user_endpoint),
        client_tags=[KeyValue(key, value) for key, value in fact.client_tags],
    )


def _read_member(value: StreamsGroupMemberMetadataValue) -> StreamsMemberFact:
    endpoint = value.user_endpoint
    return StreamsMemberFact(
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        tuple((row.key, row.value) for row in value.client_tags),
    )


def _write_target_epoch(fact: TargetEpochFact, _name_of: NameOf) -> StreamsGroupTargetAssignmentMetadataValue:
    return StreamsGroupTargetAssignmentMetadataValue(*fact)


def _read_target_epoch(value: StreamsGroupTargetAssignmentMetadataValue) -> TargetEpochFact:
    return TargetEpochFact(value.assignment_epoch, value.assignment_timestamp)


def _by_subtopology(tasks: Iterable[Task]) -> dict[str, tuple[int, ...]]:
    grouped: dict[str, tuple[int, ...]] = {}
    for subtopology_id, index in sorted(tasks):
        grouped[subtopology_id] = (*grouped.get(subtopology_id, ()), index)
    return grouped


def _write_target(fact: StreamsTargetFact, _name_of: NameOf) -> StreamsGroupTargetAssignmentMemberValue:
    active, standby, warmup = ([TaskIds(*row) for row in _by_subtopology(tasks).items()] for tasks in fact)
    return StreamsGroupTargetAssignmentMemberValue(active, standby, warmup)


def _read_target(value: StreamsGroupTargetAssignmentMemberValue) -> StreamsTargetFact:
    return StreamsTargetFact(_tasks(value.active_tasks), _tasks(value.standby_tasks), _tasks(value.warmup_tasks))


def _tasks(rows: Sequence[TaskIds] | Sequence[HeldIds]) -> Set[Task]:
    return frozenset((row.subtopology_id, index) for row in rows for index in row.partitions)


def _write_current(fact: StreamsCurrentFact, _name_of: NameOf) -> StreamsGroupCurrentMemberAssignmentValue:
    active, standby, warmup = _held(fact.assigned)
    active_revoking, standby_revoking, warmup_revoking = _held(fact.revoking)
    return StreamsGroupCurrentMemberAssignmentValue(
        fact.member_epoch,
        fact.previous_member_epoch,
        fact.state,
        active,
        standby,
        warmup,
        active_revoking,
        standby_revoking,
        warmup_revoking,
    )


def _held(held: tuple[Mapping[Task, int], Set[Task], Set[Task]]) -> list[list[HeldIds]]:
    """Active tasks have their epochs beside them, the others none."""
    active = [
        HeldIds(name, indexes, tuple(held[0][name, index] for index in indexes))
        for name, indexes in _by_subtopology(held[0]).items()
    ]
    return [active, *([HeldIds(*row) for row in _by_subtopology(tasks).items()] for tasks in held[1:])]


def _read_current(value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsCurrentFact:
    epoch = value.member_epoch
    return StreamsCurrentFact(
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


def _epochs(rows: Sequence[HeldIds], member_epoch: int) -> dict[Task, int]:
    """Tasks with their epochs; where a record has none that fit, they are those of the member."""
    found: dict[Task, int] = {}
    for row in rows:
        epochs = row.assignment_epochs or ()
        if len(epochs) != len(row.partitions):
            epochs = (member_epoch,) * len(row.partitions)
        found.update(((row.subtopology_id, index), epoch) for index, epoch in zip(row.partitions, epochs, strict=True))
    return found


def _write_topology(fact: Topology, _name_of: NameOf) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(
        fact.epoch,
        [
            WrittenSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=[_write_topic(topic) for topic in each.changelogs],
                repartition_sink_topics=each.repartition_sinks,
                repartition_source_topics=[_write_topic(topic) for topic in each.repartition_sources],
                copartition_groups=[WrittenGroup(*group) for group in each.copartition_groups],
            )
            for each in fact.subtopologies
        ],
    )


def _write_topic(topic: InternalTopic) -> TopicInfo:
    configs = [TopicConfig(key, value) for key, value in topic.configs]
    return TopicInfo(topic.name, topic.partition_count, topic.replication_factor, configs)


def _read_topology(value: StreamsGroupTopologyValue) -> Topology:
    return Topology(
        value.epoch,
        tuple(
            Subtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(each.source_topic_regex),
                tuple(map(_read_topic, each.state_changelog_topics)),
                tuple(each.repartition_sink_topics),
                tuple(map(_read_topic, each.repartition_source_topics)),
                tuple(
                    CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ),
            )
            for each in value.subtopologies
        ),
    )


def _read_topic(topic: TopicInfo) -> InternalTopic:
    configs = tuple((row.key, row.value) for row in topic.topic_configs)
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


FORMS: dict[FactKind, Form] = {
    FactKind.STREAMS_EPOCH: Form(StreamsGroupMetadataKey, StreamsGroupMetadataValue, 0, _write_epoch, _read_epoch),
    FactKind.STREAMS_MEMBER: Form(
        StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue, 0, _write_member, _read_member
    ),
    FactKind.STREAMS_TARGET_EPOCH: Form(
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMetadataValue,
        0,
        _write_target_epoch,
        _read_target_epoch,
    ),
    FactKind.STREAMS_TARGET: Form(
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupTargetAssignmentMemberValue,
        0,
        _write_target,
        _read_target,
    ),
    FactKind.STREAMS_CURRENT: Form(
        StreamsGroupCurrentMemberAssignmentKey,
        StreamsGroupCurrentMemberAssignmentValue,
        0,
        _write_current,
        _read_current,
    ),
    FactKind.STREAMS_TOPOLOGY: Form(
        StreamsGroupTopologyKey, StreamsGroupTopologyValue, 0, _write_topology, _read_topology
    ),
}
