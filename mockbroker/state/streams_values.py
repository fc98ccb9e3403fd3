"""What a group coordinator's log says of streams groups, as plain values (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

_Task = tuple[str, int]


class StreamsEpochFact(NamedTuple):
    """A group's epoch, what its topology saw of the metadata then, and the topology epoch that was found in order.

    configs: the settings of the assignment, sorted; -1 stands for no topology in order.
    """

    epoch: int
    digest: int
    validated_topology_epoch: int
    configs: tuple[tuple[str, str], ...]


class StreamsMemberFact(NamedTuple):
    """What a member says of itself."""

    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: tuple[str, int] | None
    client_tags: tuple[tuple[str, str], ...]


class StreamsTargetFact(NamedTuple):
    """The tasks that a member should have, as (subtopology id, partition)."""

    active: Set[_Task]
    standby: Set[_Task]
    warmup: Set[_Task]


class StreamsCurrentFact(NamedTuple):
    """What a member has, and what it still has to give up: active tasks with their epochs, standby, warm-up."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[Mapping[_Task, int], Set[_Task], Set[_Task]]
    revoking: tuple[Mapping[_Task, int], Set[_Task], Set[_Task]]
