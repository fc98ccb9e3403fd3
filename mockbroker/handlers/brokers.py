"""Brokers as responses name them."""

from __future__ import annotations

from mockbroker.context import Context
from mockbroker.node import Node
from mockbroker.state.metadata import Partition

#: "Not asked for" in every field of authorized operations.
NO_OPERATIONS = -2147483648


def brokers(ctx: Context) -> list[Node]:
    """The brokers of the cluster in order of their ids."""
    return [node for _, node in sorted(ctx.cluster.nodes.items())]


def address(node: Node, ctx: Context) -> tuple[str, int]:
    """Host and port at which this client reaches the node: by the listener that it came in by."""
    return node.endpoint(ctx.connection.listener)


def leader_of(topic_id: bytes, partition_index: int, ctx: Context) -> Partition | None:
    """The partition with its current leader, for the hint beside NOT_LEADER_OR_FOLLOWER."""
    return ctx.cluster.metadata.leader(topic_id, partition_index)
