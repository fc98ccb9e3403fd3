"""Elections: who leads which partition, who is in sync, and who is eligible, after every change.

Source: Kafka's PartitionChangeBuilder and ReplicationControlManager; KIP-966 for the eligible leader replicas. A
replica that lives is in sync as soon as the partition has a leader that lives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import Metadata
from mockbroker.state.topics import Partition, Topic

NO_LEADER = -1


class Election(Enum):
    """What an election prefers: the leader that is, the first of the replicas, or any replica before none."""

    ONLINE = "online"
    PREFERRED = "preferred"
    UNCLEAN = "unclean"


class Rules(msgspec.Struct, frozen=True):
    """What elections go by.

    has_elr: eligible leader replicas are kept (eligible.leader.replicas.version 1). least_in_sync: the effective
    min.insync.replicas of a topic. may_be_unclean: whether one may be led by a replica that lacks records.
    """

    has_elr: bool
    least_in_sync: Callable[[Topic], int]
    may_be_unclean: Callable[[Topic], bool]


class Wish(msgspec.Struct):
    """What a partition is to become."""

    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @classmethod
    def of(cls, partition: Partition) -> Wish:
        """What it is."""
        return cls(partition.isr, partition.replicas, partition.adding, partition.removing)


def change(
    metadata: Metadata,
    topic: Topic,
    partition: Partition,
    wish: Wish,
    rules: Rules,
    *,
    election: Election | None = None,
    crashed: int | None = None,
) -> bool:
    """Bring a partition as near to a wish as the rules of elections have it; whether anything has changed.

    election: by default any replica may lead rather than none where the topic allows it. crashed: a broker that may
    have lost records in a crash, which makes nobody eligible.
    """
    if election is None:
        election = Election.UNCLEAN if rules.may_be_unclean(topic) else Election.ONLINE
    _complete_reassignment(wish)
    elr = _eligible(partition, wish, rules.least_in_sync(topic), crashed) if rules.has_elr else ()
    leader, is_unclean = _elect(metadata, partition, wish, elr, election, has_elr=rules.has_elr)
    is_elected = leader != partition.leader
    isr = wish.isr
    if is_elected and leader in elr:
        isr, elr = (leader,), tuple(node for node in elr if node != leader)
    elif is_elected and is_unclean:
        isr, elr = (leader,), ()
    if not isr and not rules.has_elr:
        isr = partition.isr  # The last ones in sync stay in the list; nobody else may lead.
    last_known = partition.last_known_elr
    is_led_anew = is_elected or not set(partition.replicas) <= set(wish.replicas)
    if rules.has_elr and is_elected and leader == NO_LEADER and not last_known:
        last_known = (partition.leader,)
    elif rules.has_elr and is_led_anew and leader != NO_LEADER:
        last_known = ()
    before = (*_facts(partition), partition.leader)
    partition.isr, partition.replicas = isr, wish.replicas
    partition.adding, partition.removing = wish.adding, wish.removing
    partition.elr, partition.last_known_elr = elr, last_known
    partition.offline = tuple(node for node in partition.replicas if node in metadata.fenced)
    if is_led_anew:
        metadata.lead(topic, partition.index, leader)
    return is_led_anew or before != (*_facts(partition), partition.leader)


def _facts(partition: Partition) -> tuple[tuple[int, ...], ...]:
    return (
        partition.isr,
        partition.replicas,
        partition.adding,
        partition.removing,
        partition.elr,
        partition.last_known_elr,
    )


def _complete_reassignment(wish: Wish) -> None:
    """End a reassignment whose new replicas are all in sync, if somebody in sync stays."""
    if not (wish.adding or wish.removing):
        return
    isr = tuple(node for node in wish.isr if node not in wish.removing)
    replicas = tuple(node for node in wish.replicas if node not in wish.removing)
    if not replicas or (wish.removing and not isr) or not set(wish.adding) <= set(isr):
        return
    if len(wish.adding) < len(wish.removing) and not set(replicas) <= set(isr):
        return  # Fewer copies than before have to be all in sync.
    wish.isr, wish.replicas, wish.adding, wish.removing = isr, replicas, (), ()


def _eligible(partition: Partition, wish: Wish, least: int, crashed: int | None) -> tuple[int, ...]:
    """Too few in sync: those that were so lately have everything that anybody has seen, and are eligible."""
    if len(wish.isr) >= least:
        return ()
    candidates = dict.fromkeys((*partition.elr, *partition.isr))
    return tuple(node for node in candidates if node not in wish.isr and node != crashed)


def _elect(
    metadata: Metadata, partition: Partition, wish: Wish, elr: tuple[int, ...], election: Election, *, has_elr: bool
) -> tuple[int, bool]:
    """Who leads, and whether records may be lost."""
    candidates = [node for node in wish.isr or elr if node not in metadata.fenced]
    if election is Election.PREFERRED and wish.replicas[0] in candidates:
        return wish.replicas[0], False
    if partition.leader in candidates:
        return partition.leader, False
    clean = next((node for node in wish.replicas if node in candidates), NO_LEADER)
    if clean != NO_LEADER:
        return clean, False
    last_known = partition.last_known_elr
    if has_elr and not elr and not wish.isr and len(last_known) == 1 and last_known[0] not in metadata.fenced:
        return last_known[0], True
    if election is Election.UNCLEAN:
        living = next((node for node in wish.replicas if node not in metadata.fenced), NO_LEADER)
        return living, living != NO_LEADER
    return NO_LEADER, False


def _partitions(metadata: Metadata, node_id: int) -> Iterator[tuple[Topic, Partition]]:
    for topic in metadata.topics():
        for partition in topic.partitions:
            if node_id in partition.replicas:
                yield topic, partition


def fence(metadata: Metadata, node_id: int, rules: Rules, *, has_crashed: bool = False) -> None:
    """Take a broker out of the in-sync replicas, and have others lead what it led.

    has_crashed: it is back after an unclean end, and no eligible leader any more.
    """
    metadata.fenced.add(node_id)
    is_lost = has_crashed and rules.has_elr
    for topic, partition in _partitions(metadata, node_id):
        wish = Wish.of(partition)
        wish.isr = tuple(replica for replica in partition.isr if replica != node_id)
        if node_id in partition.isr or (is_lost and node_id in partition.elr):
            change(metadata, topic, partition, wish, rules, crashed=node_id if is_lost else None)
        partition.offline = tuple(replica for replica in partition.replicas if replica in metadata.fenced)


def unfence(metadata: Metadata, node_id: int, rules: Rules) -> None:
    """Take a broker in again: it leads what nobody else could, if it may."""
    metadata.fenced.discard(node_id)
    for topic, partition in _partitions(metadata, node_id):
        partition.offline = tuple(replica for replica in partition.replicas if replica in metadata.fenced)
        if partition.leader == NO_LEADER:
            change(metadata, topic, partition, Wish.of(partition), rules)


def expand(metadata: Metadata, rules: Rules, *, running: Collection[int]) -> None:
    """Have every replica that lives in sync where the leader lives; reassignments that waited for it end."""
    for topic in metadata.topics():
        for partition in topic.partitions:
            if partition.leader not in running:
                continue
            late = tuple(
                node
                for node in partition.replicas
                if node in running and node not in partition.isr and node not in metadata.fenced
            )
            if late:
                wish = Wish.of(partition)
                wish.isr += late
                change(metadata, topic, partition, wish, rules)


def elect(metadata: Metadata, topic_name: str, partition_index: int, election: Election, rules: Rules) -> None:
    """Have a leader elected on request.

    Raises: UNKNOWN_TOPIC_OR_PARTITION; ELECTION_NOT_NEEDED where the preferred one leads, or for an unclean election
    anybody; PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    topic, partition = find(metadata, topic_name, partition_index)
    if election is Election.PREFERRED:
        is_needless = partition.leader == partition.replicas[0]
    else:
        is_needless = partition.leader != NO_LEADER
    if is_needless:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
    if not change(metadata, topic, partition, Wish.of(partition), rules, election=election):
        preferred = election is Election.PREFERRED
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )


def find(metadata: Metadata, topic_name: str, partition_index: int) -> tuple[Topic, Partition]:
    """A partition by its name. Raises: UNKNOWN_TOPIC_OR_PARTITION."""
    topic = metadata.topic(topic_name)
    partition = topic.partition(partition_index) if topic else None
    if topic is None or partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {topic_name}-{partition_index}")
    return topic, partition


def move_leader(metadata: Metadata, topic_name: str, partition_index: int, *, to: int) -> None:
    """Have another in-sync replica lead.

    Raises: UNKNOWN_TOPIC_OR_PARTITION; ELIGIBLE_LEADERS_NOT_AVAILABLE where `to` has no copy, or is not in sync;
    ELECTION_NOT_NEEDED where it leads already.
    """
    topic, partition = find(metadata, topic_name, partition_index)
    if partition.leader == to:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"node {to} leads {topic_name}-{partition_index} already")
    if to not in partition.isr or to in metadata.fenced:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            f"node {to} is no in-sync replica of {topic_name}-{partition_index}; those are {list(partition.isr)}",
        )
    metadata.lead(topic, partition_index, to)
