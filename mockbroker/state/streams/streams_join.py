"""The content of streams group heartbeats, and its validation."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.streams.streams_members import StreamsMember, Task, Tasks
from mockbroker.state.streams.streams_topics import ConfiguredSubtopology
from mockbroker.state.streams.streams_topology import Topology

_ASSIGNMENT_FIELDS = attrgetter("topology_epoch", "rack_id", "client_tags", "process_id")
#: Subtopology ids with partitions, as a heartbeat lists tasks.
TaskRows = tuple[tuple[str, tuple[int, ...]], ...]


#: Tasks with offsets, as a heartbeat lists them.
OffsetRows = tuple[tuple[Task, int], ...]


class OwnedTasks(NamedTuple):
    """The tasks that a heartbeat lists."""

    active: TaskRows
    standby: TaskRows
    warmup: TaskRows

    def tasks(self) -> Tasks:
        """All of them as single tasks.

        Raises: UNKNOWN_SERVER_ERROR for a duplicate subtopology, on which Kafka 4.3.0 fails too.
        """
        for rows in self:
            if len({subtopology_id for subtopology_id, _ in rows}) != len(rows):
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return Tasks(*(frozenset((name, index) for name, indexes in rows for index in indexes) for rows in self))


class TaskOffsets(NamedTuple):
    """The offsets that the state of a member's tasks has reached, and those at which their changelogs end."""

    offsets: Mapping[Task, int] = {}
    end_offsets: Mapping[Task, int] = {}


@dataclass(frozen=True, slots=True)
class StreamsJoin:
    """The fields of a heartbeat. None (or -1 for the timeout): unchanged.

    endpoint_epoch: the epoch of the endpoints that the member has. instance_id: None for a dynamic member.
    """

    member_id: str
    member_epoch: int
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology: Topology | None
    owned: OwnedTasks | None
    process_id: str | None
    user_endpoint: tuple[str, int] | None
    client_tags: tuple[tuple[str, str], ...] | None
    shutdown: bool
    endpoint_epoch: int
    instance_id: str | None = None
    task_offsets: OffsetRows | None = None
    task_end_offsets: OffsetRows | None = None

    @property
    def is_joining(self) -> bool:
        """Return whether the member joins, for the first time or again."""
        return self.member_epoch == 0

    def update_offsets(self, before: TaskOffsets) -> TaskOffsets:
        """The offsets after this heartbeat, which lists all of a kind or none.

        Raises: INVALID_REQUEST for a task that is listed twice.
        """
        return TaskOffsets(
            before.offsets if self.task_offsets is None else _offsets_by_task(self.task_offsets),
            before.end_offsets if self.task_end_offsets is None else _offsets_by_task(self.task_end_offsets),
        )


def _offsets_by_task(rows: OffsetRows) -> dict[Task, int]:
    offsets = dict(rows)
    if len(offsets) != len(rows):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The offset of a task is listed twice.")
    return offsets


def update_member(member: StreamsMember, join: StreamsJoin, *, keeps_endpoint: bool) -> StreamsMember:
    """The member with the fields of the heartbeat. keeps_endpoint: without one in the heartbeat.

    Raises: UNKNOWN_SERVER_ERROR for a duplicate client tag, on which Kafka fails.
    """
    tags = join.client_tags
    if tags is not None and len(dict(tags)) != len(tags):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    timeout_ms = join.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if join.instance_id is None else join.instance_id,
        rack_id=member.rack_id if join.rack_id is None else join.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if join.topology is None else join.topology.epoch,
        process_id=member.process_id if join.process_id is None else join.process_id,
        user_endpoint=member.user_endpoint if join.user_endpoint is None and keeps_endpoint else join.user_endpoint,
        client_tags=member.client_tags if tags is None else tags,
    )


def changes_assignment(before: StreamsMember, member: StreamsMember) -> bool:
    """Return whether a static member has changed so that tasks have to be assigned again."""
    return _ASSIGNMENT_FIELDS(before) != _ASSIGNMENT_FIELDS(member)


def owns_only(owned: OwnedTasks | None, member: StreamsMember) -> bool:
    """Return whether a heartbeat lists only assigned tasks; without a list it is false."""
    if owned is None:
        return False
    assigned = (member.assigned.active.keys(), member.assigned.standby, member.assigned.warmup)
    return all(_lists_only(rows, tasks) for rows, tasks in zip(owned, assigned, strict=True))


def _lists_only(rows: TaskRows, tasks: Set[Task]) -> bool:
    """Return whether only these tasks are listed; a subtopology without tasks must not be listed, even without
    partitions.
    """
    subtopology_ids = {subtopology_id for subtopology_id, _ in tasks}
    return all(name in subtopology_ids and all((name, index) in tasks for index in indexes) for name, indexes in rows)


def check_tasks(subtopologies: Mapping[str, ConfiguredSubtopology], owned: OwnedTasks) -> None:
    """Reject unknown tasks. Raises: INVALID_REQUEST."""
    for rows in owned:
        for name, indexes in rows:
            subtopology = subtopologies.get(name)
            if subtopology is None or not all(0 <= index < subtopology.task_count for index in indexes):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Subtopology {name} has no such tasks: {indexes}.")
