"""Looking inside: a share partition as its leader has it in memory, copied out for tests and people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.in_flight import InFlight, InFlightBatch, State
from mockbroker.state.share_coordinator import ShareKey
from mockbroker.state.share_history import NO_END, Happening
from mockbroker.state.share_partition import SharePartition, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mockbroker.context import ClusterState
    from mockbroker.node import Node

__all__ = ["Happening", "InFlightRun", "SharePartitionView", "State", "Status", "Transition", "share_partition"]


@dataclass(frozen=True, slots=True)
class InFlightRun:
    """Offsets that are alike, `last_offset` included.

    member_id: who holds them, None unless they are acquired. lock_deadline_ms: when they come back by themselves, by
    the cluster's clock. is_in_transition: the share coordinator has not stored the last change yet.
    """

    first_offset: int
    last_offset: int
    state: State
    delivery_count: int
    member_id: str | None
    lock_deadline_ms: int | None
    is_in_transition: bool


@dataclass(frozen=True, slots=True)
class Transition:
    """Something that happened to a run of offsets at once.

    at_ms: by the cluster's clock. member_id: who got, had or settled them; None when nobody did. state: afterwards; a
    release, an expiry or the end of a session that leaves ARCHIVED has met the delivery limit, or the start offset.
    last_offset: None after a load, which is about all that lies behind as well.
    """

    at_ms: int
    happening: Happening
    first_offset: int
    last_offset: int | None
    member_id: str | None
    delivery_count: int
    state: State

    def __str__(self) -> str:
        last = "" if self.last_offset is None else str(self.last_offset)
        offsets = last if last == str(self.first_offset) else f"{self.first_offset}-{last}"
        who = f" by {self.member_id}" if self.member_id else ""
        return f"{self.at_ms} ms  {offsets}  {self.happening.value}{who}: {self.state.name}/{self.delivery_count}"


@dataclass(frozen=True, slots=True)
class SharePartitionView:
    """A share partition at one moment.

    leader: the node that has it. start_offset: KIP-932's SPSO, the first offset that may still be delivered.
    end_offset: its SPEO, the first offset that is not in flight; what 4.3.0 keeps inside is one less while there is
    anything in flight. in_flight: what lies between, in order and without the gaps. history: what happened to its
    records, oldest first, on whatever node it was; of all share partitions together the newest 50,000 runs are kept.
    checkpoint_offset: of its newest checkpoint in the log (SCO, in KIP-932's second revision). earliest_share_offset:
    the oldest of those of all groups, from which on control records are not cleaned (its ESO). Both are None where
    share coordinators have the state.
    """

    group_id: str
    topic: str
    partition: int
    leader: int
    status: Status
    state_epoch: int
    start_offset: int
    end_offset: int
    delivery_complete_count: int
    in_flight: tuple[InFlightRun, ...]
    history: tuple[Transition, ...] = ()
    checkpoint_offset: int | None = None
    earliest_share_offset: int | None = None

    def __str__(self) -> str:
        """The share partition and what happened in it, a line each: for the message of a test that fails."""
        head = (
            f"{self.group_id}: {self.topic}-{self.partition} is {self.status.name} on node {self.leader}, "
            f"start {self.start_offset}, end {self.end_offset}"
        )
        return "\n".join([head, *(f"  {transition}" for transition in self.history)])

    def history_of(self, offset: int) -> tuple[Transition, ...]:
        """What happened to one offset, oldest first."""
        return tuple(
            one
            for one in self.history
            if one.first_offset <= offset and (one.last_offset is None or offset <= one.last_offset)
        )

    def state_of(self, offset: int) -> State:
        """The state of any offset: archived below the start, available from the end on and in gaps."""
        if offset < self.start_offset:
            return State.ARCHIVED
        for run in self.in_flight:
            if run.first_offset <= offset <= run.last_offset:
                return run.state
        return State.AVAILABLE


def share_partition(
    cluster: ClusterState, group_id: str, topic: str, partition_index: int
) -> SharePartitionView | None:
    """What the leader has in memory; None when no fetch of the group has asked for the partition there.

    Raises: UNKNOWN_TOPIC_OR_PARTITION.
    """
    known = cluster.metadata.topic(topic)
    place = known.partition(partition_index) if known else None
    if known is None or place is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition_index}")
    node = cluster.calls.nodes.get(place.leader)
    if node is None or not node.entered("share_partitions"):
        return None
    found = node.share_partitions.get(group_id, known.topic_id, partition_index)
    if found is None:
        return None
    return SharePartitionView(
        group_id=group_id,
        topic=topic,
        partition=partition_index,
        leader=place.leader,
        status=found.status,
        state_epoch=found.state_epoch,
        start_offset=found.start_offset,
        end_offset=found.end_offset + 1 if found.window else found.end_offset,
        delivery_complete_count=found.delivery_complete_count,
        in_flight=tuple(_runs(found)),
        history=tuple(_history(cluster, found)),
        checkpoint_offset=_checkpoint_offset(node, found),
        earliest_share_offset=_earliest_share_offset(node, found),
    )


def _checkpoint_offset(node: Node, partition: SharePartition) -> int | None:
    chain = node.share_control_log.chain(ShareKey(*partition.key)) if node.entered("share_control_log") else None
    return None if chain is None or chain.checkpoint_offset < 0 else chain.checkpoint_offset


def _earliest_share_offset(node: Node, partition: SharePartition) -> int | None:
    if not node.entered("share_control_log"):
        return None
    return node.share_control_log.earliest_share_offset((partition.topic_id, partition.partition_index))


def _history(cluster: ClusterState, partition: SharePartition) -> Iterator[Transition]:
    for note in cluster.kept.share_history.of(partition.key):
        yield Transition(
            note.at_ms,
            note.happening,
            note.first,
            None if note.last == NO_END else note.last,
            note.member_id or None,
            note.delivery_count,
            note.state,
        )


def _runs(partition: SharePartition) -> Iterator[InFlightRun]:
    for batch in partition.window:
        run: InFlightRun | None = None
        for first, last, entry in _entries(batch):
            fresh = _run(first, last, entry)
            if run is None:
                run = fresh
            elif _alike(run, fresh):
                run = _run(run.first_offset, last, entry)
            else:
                yield run
                run = fresh
        if run is not None:
            yield run


def _entries(batch: InFlightBatch) -> list[tuple[int, int, InFlight]]:
    if batch.whole is not None:
        return [(batch.first, batch.last, batch.whole)]
    return [(offset, offset, entry) for offset, entry in batch.within(batch.first, batch.last)]


def _run(first: int, last: int, entry: InFlight) -> InFlightRun:
    return InFlightRun(
        first,
        last,
        entry.state,
        entry.delivery_count,
        entry.member_id or None,
        None if entry.lock is None else entry.lock.deadline_ms,
        entry.is_in_transition,
    )


def _alike(one: InFlightRun, other: InFlightRun) -> bool:
    return (one.state, one.delivery_count, one.member_id, one.lock_deadline_ms, one.is_in_transition) == (
        other.state,
        other.delivery_count,
        other.member_id,
        other.lock_deadline_ms,
        other.is_in_transition,
    )
