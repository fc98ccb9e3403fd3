"""Values of a streams group's records in the coordinator's log (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from mockbroker.state.streams.streams_members import Task


class StreamsEpochValue(NamedTuple):
    """A group's epoch, the digest of its metadata, and the epoch of the validated topology.

    configs: the settings of the assignment, sorted; -1 stands for no valid topology. described_epoch: of the topology
    whose description is stored, -1 for none, -2 while it is uncertain.
    """

    epoch: int
    digest: int
    validated_topology_epoch: int
    configs: tuple[tuple[str, str], ...]
    described_epoch: int = -1


class StreamsMemberValue(NamedTuple):
    """The metadata of a member."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: tuple[str, int] | None
    client_tags: tuple[tuple[str, str], ...]


class StreamsTargetValue(NamedTuple):
    """The target tasks of a member, as (subtopology id, partition)."""

    active: Set[Task]
    standby: Set[Task]
    warmup: Set[Task]


class StreamsCurrentValue(NamedTuple):
    """The assigned tasks of a member, and those to revoke: active tasks with their epochs, standby, warm-up."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[Mapping[Task, int], Set[Task], Set[Task]]
    revoking: tuple[Mapping[Task, int], Set[Task], Set[Task]]
