"""Topics and partitions as records, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.topic_record import TopicRecord
from mockbroker.metadata_log.tables import Message, MetadataLogError
from mockbroker.metadata_log.versions import with_version
from mockbroker.state.metadata.topics import Partition, Topic, is_internal_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from mockbroker.metadata_log.image import MetadataImage
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.metadata.topics import TopicPartitions


def describe_topics(topics: Iterable[Topic]) -> Iterator[TopicRecord]:
    """The records of topics."""
    return (TopicRecord(topic.name, topic.topic_id) for topic in topics)


def describe_partitions(
    partitions: TopicPartitions, previous: MetadataImage, directory_of: Callable[[int], bytes], *, level: int
) -> Iterator[Message]:
    """Partitions as records of a level of metadata.version.

    The cluster does not hold partition epochs: they are those of the previous image, 0 for new partitions.
    directory_of: the id of the log directory of a new replica at a broker.
    """
    known = previous.tables[PartitionRecord]
    for topic, partition in partitions:
        before = known.get((topic.topic_id, partition.index))
        record = PartitionRecord(
            partition_id=partition.index,
            topic_id=topic.topic_id,
            replicas=partition.replicas,
            isr=partition.isr,
            removing_replicas=partition.removing,
            adding_replicas=partition.adding,
            leader=partition.leader,
            leader_recovery_state=before.leader_recovery_state if before else 0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=before.partition_epoch if before else 0,
            directories=_directories(partition, before, directory_of),
            eligible_leader_replicas=partition.elr or None,
            last_known_elr=partition.last_known_elr or None,
        )
        yield with_version(record, level).message


def _directories(
    partition: Partition, before: PartitionRecord | None, directory_of: Callable[[int], bytes]
) -> tuple[bytes, ...]:
    """The directory of each replica: a replica that stays keeps its own, of which a broker may have several."""
    known = dict(zip(before.replicas, before.directories, strict=False)) if before else {}
    return tuple(known[node] if node in known else directory_of(node) for node in partition.replicas)


def restore_topics(image: MetadataImage, metadata: ClusterImage) -> None:
    """Add the topics of an image to a cluster that does not have them.

    Raises: MetadataLogError for partitions whose indexes have a gap.
    """
    by_topic: dict[bytes, list[PartitionRecord]] = {topic_id: [] for topic_id in image.tables[TopicRecord]}
    for (topic_id, _), record in sorted(image.tables[PartitionRecord].items()):
        by_topic[topic_id].append(record)
    for topic_id, records in by_topic.items():
        name = image.tables[TopicRecord][topic_id].name
        if [record.partition_id for record in records] != list(range(len(records))) or not records:
            seen = [record.partition_id for record in records]
            raise MetadataLogError(f"topic {name} has the partitions {seen}, which do not count up from 0")
        partitions = [_make_partition(record, metadata.fenced) for record in records]
        metadata.add_topic(Topic(name, topic_id, partitions, is_internal_topic(name)))


def restore_eligible_replicas(image: MetadataImage, metadata: ClusterImage) -> None:
    """Set the eligible leader replicas of an image, which a change of configuration clears."""
    for (topic_id, index), record in image.tables[PartitionRecord].items():
        partition = metadata.find_partition(topic_id, index)
        if partition is not None:
            partition.elr = tuple(record.eligible_leader_replicas or ())
            partition.last_known_elr = tuple(record.last_known_elr or ())


def _make_partition(record: PartitionRecord, fenced: set[int]) -> Partition:
    return Partition(
        record.partition_id,
        record.leader,
        record.leader_epoch,
        tuple(record.replicas),
        tuple(record.isr),
        offline=tuple(node for node in record.replicas if node in fenced),
        adding=tuple(record.adding_replicas),
        removing=tuple(record.removing_replicas),
    )
