"""Leader elections: leaders, ISRs and eligible leader replicas after every change.

Source: Kafka's PartitionChangeBuilder and ReplicationControlManager; KIP-966 for the eligible leader replicas. A
running replica is in sync as soon as the partition has a running leader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import ClusterImage
from mockbroker.state.metadata.topics import Partition, Topic, TopicPartitionKey, TopicPartitions

if TYPE_CHECKING:
    from mockbroker.state.replication.leader_replicas import IsrChange

NO_LEADER = -1
#: Node ids, in an order that matters.
Nodes = tuple[int, ...]


class ElectionType(Enum):
    """What an election prefers: the present leader, the first replica, or any replica over none."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class ElectionRules(msgspec.Struct, frozen=True):
    """Configuration of elections.

    has_elr: eligible leader replicas are maintained (eligible.leader.replicas.version 1). least_in_sync: the effective
    min.insync.replicas of a topic. may_be_unclean: whether a replica that lacks records may lead.
    """

    has_elr: bool
    least_in_sync: Callable[[Topic], int]
    may_be_unclean: Callable[[Topic], bool]


class PartitionTarget(msgspec.Struct):
    """The target state of a partition change."""

    isr: Nodes
    replicas: Nodes
    adding: Nodes
    removing: Nodes

    @classmethod
    def from_partition(cls, partition: Partition) -> PartitionTarget:
        """The present state."""
        return cls(partition.isr, partition.replicas, partition.adding, partition.removing)


class PlannedChange(msgspec.Struct, frozen=True):
    """What becomes of a partition, as in a record of the metadata log.

    values: of the fields that change. leader: of the next leader epoch, None if none begins.
    """

    topic: Topic
    partition: Partition
    values: dict[str, Nodes]
    leader: int | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not self.values and self.leader is None


def change_partition(
    metadata: ClusterImage,
    topic: Topic,
    partition: Partition,
    target: PartitionTarget,
    rules: ElectionRules,
    *,
    election: ElectionType | None = None,
    crashed: int | None = None,
) -> None:
    """Change a partition towards a target as far as the rules allow. The arguments are those of `plan_change`."""
    planned = plan_change(metadata, topic, partition, target, rules, election=election, crashed=crashed)
    apply_change(metadata, planned)


def plan_change(
    metadata: ClusterImage,
    topic: Topic,
    partition: Partition,
    target: PartitionTarget,
    rules: ElectionRules,
    *,
    election: ElectionType | None = None,
    crashed: int | None = None,
) -> PlannedChange:
    """The change of a partition towards a target, as far as the rules allow.

    election: by default any replica may lead rather than none, if the topic allows it. crashed: a broker that may have
    lost records in a crash, and is not eligible.
    """
    if election is None:
        election = ElectionType.UNCLEAN if rules.may_be_unclean(topic) else ElectionType.ONLINE
    _complete_reassignment(target)
    elr = _eligible_leader_replicas(partition, target, rules.least_in_sync(topic), crashed) if rules.has_elr else ()
    leader, is_unclean = _choose_leader(metadata, partition, target, elr, election, has_elr=rules.has_elr)
    is_elected = leader != partition.leader
    isr = target.isr
    if is_elected and leader in elr:
        isr, elr = (leader,), tuple(node for node in elr if node != leader)
    elif is_elected and is_unclean:
        isr, elr = (leader,), ()
    if not isr and not rules.has_elr:
        isr = partition.isr  # The last ones in sync stay in the list; no other replica may lead.
    last_known = partition.last_known_elr
    has_new_leader_epoch = is_elected or not set(partition.replicas) <= set(target.replicas)
    if rules.has_elr and is_elected and leader == NO_LEADER and not last_known:
        last_known = (partition.leader,)
    elif rules.has_elr and has_new_leader_epoch and leader != NO_LEADER:
        last_known = ()
    wanted = {
        "isr": isr,
        "replicas": target.replicas,
        "adding": target.adding,
        "removing": target.removing,
        "elr": elr,
        "last_known_elr": last_known,
    }
    values = {name: value for name, value in wanted.items() if getattr(partition, name) != value}
    return PlannedChange(topic, partition, values, leader if has_new_leader_epoch else None)


