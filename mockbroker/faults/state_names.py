"""`STATE_CHANGES`: what faults can do to the state of a cluster, by name; `state_changes` has the functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class StateChange(NamedTuple):
    """One change.

    arguments: of a fault of the cluster. selectors: what a request must name. function: in `state_changes`, which is
    imported when a change happens.
    """

    arguments: tuple[str, ...]
    selectors: tuple[str, ...]
    function: str


#: Every change by its name, which is an action of faults of the cluster, and `state` in those of requests.
STATE_CHANGES: Mapping[str, StateChange] = {
    "fence-member": StateChange(("group", "member"), ("group", "member"), "fence_member"),
    "fence-producer": StateChange(("transactional_id",), ("transactional_id",), "fence_producer"),
    "expire-transaction": StateChange(("transactional_id",), ("transactional_id",), "expire_transaction"),
    "expire-locks": StateChange(("group", "topic", "partition"), ("group",), "expire_locks"),
}
