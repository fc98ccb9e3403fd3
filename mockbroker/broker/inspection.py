"""Snapshots of share partitions in their leaders' memory, for tests and for debugging."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.in_flight_batch import InFlightState, RecordState
from mockbroker.state.share.share_history import UNBOUNDED, HistoryEvent
from mockbroker.state.share.share_partition import PartitionStatus, SharePartition
from mockbroker.state.share_coordinator.share_coordinator import ShareKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node

__all__ = [
    "HistoryEvent",
    "InFlightRun",
    "SharePartitionView",
    "RecordState",
    "PartitionStatus",
    "Transition",
    "share_partition",
    "share_partitions",
]


@dataclass(frozen=True, slots=True)
class InFlightRun:
    """A run of offsets in the same state, `last_offset` included.

    member_id: the member that has acquired them, or None. lock_deadline_ms: when the acquisition lock expires, by the
    cluster's clock. is_in_transition: the share coordinator has not stored the last change yet.
    """

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int
    member_id: str | None
    lock_deadline_ms: int | None
    is_in_transition: bool


@dataclass(frozen=True, slots=True)
class Transition:
    """An event that changed a run of offsets at once.

    at_ms: by the cluster's clock. member_id: the member that acquired, held or acknowledged them, or None. state:
    afterwards; a release, an expiry or the end of a session that leaves ARCHIVED has reached the delivery limit, or the
    start offset. last_offset: None after a load, which concerns all later offsets as well.
    """

    at_ms: int
    event: HistoryEvent
    first_offset: int
    last_offset: int | None
    member_id: str | None
    delivery_count: int
    state: RecordState

    def __str__(self) -> str:
        last = "" if self.last_offset is None else str(self.last_offset)
        offsets = last if last == str(self.first_offset) else f"{self.first_offset}-{last}"
        member = f" by {self.member_id}" if self.member_id else ""
        return f"{self.at_ms} ms  {offsets}  {self.event.value}{member}: {self.state.name}/{self.delivery_count}"


@dataclass(frozen=True, slots=True)
class SharePartitionView:
    """A share partition at one moment.

    leader: the node that leads it. start_offset: KIP-932's SPSO, the first offset that may still be delivered.
    end_offset: its SPEO, the first offset that is not in flight; Kafka 4.3.0 stores one less while records are in
    flight. in_flight: the offsets between them, in order and without the gaps. history: the events of its records,
    oldest first, on any node; the newest 50,000 events of all share partitions together are stored.
    checkpoint_offset: of its newest checkpoint in the log (SCO, in KIP-932's second revision). earliest_share_offset:
    the lowest of those of all groups, from which control records are not cleaned (its ESO). Both are None if share
    coordinators store the state.
    """

    group_id: str
    topic: str
    partition: int
    leader: int
    status: PartitionStatus
    state_epoch: int
    start_offset: int
    end_offset: int
    delivery_complete_count: int
    in_flight: tuple[InFlightRun, ...]
    history: tuple[Transition, ...] = ()
    checkpoint_offset: int | None = None
    earliest_share_offset: int | None = None

    def __str__(self) -> str:
        """The share partition and its history, one event per line, for the message of a failing test."""
        head = (
            f"{self.group_id}: {self.topic}-{self.partition} is {self.status.name} on node {self.leader}, "
            f"start {self.start_offset}, end {self.end_offset}"
        )
        return "\n".join([head, *(f"  {transition}" for transition in self.history)])

    def history_of(self, offset: int) -> tuple[Transition, ...]:
        """The events of one offset, oldest first."""
        started = (event for event in self.history if event.first_offset <= offset)
        return tuple(event for event in started if event.last_offset is None or offset <= event.last_offset)

    def state_of(self, offset: int) -> RecordState:
        """The state of any offset: archived below the start, available from the end on and in gaps."""
        if offset < self.start_offset:
            return RecordState.ARCHIVED
        states = (run.state for run in self.in_flight if run.first_offset <= offset <= run.last_offset)
        return next(states, RecordState.AVAILABLE)


def share_partition(cluster: ClusterState, group_id: str, topic: str, index: int) -> SharePartitionView | None:
    """Copy a share partition from its leader's memory; None if no fetch of the group has requested it there.

    Raises: UNKNOWN_TOPIC_OR_PARTITION.
    """
    known_topic = cluster.metadata.topic(topic)
    known_partition = known_topic.partition(index) if known_topic else None
    if known_topic is None or known_partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
    node = cluster.inter_broker.nodes.get(known_partition.leader)
    if node is None or not node.is_loaded("share_partitions"):
        return None
    partition = node.share_partitions.get(group_id, known_topic.topic_id, index)
    if partition is None:
        return None
    return _view(cluster, node, partition, topic, tuple(_history(cluster, partition)))


def share_partitions(cluster: ClusterState, group_id: str | None = None) -> list[SharePartitionView]:
    """The share partitions of a group, or of all, that are in their leaders' memory, in order and without history."""
    views = []
    for node in cluster.inter_broker.nodes.values():
        for partition in node.share_partitions if node.is_loaded("share_partitions") else ():
            topic = cluster.metadata.topic_by_id(partition.topic_id)
            if group_id in (None, partition.group_id) and topic is not None:
                views.append(_view(cluster, node, partition, topic.name, ()))
    return sorted(views, key=lambda view: (view.group_id, view.topic, view.partition))


def _view(
    cluster: ClusterState, node: Node, partition: SharePartition, topic: str, history: tuple[Transition, ...]
) -> SharePartitionView:
    return SharePartitionView(
        group_id=partition.group_id,
        topic=topic,
        partition=partition.partition_index,
        leader=node.node_id,
        status=partition.status,
        state_epoch=partition.state_epoch,
        start_offset=partition.start_offset,
        end_offset=partition.end_offset + 1 if partition.window else partition.end_offset,
        delivery_complete_count=partition.window.delivery_complete_count,
        in_flight=tuple(_in_flight_runs(partition)),
        history=history,
        checkpoint_offset=_checkpoint_offset(node, partition),
        earliest_share_offset=_earliest_share_offset(node, partition),
    )


def _checkpoint_offset(node: Node, partition: SharePartition) -> int | None:
    if not node.is_loaded("share_control_log"):
        return None
    chain = node.share_control_log.recorded_state(ShareKey(*partition.key))
    return None if chain is None or chain.checkpoint_offset < 0 else chain.checkpoint_offset


def _earliest_share_offset(node: Node, partition: SharePartition) -> int | None:
    if not node.is_loaded("share_control_log"):
        return None
    return node.share_control_log.earliest_share_offset((partition.topic_id, partition.partition_index))


def _history(cluster: ClusterState, partition: SharePartition) -> Iterator[Transition]:
    for entry in cluster.broker_storage.share_history.entries_for(partition.key):
        last = None if entry.last == UNBOUNDED else entry.last
        member_id = entry.member_id or None
        yield Transition(entry.at_ms, entry.event, entry.first, last, member_id, entry.delivery_count, entry.state)


def _in_flight_runs(partition: SharePartition) -> Iterator[InFlightRun]:
    for batch in partition.window:
        runs = [_to_run(first, last, entry) for first, last, entry in batch.entries(batch.first, batch.last)]
        for _, equal in groupby(runs, key=lambda run: replace(run, first_offset=0, last_offset=0)):
            first_run, *others = equal
            yield replace(first_run, last_offset=others[-1].last_offset) if others else first_run


def _to_run(first: int, last: int, entry: InFlightState) -> InFlightRun:
    member_id = entry.member_id or None
    deadline_ms = None if entry.lock is None else entry.lock.deadline_ms
    return InFlightRun(first, last, entry.state, entry.delivery_count, member_id, deadline_ms, entry.is_in_transition)
