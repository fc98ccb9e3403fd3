"""What the members of a streams group say in their heartbeats, and what may not be said."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.streams_members import StreamsMember, Task, Tasks
from mockbroker.state.streams_topics import ConfiguredSubtopology
from mockbroker.state.streams_topology import Topology

#: Subtopology ids with partitions, as a heartbeat lists tasks.
TaskRows = tuple[tuple[str, tuple[int, ...]], ...]


class Owned(NamedTuple):
    """The tasks that a heartbeat lists."""

    active: TaskRows
    standby: TaskRows
    warmup: TaskRows

    def tasks(self) -> Tasks:
        """All of them, each by itself.

        Raises: UNKNOWN_SERVER_ERROR when a subtopology stands twice, over which Kafka 4.3.0 stumbles too.
        """
        for rows in self:
            if len({subtopology_id for subtopology_id, _ in rows}) != len(rows):
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return Tasks(*(frozenset((name, index) for name, indexes in rows for index in indexes) for rows in self))


@dataclass(frozen=True, slots=True)
class StreamsJoin:
    """What a heartbeat says of its sender. None (or -1 for the timeout): as before.

    endpoint_epoch: the epoch of the endpoints that the member knows.
    """

    member_id: str
    member_epoch: int
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology: Topology | None
    owned: Owned | None
    process_id: str | None
    user_endpoint: tuple[str, int] | None
    client_tags: tuple[tuple[str, str], ...] | None
    shutdown: bool
    endpoint_epoch: int


def updated(member: StreamsMember, join: StreamsJoin) -> StreamsMember:
    """The member with what the heartbeat says of it."""
    timeout_ms = join.rebalance_timeout_ms
    return replace(
        member,
        rack_id=member.rack_id if join.rack_id is None else join.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if join.topology is None else join.topology.epoch,
        process_id=member.process_id if join.process_id is None else join.process_id,
        user_endpoint=member.user_endpoint if join.user_endpoint is None else join.user_endpoint,
        client_tags=member.client_tags if join.client_tags is None else join.client_tags,
    )


def has_only(owned: Owned | None, member: StreamsMember) -> bool:
    """Say whether a heartbeat lists nothing that the member should not have; saying nothing is no proof."""
    if owned is None:
        return False
    held = (member.assigned.active.keys(), member.assigned.standby, member.assigned.warmup)
    return all(_lists_only(rows, tasks) for rows, tasks in zip(owned, held, strict=True))


def _lists_only(rows: TaskRows, tasks: Set[Task]) -> bool:
    """A subtopology that the member has nothing of must not stand there, even without partitions."""
    known = {subtopology_id for subtopology_id, _ in tasks}
    return all(name in known and all((name, index) in tasks for index in indexes) for name, indexes in rows)


def check_tasks(subtopologies: Mapping[str, ConfiguredSubtopology], owned: Owned) -> None:
    """Refuse tasks that there are not.

    Raises: INVALID_REQUEST.
    """
    for rows in owned:
        for name, indexes in rows:
            known = subtopologies.get(name)
            if known is None or not all(0 <= index < known.task_count for index in indexes):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Subtopology {name} has no such tasks: {indexes}.")
