"""Elections: who leads which partition after a broker has gone, come back, or was asked to give one up.

Source: Kafka's ReplicationControlManager and PartitionChangeBuilder. A replica that lives is in sync at once, as all
replicas share one log (docs/decisions/replicas-share-a-log.md), so every election is a clean one.
"""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import Metadata
from mockbroker.state.topics import Partition

NO_LEADER = -1


def fence(metadata: Metadata, node_id: int) -> None:
    """Take a broker out of the in-sync replicas, and have others lead what it led.

    The last in-sync replica of a partition stays in the list, and the partition has no leader until it is back.
    """
    metadata.fenced.add(node_id)
    for topic in metadata.topics():
        for partition in topic.partitions:
            if node_id not in partition.replicas:
                continue
            partition.offline = (*partition.offline, node_id)
            left = tuple(replica for replica in partition.isr if replica != node_id)
            partition.isr = left or partition.isr
            if partition.leader == node_id:
                metadata.lead(topic, partition.index, _first(partition, left))


def unfence(metadata: Metadata, node_id: int) -> None:
    """Take a broker in again: its replicas are in sync, and it leads what nobody else could."""
    metadata.fenced.discard(node_id)
    for topic in metadata.topics():
        for partition in topic.partitions:
            if node_id not in partition.replicas:
                continue
            partition.offline = tuple(replica for replica in partition.offline if replica != node_id)
            if partition.leader == NO_LEADER and node_id in partition.isr:
                metadata.lead(topic, partition.index, node_id)
            if partition.leader != NO_LEADER:
                # The others that live had nobody to be in sync with until now.
                late = [r for r in partition.replicas if r not in partition.isr and r not in metadata.fenced]
                partition.isr = (*partition.isr, *late)


def move_leader(metadata: Metadata, topic_name: str, partition_index: int, *, to: int) -> None:
    """Have another in-sync replica lead.

    Raises: UNKNOWN_TOPIC_OR_PARTITION; ELIGIBLE_LEADERS_NOT_AVAILABLE where `to` has no copy, or is not in sync;
    ELECTION_NOT_NEEDED where it leads already.
    """
    topic = metadata.topic(topic_name)
    partition = topic.partition(partition_index) if topic else None
    if topic is None or partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {topic_name}-{partition_index}")
    if partition.leader == to:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"node {to} leads {topic_name}-{partition_index} already")
    if to not in partition.isr or to in metadata.fenced:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"node {to} is no in-sync replica of {topic_name}-{partition_index}; those are {list(partition.isr)}",
        )
    metadata.lead(topic, partition_index, to)


def _first(partition: Partition, candidates: tuple[int, ...]) -> int:
    """The first of the replicas, in the order of the assignment, that may lead."""
    return next((replica for replica in partition.replicas if replica in candidates), NO_LEADER)
