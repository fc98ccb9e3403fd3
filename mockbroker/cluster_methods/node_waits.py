"""What a test waits for in nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from mockbroker.broker.node_views import NodeState, NodeView, node_views

if TYPE_CHECKING:
    from mockbroker.server import Server


class NodeWait:
    """Waits for a node in a state. Raises: ValueError for a state that no node can have."""

    def __init__(self, node_id: int, state: NodeState) -> None:
        if state not in get_args(NodeState):
            raise ValueError(f"{state!r} is not a state of a node; the states are {', '.join(get_args(NodeState))}")
        self._node_id = node_id
        self._state = state

    def check(self, server: Server) -> NodeView | None:
        """The node, once it is in the state. Raises: ValueError if there is none."""
        view = self._find(server)
        return view if view.state == self._state else None

    def expected(self) -> str:
        """The node with its state."""
        return f"node {self._node_id} in state {self._state}"

    def seen(self, server: Server) -> str:
        """The state of the node."""
        return f"it is {self._find(server).state}"

    def _find(self, server: Server) -> NodeView:
        for view in node_views(server.core.state, server.nodes):
            if view.node_id == self._node_id:
                return view
        raise ValueError(f"there is no node {self._node_id}")
