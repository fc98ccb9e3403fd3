"""`ClusterFault`: something that happens to the nodes of a cluster at a time, as a frozen value with a JSON form."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mockbroker.faults.fault_error import FaultError, explain_wrong_json, suggest
from mockbroker.faults.state_names import STATE_CHANGES

Action = Literal[
    "stop-node",
    "kill-node",
    "pause-node",
    "refuse-connections",
    "move-leader",
    "move-coordinator",
    "slow-network",
    "expire-sessions",
    "fence-member",
    "fence-producer",
    "expire-transaction",
    "expire-locks",
]
CoordinatorName = Literal["group", "transaction", "share"]
#: What each action acts on, besides its times; the first name of each is required.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "stop-node": ("node",),
    "kill-node": ("node",),
    "pause-node": ("node",),
    "refuse-connections": ("node",),
    "move-leader": ("topic", "partition", "to"),
    "move-coordinator": ("coordinator", "to"),
    "slow-network": ("node", "source", "latency_ms", "loss", "reorder"),
    "expire-sessions": ("principal",),
    **{name: change.arguments for name, change in STATE_CHANGES.items()},
}
#: Actions that happen at once.
_AT_ONCE = ("move-leader", "move-coordinator", "expire-sessions", *STATE_CHANGES)
#: Actions that last until they are ended.
_WITH_END = ("stop-node", "kill-node", "pause-node", "refuse-connections", "slow-network")
_Milliseconds = Annotated[int, msgspec.Meta(ge=0)]


class ClusterFault(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"
):
    """What happens to the nodes, and when, by the cluster's clock.

    action: "stop-node" and "kill-node", after which the node starts again; "pause-node": it answers nothing until the
    end, and then all; "refuse-connections": its listeners are closed, and its connections stay; "move-leader": of a
    partition, or of every one of the topic; "move-coordinator": of every partition of a coordinator's topic;
    "slow-network": messages between nodes, from `source` or all to `node` or all, take up to `latency_ms` for each way,
    are lost with the probability `loss`, either the request or its answer, and with `reorder` overtake each other;
    "expire-sessions": the SASL sessions of a principal, or of all, end as after `connections.max.reauth.ms`.
    "fence-member": a member is removed from its group, as after its session; "fence-producer": a transactional id gets
    its next epoch; "expire-transaction": an open transaction is aborted, as after its timeout; "expire-locks": the
    records that members of a share group hold are released, as after their locks. Of what is not given, the cluster's
    seed chooses one, and locks expire in all groups, topics and partitions.
    node: None for one that the cluster's seed chooses, in each repetition another one; for a network all.
    at_ms: since the fault was added. for_ms: how long it lasts; None for ever. every_ms: the period of its repetition.
    times: how often it is repeated at most. to: the new leader; None for the next in-sync replica.
    """

    action: Action
    at_ms: _Milliseconds = 0
    for_ms: Annotated[int, msgspec.Meta(ge=1)] | None = None
    every_ms: Annotated[int, msgspec.Meta(ge=1)] | None = None
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None
    node: int | None = None
    topic: str | None = None
    partition: Annotated[int, msgspec.Meta(ge=0)] | None = None
    to: int | None = None
    coordinator: CoordinatorName | None = None
    latency_ms: _Milliseconds = 0
    loss: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    source: int | None = None
    reorder: bool = False
    principal: str | None = None
    group: str | None = None
    member: str | None = None
    transactional_id: str | None = None
    name: str = ""
    optional: bool = False

    def to_json(self) -> dict[str, object]:
        """The fault as plain values; `cluster_fault_from_json` reads them."""
        fields: dict[str, object] = msgspec.to_builtins(self)
        return fields


def cluster_fault_from_json(value: object) -> ClusterFault:
    """A fault from its JSON form. Raises: FaultError for a wrong form; the content is not checked."""
    try:
        return msgspec.convert(value, ClusterFault)
    except msgspec.ValidationError as error:
        raise explain_wrong_json(error, value, ClusterFault) from error


def create_cluster_fault(action: str, **options: object) -> ClusterFault:
    """A checked fault. Raises: FaultError."""
    for name in options:
        if name not in ClusterFault.__struct_fields__:
            known = [known_name for known_name in ClusterFault.__struct_fields__ if known_name != "action"]
            raise FaultError(f"a fault of the cluster has no {name!r}; {suggest(name, known)}")
    if action not in _ARGUMENTS:
        raise FaultError(f"action: {action!r} is none; {suggest(action, _ARGUMENTS)}")
    return check_cluster_fault(ClusterFault(action=action, **options))  # type: ignore[arg-type]


def check_cluster_fault(fault: ClusterFault) -> ClusterFault:
    """The fault itself. Raises: FaultError for one that cannot happen."""
    cluster_fault_from_json(fault.to_json())  # The types and ranges of all fields.
    allowed = _ARGUMENTS[fault.action]
    arguments = {name for names in _ARGUMENTS.values() for name in names}
    unset = ClusterFault(action=fault.action)
    for name in sorted(arguments):
        if name not in allowed and getattr(fault, name) != getattr(unset, name):
            raise FaultError(f"{name}: {fault.action} has none; it has {', '.join(allowed)}")
    if fault.action.startswith("move-"):
        required = allowed[0]
        if getattr(fault, required) is None:
            raise FaultError(f"{required}: {fault.action} requires one")
    for name, owner in (("member", "group"), ("partition", "topic")):
        if getattr(fault, name) is not None and getattr(fault, owner) is None:
            raise FaultError(f"{name}: without a {owner} it is not known whose; set both")
    if fault.action in _AT_ONCE and fault.for_ms is not None:
        back = "; add a second fault that moves it back" if fault.action.startswith("move-") else ""
        raise FaultError(f"for_ms: {fault.action} happens at once{back}")
    if fault.reorder and not fault.latency_ms:
        raise FaultError("reorder: without latency_ms all messages arrive at once; set both")
    if fault.action == "slow-network" and not fault.latency_ms and not fault.loss:
        raise FaultError("slow-network: does nothing; set latency_ms or loss")
    _check_times(fault)
    return fault


def _check_times(fault: ClusterFault) -> None:
    """Raises: FaultError for a repetition that cannot be."""
    if fault.every_ms is not None and fault.action in _WITH_END:
        if fault.for_ms is None:
            raise FaultError(f"every_ms: {fault.action} lasts for ever; set for_ms, shorter than every_ms")
        if fault.for_ms >= fault.every_ms:
            raise FaultError(f"for_ms: {fault.for_ms} is not shorter than every_ms, {fault.every_ms}")
    if fault.times is not None and fault.every_ms is None:
        raise FaultError("times: without every_ms it happens once; set every_ms")