def apply_change(metadata: ClusterImage, planned: PlannedChange) -> None:
    """Change a partition as it was planned; others of the same request may have changed it since."""
    topic, partition = planned.topic, planned.partition
    for name, value in planned.values.items():
        setattr(partition, name, value)
    partition.offline = tuple(node for node in partition.replicas if node in metadata.fenced)
    metadata.mark_changed(topic, partition)
    if planned.leader is not None:
        metadata.change_leader(topic, partition.index, planned.leader)


def _complete_reassignment(target: PartitionTarget) -> None:
    """Complete a reassignment whose new replicas are all in sync, if one in-sync replica stays."""
    if not (target.adding or target.removing):
        return
    isr = tuple(node for node in target.isr if node not in target.removing)
    replicas = tuple(node for node in target.replicas if node not in target.removing)
    if not replicas or (target.removing and not isr) or not set(target.adding) <= set(isr):
        return
    if len(target.adding) < len(target.removing) and not set(replicas) <= set(isr):
        return  # With fewer replicas than before all of them have to be in sync.
    target.isr, target.replicas, target.adding, target.removing = isr, replicas, (), ()


def _eligible_leader_replicas(partition: Partition, target: PartitionTarget, least: int, crashed: int | None) -> Nodes:
    """With too few in-sync replicas, the last ones that were in sync have all committed records, and are eligible."""
    if len(target.isr) >= least:
        return ()
    candidates = dict.fromkeys((*partition.elr, *partition.isr))
    return tuple(node for node in candidates if node not in target.isr and node != crashed)


def _choose_leader(
    metadata: ClusterImage,
    partition: Partition,
    target: PartitionTarget,
    elr: Nodes,
    election: ElectionType,
    *,
    has_elr: bool,
) -> tuple[int, bool]:
    """The leader, and whether records may be lost."""
    candidates = [node for node in target.isr or elr if node not in metadata.fenced]
    if election is ElectionType.PREFERRED and target.replicas[0] in candidates:
        return target.replicas[0], False
    if partition.leader in candidates:
        return partition.leader, False
    clean = next((node for node in target.replicas if node in candidates), NO_LEADER)
    if clean != NO_LEADER:
        return clean, False
    last_known = partition.last_known_elr
    if has_elr and not elr and not target.isr and len(last_known) == 1 and last_known[0] not in metadata.fenced:
        return last_known[0], True
    if election is ElectionType.UNCLEAN:
        living = next((node for node in target.replicas if node not in metadata.fenced), NO_LEADER)
        return living, living != NO_LEADER
    return NO_LEADER, False


def _partitions_of_broker(metadata: ClusterImage, node_id: int) -> Iterator[tuple[Topic, Partition]]:
    for topic in metadata.topics():
        for partition in topic.partitions:
            if node_id in partition.replicas:
                yield topic, partition


def fence_broker(metadata: ClusterImage, node_id: int, rules: ElectionRules, *, has_crashed: bool = False) -> None:
    """Remove a broker from the ISRs, and elect other leaders for its partitions.

    has_crashed: it returns after an unclean stop, and is no eligible leader any more.
    """
    metadata.fenced.add(node_id)
    is_lost = has_crashed and rules.has_elr
    for topic, partition in _partitions_of_broker(metadata, node_id):
        target = PartitionTarget.from_partition(partition)
        target.isr = tuple(replica for replica in partition.isr if replica != node_id)
        if node_id in partition.isr or (is_lost and node_id in partition.elr):
            change_partition(metadata, topic, partition, target, rules, crashed=node_id if is_lost else None)
        partition.offline = tuple(replica for replica in partition.replicas if replica in metadata.fenced)


def unfence_broker(metadata: ClusterImage, node_id: int, rules: ElectionRules) -> None:
    """Add a broker again: it leads partitions without a leader, if it may."""
    metadata.fenced.discard(node_id)
    metadata.in_controlled_shutdown.discard(node_id)
    for topic, partition in _partitions_of_broker(metadata, node_id):
        partition.offline = tuple(replica for replica in partition.replicas if replica in metadata.fenced)
        if partition.leader == NO_LEADER:
            change_partition(metadata, topic, partition, PartitionTarget.from_partition(partition), rules)


