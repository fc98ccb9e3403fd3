"""Replicas of partitions that change by request. Source: Kafka's ReplicationControlManager."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state import placement
from mockbroker.state.leadership import Rules, Wish, change, find
from mockbroker.state.metadata import Metadata
from mockbroker.state.topics import Partition


def reassign(
    metadata: Metadata,
    topic_name: str,
    partition_index: int,
    target: Sequence[int],
    rules: Rules,
    *,
    may_change_factor: bool,
) -> None:
    """Begin to move a partition to these replicas; it ends when all new ones are in sync.

    Raises: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR.
    """
    topic, partition = find(metadata, topic_name, partition_index)
    wanted = placement.checked(metadata.node_ids, target)
    if not may_change_factor and len(wanted) != _factor(partition):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {_factor(partition)} to {len(wanted)}",
        )
    wish = Wish.of(partition)
    removing = tuple(sorted(set(partition.replicas) - set(wanted)))
    adding = tuple(sorted(set(wanted) - set(partition.replicas)))
    wish.replicas = (*wanted, *removing)
    # What a reassignment under way brings or takes stays noted where this one has nothing of its own to note.
    wish.removing = removing or wish.removing
    wish.adding = adding or wish.adding
    change(metadata, topic, partition, wish, rules)


def cancel(metadata: Metadata, topic_name: str, partition_index: int, rules: Rules) -> None:
    """Take a reassignment back.

    Raises: UNKNOWN_TOPIC_OR_PARTITION, NO_REASSIGNMENT_IN_PROGRESS; INVALID_REPLICA_ASSIGNMENT where nobody of before
    is in sync, and the topic allows no unclean election.
    """
    topic, partition = find(metadata, topic_name, partition_index)
    if not partition.is_reassigned:
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
    change(metadata, topic, partition, Wish(isr, replicas, (), ()), rules)


def _factor(partition: Partition) -> int:
    return len((set(partition.replicas) | set(partition.adding)) - set(partition.removing))
