"""Replica placement of new partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError


def place_replicas(nodes: Sequence[int], *, count: int, factor: int, start: int) -> list[tuple[int, ...]]:
    """Stripes over the nodes from a start, as Kafka's placer without racks."""
    if factor > len(nodes):
        message = f"Unable to replicate the partition {factor} time(s): only {len(nodes)} broker(s) are registered."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    return [tuple(nodes[(start + index + replica) % len(nodes)] for replica in range(factor)) for index in range(count)]


def validate_assignments(nodes: Sequence[int], assignments: Mapping[int, Sequence[int]]) -> list[tuple[int, ...]]:
    """Manual replica assignments, by partition index; the first replica of each leads."""
    placed = [validate_replicas(nodes, assignments[index]) for index in _consecutive_indexes(assignments)]
    if len({len(replicas) for replicas in placed}) > 1:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions have different replication factors")
    return placed


def validate_replicas(nodes: Sequence[int], replicas: Sequence[int]) -> tuple[int, ...]:
    """The replicas of one partition: existing nodes, each once."""
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a manual assignment has no replicas")
    double = next((replica for at, replica in enumerate(replicas) if replica in replicas[:at]), None)
    if double is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a manual assignment has broker {double} more than once"
        )
    for replica in replicas:
        if replica not in nodes:
            message = f"a manual assignment has broker {replica}, which is not registered"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return tuple(replicas)


def _consecutive_indexes(assignments: Iterable[int]) -> list[int]:
    indexes = sorted(assignments)
    if indexes != list(range(len(indexes))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return indexes
