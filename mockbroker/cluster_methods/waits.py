"""Methods of `Cluster` that wait for a state instead of sleeping; `Cluster.aio` has the same ones to await."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.cluster_methods.request_waits import AsyncRequestWaits, MakeWait, RequestWaits
from mockbroker.cluster_methods.waiting import WAIT_TIMEOUT_S

if TYPE_CHECKING:
    from mockbroker.broker.group_views import GroupView
    from mockbroker.broker.node_views import NodeState, NodeView


class WaitMethods(RequestWaits):
    """Waits with a limit in seconds of the wall clock, also while the cluster's clock is frozen.

    Each returns at once if the state is there already. All raise WaitTimeout, with what was seen instead; RuntimeError
    if the cluster is not running, or is stopped meanwhile; and ValueError for what cannot come.
    """

    def wait_for_group(
        self,
        group_id: str,
        *,
        state: str | None = "Stable",
        members: int | None = None,
        timeout_s: float = WAIT_TIMEOUT_S,
    ) -> GroupView:
        """Wait for a group in a state, with a number of members. Returns: the group.

        state: "Empty", "Stable", ... as Kafka names the states of groups of its type; "Dead": no such group; None: any.
        Raises: ValueError for a state that groups of its type do not have, or a contradiction with `members`.
        """
        return self._wait(_group_wait(group_id, state, members), timeout_s)

    def wait_for_share_members(
        self, group_id: str, members: int, *, is_active: bool = True, timeout_s: float = WAIT_TIMEOUT_S
    ) -> GroupView:
        """Wait until a share group has this many members, all with the current assignment. Returns: the group.

        is_active: and until every partition of their topics is active at its leader, as after the first fetch: then
        records that are produced from now on are delivered, though the group starts at the end of the log.
        Raises: ValueError for a group of another type, and if members subscribe to a deleted topic.
        """
        return self._wait(_share_wait(group_id, members, is_active=is_active), timeout_s)

    def wait_for_offset(
        self, group_id: str, topic: str, partition: int, offset: int, *, timeout_s: float = WAIT_TIMEOUT_S
    ) -> int:
        """Wait until a group has committed this offset or a later one. Returns: the offset.

        Of a share group it is the start offset of the share partition: all records before it are done.
        Raises: KafkaError (UNKNOWN_TOPIC_OR_PARTITION) if there is no such partition, or the topic is deleted.
        """
        return self._wait(_offset_wait(group_id, topic, partition, offset), timeout_s)

    def wait_for_node(
        self, node_id: int, *, state: NodeState = "running", timeout_s: float = WAIT_TIMEOUT_S
    ) -> NodeView:
        """Wait until a node is "running", "paused" or "down". Returns: the node. Raises: ValueError for none."""
        return self._wait(_node_wait(node_id, state), timeout_s)


class AsyncWaits(AsyncRequestWaits):
    """The waits of a cluster as coroutines for asyncio: `await cluster.aio.wait_for_group("g")`.

    They do not block the event loop, so that clients in it go on. Arguments, results and errors are those of the
    methods of `Cluster` with the same names.
    """

    async def wait_for_group(
        self,
        group_id: str,
        *,
        state: str | None = "Stable",
        members: int | None = None,
        timeout_s: float = WAIT_TIMEOUT_S,
    ) -> GroupView:
        """As `Cluster.wait_for_group`."""
        return await self._wait(_group_wait(group_id, state, members), timeout_s)

    async def wait_for_share_members(
        self, group_id: str, members: int, *, is_active: bool = True, timeout_s: float = WAIT_TIMEOUT_S
    ) -> GroupView:
        """As `Cluster.wait_for_share_members`."""
        return await self._wait(_share_wait(group_id, members, is_active=is_active), timeout_s)

    async def wait_for_offset(
        self, group_id: str, topic: str, partition: int, offset: int, *, timeout_s: float = WAIT_TIMEOUT_S
    ) -> int:
        """As `Cluster.wait_for_offset`."""
        return await self._wait(_offset_wait(group_id, topic, partition, offset), timeout_s)

    async def wait_for_node(
        self, node_id: int, *, state: NodeState = "running", timeout_s: float = WAIT_TIMEOUT_S
    ) -> NodeView:
        """As `Cluster.wait_for_node`."""
        return await self._wait(_node_wait(node_id, state), timeout_s)


# The modules of waits are imported on first use: a cluster starts without them.


def _group_wait(group_id: str, state: str | None, members: int | None) -> MakeWait[GroupView]:
    from mockbroker.cluster_methods.group_waits import GroupWait

    return lambda _: GroupWait(group_id, state=state, members=members)


def _share_wait(group_id: str, members: int, *, is_active: bool) -> MakeWait[GroupView]:
    from mockbroker.cluster_methods.group_waits import ShareMembersWait

    return lambda _: ShareMembersWait(group_id, members, is_active=is_active)


def _offset_wait(group_id: str, topic: str, partition: int, offset: int) -> MakeWait[int]:
    from mockbroker.cluster_methods.group_waits import OffsetWait

    return lambda _: OffsetWait(group_id, topic, partition, offset)


def _node_wait(node_id: int, state: NodeState) -> MakeWait[NodeView]:
    from mockbroker.cluster_methods.node_waits import NodeWait

    return lambda _: NodeWait(node_id, state)
