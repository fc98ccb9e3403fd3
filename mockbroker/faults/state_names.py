"""`STATE_CHANGES`: what faults can do to the state of a cluster, by name.

`state_changes` has the functions, and is imported when one happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class StateChange(NamedTuple):
    """One change.

    arguments: of a fault of the cluster. selectors: what a request must name.
    """

    arguments: tuple[str, ...]
    selectors: tuple[str, ...]


#: Every change by its name, which is an action of faults of the cluster, and `state` in those of requests.
STATE_CHANGES: Mapping[str, StateChange] = {
    "fence-member": StateChange(("group", "member"), ("group", "member")),
    "fence-producer": StateChange(("transactional_id",), ("transactional_id",)),
    "expire-transaction": StateChange(("transactional_id",), ("transactional_id",)),
    "expire-locks": StateChange(("group", "topic", "partition"), ("group",)),
}
