"""Elections: who leads which partition after a broker has gone, come back, or was asked to give one up.

Source: Kafka's ReplicationControlManager and PartitionChangeBuilder. A replica that lives is in sync at once, as all
replicas share one log (docs/decisions/replicas-share-a-log.md), so every election is a clean one.
"""

from __future__ import annotations

from collections.abc import Callable

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import Metadata
from mockbroker.state.topics import Partition, Topic

NO_LEADER = -1
LeastInSync = Callable[[Topic], int]


def fence(metadata: Metadata, node_id: int, *, least_in_sync: LeastInSync | None) -> None:
    """Take a broker out of the in-sync replicas, and have others lead what it led.

    least_in_sync: the effective min.insync.replicas of a topic where replicas that fell out may be eligible leaders
    (eligible.leader.replicas.version 1); None where the last one in sync stays in the list instead.
    """
    metadata.fenced.add(node_id)
    for topic in metadata.topics():
        for partition in topic.partitions:
            if node_id not in partition.replicas:
                continue
            partition.offline = (*partition.offline, node_id)
            before = partition.isr
            partition.isr = tuple(replica for replica in before if replica != node_id)
            if least_in_sync is not None:
                _note_eligible(partition, before, least_in_sync(topic))
            if partition.leader == node_id:
                metadata.lead(topic, partition.index, _first(partition, partition.isr))
            if least_in_sync is None and not partition.isr:
                partition.isr = before


def _note_eligible(partition: Partition, before: tuple[int, ...], least: int) -> None:
    """Too few in sync: those that were so lately, and have everything, are eligible; of none, the last leader is known.

    Source: Kafka's PartitionChangeBuilder.
    """
    if len(partition.isr) >= min(least, len(partition.replicas)):
        partition.elr = partition.last_known_elr = ()
        return
    partition.elr = tuple(r for r in dict.fromkeys((*partition.elr, *before)) if r not in partition.isr)
    if not partition.isr and partition.leader != NO_LEADER:
        partition.last_known_elr = (partition.leader,)


def unfence(metadata: Metadata, node_id: int, *, least_in_sync: LeastInSync | None) -> None:
    """Take a broker in again: its replicas are in sync, and it leads what nobody else could."""
    metadata.fenced.discard(node_id)
    for topic in metadata.topics():
        for partition in topic.partitions:
            if node_id not in partition.replicas:
                continue
            partition.offline = tuple(replica for replica in partition.offline if replica != node_id)
            if partition.leader == NO_LEADER and node_id in (*partition.isr, *partition.elr):
                partition.isr = (node_id,)
                metadata.lead(topic, partition.index, node_id)
            if partition.leader != NO_LEADER:
                # The others that live had nobody to be in sync with until now.
                late = [r for r in partition.replicas if r not in partition.isr and r not in metadata.fenced]
                before, partition.isr = partition.isr, (*partition.isr, *late)
                if least_in_sync is not None:
                    _note_eligible(partition, before, least_in_sync(topic))


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