def expand_isr(
    metadata: ClusterImage, changed: TopicPartitions, rules: ElectionRules, *, running: Collection[int]
) -> None:
    """Add every running replica to the ISR where the leader runs; this completes waiting reassignments.

    changed: the partitions that may need it.
    """
    for topic, partition in changed:
        if partition.leader not in running:
            continue
        followers = [node for node in partition.replicas if node in running and node not in metadata.fenced]
        out_of_sync = tuple(node for node in followers if node not in partition.isr)
        if out_of_sync:
            target = PartitionTarget.from_partition(partition)
            target.isr += out_of_sync
            change_partition(metadata, topic, partition, target, rules)


def alter_isr(
    metadata: ClusterImage, key: TopicPartitionKey, leader: int, change: IsrChange, rules: ElectionRules
) -> tuple[Topic, Partition]:
    """Change the ISR of a partition (AlterPartition); this can complete a reassignment.

    Returns: the partition.
    Raises: UNKNOWN_TOPIC_ID, FENCED_LEADER_EPOCH, INVALID_REQUEST; INVALID_UPDATE_VERSION where the ISR is another one
    already; INELIGIBLE_REPLICA for a broker that is fenced or about to stop.
    Source: Kafka's ReplicationControlManager.validateAlterPartitionData.
    """
    topic = metadata.topic_by_id(key[0])
    partition = topic.partition(key[1]) if topic else None
    if topic is None or partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if change.leader_epoch != partition.leader_epoch:
        text = f"leader epoch {change.leader_epoch} was given, {partition.leader_epoch} is current"
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, text)
    if leader != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"node {partition.leader} leads, not {leader}")
    if change.committed != partition.isr:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"the ISR is {partition.isr}, not {change.committed}")
    if leader not in change.isr or not set(change.isr) <= set(partition.replicas):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{change.isr} is no ISR of {partition.replicas} with {leader}")
    refused = metadata.fenced | metadata.in_controlled_shutdown
    if not refused.isdisjoint(change.isr):
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA, f"of {change.isr} some are fenced or about to stop")
    target = PartitionTarget.from_partition(partition)
    target.isr = change.isr
    change_partition(metadata, topic, partition, target, rules)
    return topic, partition


def plan_election(
    metadata: ClusterImage, topic_name: str, partition_index: int, election: ElectionType, rules: ElectionRules
) -> PlannedChange:
    """The election of a leader on request.

    Raises: UNKNOWN_TOPIC_OR_PARTITION; ELECTION_NOT_NEEDED where the preferred one leads, or for an unclean election
    where there is a leader; PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    topic, partition = find_partition(metadata, topic_name, partition_index)
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    is_not_needed = partition.leader != NO_LEADER
    if election is ElectionType.PREFERRED:
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        is_not_needed = partition.leader == partition.replicas[0]
    if is_not_needed:
        led = f"node {partition.leader} leads {topic_name}-{partition_index} already"
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"an election is not needed: {led}")
    target = PartitionTarget.from_partition(partition)
    planned = plan_change(metadata, topic, partition, target, rules, election=election)
    if planned.is_empty:
        raise KafkaError(code)
    return planned


def find_partition(metadata: ClusterImage, topic_name: str, partition_index: int) -> tuple[Topic, Partition]:
    """A partition by its name. Raises: UNKNOWN_TOPIC_OR_PARTITION."""
    topic = metadata.topic(topic_name)
    partition = topic.partition(partition_index) if topic else None
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic_name}")
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_name}-{partition_index}")
    return topic, partition


def move_leader(metadata: ClusterImage, topic_name: str, partition_index: int, *, to: int | None) -> None:
    """Make another in-sync replica the leader: `to`, or the first other one of the assignment.

    Raises: UNKNOWN_TOPIC_OR_PARTITION; ELIGIBLE_LEADERS_NOT_AVAILABLE where `to` is no in-sync replica, or none other
    is in sync; ELECTION_NOT_NEEDED where `to` leads already.
    """
    topic, partition = find_partition(metadata, topic_name, partition_index)
    name = f"{topic_name}-{partition_index}"
    if partition.leader == to:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"node {to} leads {name} already")
    in_sync = [node for node in partition.replicas if node in partition.isr and node not in metadata.fenced]
    others = [node for node in in_sync if node != partition.leader]
    if not others or to not in (None, *others):
        seen = (
            f"{name} has no other in-sync replica" if to is None else f"node {to} is not an in-sync replica of {name}"
        )
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"{seen}; those are {in_sync}")
    metadata.change_leader(topic, partition_index, others[0] if to is None else to)
