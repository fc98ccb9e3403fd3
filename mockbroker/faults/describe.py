"""Faults as text: for messages, the journal, and comments in captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mockbroker.faults.cluster_model import ClusterFault
    from mockbroker.faults.model import Fault


def describe_fault(fault: Fault) -> str:
    """The fault in one line, as it would be added: `Produce topic='orders' error='NOT_LEADER_OR_FOLLOWER'`."""
    when = [part for part in _given_fields(fault.when) if not part.startswith("api=")]
    return " ".join([fault.when.api or "every API", *when, *_given_fields(fault.then)])


def _given_fields(struct: msgspec.Struct) -> list[str]:
    defaults = type(struct)()
    return [
        f"{name}={getattr(struct, name)!r}"
        for name in struct.__struct_fields__
        if getattr(struct, name) != getattr(defaults, name)
    ]


def describe_cluster_fault(fault: ClusterFault) -> str:
    """The fault in one line: `kill-node at_ms=500 node=1`."""
    given = [
        f"{name}={getattr(fault, name)!r}"
        for name, default in zip(fault.__struct_fields__[1:], fault.__struct_defaults__, strict=True)
        if getattr(fault, name) != default
    ]
    return " ".join([fault.action, *given])
