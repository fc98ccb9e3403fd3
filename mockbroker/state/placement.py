"""Which nodes get the copies of a new topic's partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError


def place(nodes: Sequence[int], *, count: int, factor: int, start: int) -> list[tuple[int, ...]]:
    """Stripes over the nodes from a start, as Kafka's placer makes them where there are no racks."""
    if factor > len(nodes):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): only {len(nodes)} broker(s) are registered.",
        )
    return [tuple(nodes[(start + index + replica) % len(nodes)] for replica in range(factor)) for index in range(count)]


def assigned(nodes: Sequence[int], assignments: Mapping[int, Sequence[int]]) -> list[tuple[int, ...]]:
    """Replicas chosen by hand, by partition index; the first of each leads."""
    placed = [checked(nodes, assignments[index]) for index in _consecutive(assignments)]
    if len({len(replicas) for replicas in placed}) > 1:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions have different replication factors")
    return placed


def checked(nodes: Sequence[int], replicas: Sequence[int]) -> tuple[int, ...]:
    """The replicas of one partition, each an existing node, none twice."""
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a manual assignment has no replicas")
    if len(set(replicas)) != len(replicas):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a broker comes twice in {list(replicas)}")
    for replica in replicas:
        if replica not in nodes:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"no broker has the id {replica}")
    return tuple(replicas)


def _consecutive(assignments: Iterable[int]) -> list[int]:
    indexes = sorted(assignments)
    if indexes != list(range(len(indexes))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return indexes
