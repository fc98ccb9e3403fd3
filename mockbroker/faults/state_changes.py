"""What faults do to the state of the cluster: members are fenced, transactions end, locks expire, before their time.

Each is a function in `CHANGES`, and a row of `STATE_CHANGES`: for a fault of requests, which names what it acts on by
its request, and for one of the cluster, which names it itself or lets the seed choose. The broker then answers by its
state.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.broker.group_views import find_coordinator_node
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.transaction.transaction import TransactionState

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node
    from mockbroker.state.group.group import Group
    from mockbroker.state.share.share_partition import SharePartition

    Change = Callable[[ClusterState, "StateTarget", random.Random, int], None]


class StateTarget(NamedTuple):
    """What a change acts on; None: chosen among what there is, or, of topics, partitions and members, all.

    topics: names. All others are as in `ClusterFault`.
    """

    group: str | None = None
    member: str | None = None
    transactional_id: str | None = None
    topics: Sequence[str] | None = None
    partition: int | None = None


def fence_member(cluster: ClusterState, target: StateTarget, rng: random.Random, now_ms: int) -> None:
    """Remove a member from its group as at the end of its session: its next request gets UNKNOWN_MEMBER_ID."""
    if target.group is None:
        nodes = [node for node in cluster.inter_broker.nodes.values() if node.is_loaded("group_log")]
        found = [(node, group) for node in nodes for group in node.groups.all_groups() if group.member_ids()]
        if not found:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "there is no group with members")
        node, group = rng.choice(found)
    else:
        node, group = _find_group(cluster, target.group)
    members = group.member_ids()
    if target.member is not None and target.member not in members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.group_id!r} has no member {target.member!r}")
    if not members:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group.group_id!r} has no members")
    with cluster.inter_broker.act_as(node.node_id):
        group.fence_member(target.member if target.member is not None else rng.choice(members), now_ms=now_ms)


def _find_group(cluster: ClusterState, group_id: str) -> tuple[Node, Group]:
    node = find_coordinator_node(cluster, group_id)
    group = node.groups.find_group(group_id) if node is not None else None
    if node is None or group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id!r}")
    return node, group


def expire_transaction(cluster: ClusterState, target: StateTarget, rng: random.Random, now_ms: int) -> None:
    """Abort an open transaction as after transaction.timeout.ms, which fences its producer."""
    node, name = _find_transaction(cluster, target.transactional_id, rng, is_open=True)
    with cluster.inter_broker.act_as(node.node_id):
        node.transactions.time_out(name, now_ms=now_ms)


def fence_producer(cluster: ClusterState, target: StateTarget, rng: random.Random, now_ms: int) -> None:
    """Give a transactional id its next epoch, as another producer does that starts with it."""
    node, name = _find_transaction(cluster, target.transactional_id, rng, is_open=False)
    with cluster.inter_broker.act_as(node.node_id):
        node.transactions.fence_producer(name, now_ms=now_ms)


def _find_transaction(
    cluster: ClusterState, name: str | None, rng: random.Random, *, is_open: bool
) -> tuple[Node, str]:
    """A transactional id with its coordinator; without a name one that is chosen, with an open transaction if need be.

    Raises: KafkaError if there is none.
    """
    found: list[tuple[Node, str]] = []
    if cluster.metadata.has_internal_topic(CoordinatorKind.TRANSACTION):
        for node in cluster.inter_broker.nodes.values():
            for each in node.transactions.all_transactions():
                if name in (None, each.transactional_id) and (not is_open or each.state is TransactionState.ONGOING):
                    found.append((node, each.transactional_id))
    if not found:
        what = "open transaction" if is_open else "transactional id"
        whose = "" if name is None else f" of {name!r}" if is_open else f" {name!r}"
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no {what}{whose}")
    return rng.choice(found)


def expire_locks(cluster: ClusterState, target: StateTarget, rng: random.Random, now_ms: int) -> None:
    """Release the records that members of a share group hold, as at the end of their acquisition locks."""
    released = 0
    for node in cluster.inter_broker.nodes.values():
        partitions = list(node.share_partitions) if node.is_loaded("share_partitions") else []
        with cluster.inter_broker.act_as(node.node_id):
            for partition in partitions:
                if _is_target(cluster, partition, target):
                    released += partition.expire_all_locks(now_ms=now_ms)
    if not released:
        whose = "any share group" if target.group is None else f"group {target.group!r}"
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"{whose} holds no such records")


def _is_target(cluster: ClusterState, partition: SharePartition, target: StateTarget) -> bool:
    group_id, topic_id, index = partition.key
    topic = cluster.metadata.topic_by_id(topic_id)
    return (
        target.group in (None, group_id)
        and target.partition in (None, index)
        and (target.topics is None or (topic is not None and topic.name in target.topics))
    )


#: The function of each of `STATE_CHANGES`.
CHANGES: Mapping[str, Change] = {
    "fence-member": fence_member,
    "fence-producer": fence_producer,
    "expire-transaction": expire_transaction,
    "expire-locks": expire_locks,
}


def change_state(name: str, cluster: ClusterState, target: StateTarget, rng: random.Random, *, now_ms: int) -> None:
    """Let a change of `STATE_CHANGES` happen. Raises: KafkaError where there is nothing that it could act on."""
    CHANGES[name](cluster, target, rng, now_ms)
