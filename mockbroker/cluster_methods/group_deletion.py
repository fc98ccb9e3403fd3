"""The deletion of a group for callers outside a request, with the steps of DeleteGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kwire.error_codes import ErrorCode
from kwire.messages.delete_groups import DeleteGroupsResponse
from mockbroker.broker.group_views import find_coordinator_node
from mockbroker.engine.context import ConnectionInfo, Context
from mockbroker.engine.outcome import Outcome, Park, Reply
from mockbroker.handlers.groups.group_admin import delete_groups_of_coordinator
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.broker.node import Node
    from mockbroker.server import Server

#: Of DeleteGroups, with which the context of its steps is made.
_VERSION = 2


class GroupDeletion:
    """Deletes one group, in steps: other nodes may have to delete the state of its share partitions first."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._outcome: Outcome | None = None

    def step(self, server: Server, now_ms: int) -> bool:
        """Go on as far as possible; to be repeated after events. Returns: whether the group is deleted.

        Raises: KafkaError, as GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP.
        """
        node = find_coordinator_node(server.core.state, self._group_id)
        if node is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {self._group_id!r}")
        context = _create_context(server, node, now_ms)
        if self._outcome is None:
            self._outcome = delete_groups_of_coordinator([self._group_id], context)
        elif isinstance(self._outcome, Park):
            self._outcome = self._outcome.resume(context)
        if not isinstance(self._outcome, Reply):
            return False
        code = cast(DeleteGroupsResponse, self._outcome.response).results[0].error_code
        if code:
            raise KafkaError(ErrorCode(code), f"group {self._group_id!r} cannot be deleted")
        return True


def _create_context(server: Server, node: Node, now_ms: int) -> Context:
    return Context(now_ms, _VERSION, None, ConnectionInfo(0, node.node_id, "127.0.0.1", 0), node, server.core.state)
