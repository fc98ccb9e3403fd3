"""Brokers and their addresses in responses."""

from __future__ import annotations

from mockbroker.broker.node import Node
from mockbroker.engine.context import Context

#: The value of authorized operations that were not requested.
NO_OPERATIONS = -2147483648


def sorted_brokers(ctx: Context) -> list[Node]:
    """The brokers of the cluster in order of their ids."""
    return [node for _, node in sorted(ctx.cluster.nodes.items())]


def broker_address(node: Node, ctx: Context) -> tuple[str, int]:
    """Host and port at which this client reaches the node: on the listener of its connection."""
    return node.endpoint(ctx.connection.listener)
