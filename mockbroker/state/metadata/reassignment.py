"""Partition reassignments. Source: Kafka's ReplicationControlManager."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import placement
from mockbroker.state.metadata.cluster_image import ClusterImage
from mockbroker.state.metadata.leadership import (
    ElectionRules,
    PartitionTarget,
    PlannedChange,
    find_partition,
    plan_change,
)


def plan_reassignment(
    metadata: ClusterImage,
    topic_name: str,
    partition_index: int,
    target: Sequence[int],
    rules: ElectionRules,
    *,
    may_change_factor: bool,
) -> PlannedChange:
    """The start of moving a partition to these replicas; the move ends when all new ones are in sync.

    Raises: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR.
    """
    topic, partition = find_partition(metadata, topic_name, partition_index)
    replicas = placement.validate_replicas(metadata.node_ids, target)
    factor = len({*partition.replicas, *partition.adding}.difference(partition.removing))
    if not may_change_factor and len(replicas) != factor:
        message = f"The replication factor is changed from {factor} to {len(replicas)}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    change = PartitionTarget.from_partition(partition)
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    adding = tuple(sorted(set(replicas) - set(partition.replicas)))
    change.replicas = (*replicas, *removing)
    # The adding and removing replicas of an ongoing reassignment stay where this one has none.
    change.removing = removing or change.removing
    change.adding = adding or change.adding
    return plan_change(metadata, topic, partition, change, rules)


def plan_cancellation(
    metadata: ClusterImage, topic_name: str, partition_index: int, rules: ElectionRules
) -> PlannedChange:
    """The end of a reassignment that is cancelled.

    Raises: UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS; INVALID_REPLICA_ASSIGNMENT where none of the former
    replicas is in sync, and the topic allows no unclean election.
    """
    topic, partition = find_partition(metadata, topic_name, partition_index)
    if not partition.is_being_reassigned:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(node for node in partition.replicas if node not in partition.adding)
    isr = tuple(node for node in partition.isr if node not in partition.adding)
    if not isr:
        if not rules.may_be_unclean(topic):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic_name}:{partition_index} because it would require "
                "an unclean leader election.",
            )
        isr = replicas[:1]
    return plan_change(metadata, topic, partition, PartitionTarget(isr, replicas, (), ()), rules)
