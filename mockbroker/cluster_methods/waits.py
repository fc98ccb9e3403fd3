"""Methods of `Cluster` that wait for a state instead of sleeping; `Cluster.aio` has the same ones to await."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from mockbroker.cluster_methods.history import RequestClass, RequestT, ResponseT, StructT
from mockbroker.cluster_methods.request_waits import (
    PAUSE_S,
    POLL_S,
    MakeWait,
    RequestWaits,
    T,
    describe_predicate,
    request_wait,
)
from mockbroker.cluster_methods.waiting import WAIT_TIMEOUT_S, WaitTimeout, wait_in_loop

if TYPE_CHECKING:
    from mockbroker.broker.group_views import GroupView
    from mockbroker.journal.request_filters import RequestFilters
    from mockbroker.journal.request_history import RequestHistory


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


class AsyncWaits:
    """The waits of a cluster as coroutines for asyncio: `await cluster.aio.wait_for_group("g")`.

    They do not block the event loop, so that clients in it go on. Arguments, results and errors are those of the
    methods of `Cluster` with the same names.
    """

    def __init__(self, cluster: WaitMethods) -> None:
        self._cluster = cluster

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

    @overload
    async def wait_for_request(
        self,
        api: RequestClass[RequestT, ResponseT],
        *,
        count: int = ...,
        answered: bool = ...,
        error: str | int | None = ...,
        timeout_s: float = ...,
        **filters: Unpack[RequestFilters],
    ) -> RequestHistory[RequestT, ResponseT | None]: ...
    @overload
    async def wait_for_request(
        self,
        api: str | type[StructT],
        *,
        count: int = ...,
        answered: bool = ...,
        error: str | int | None = ...,
        timeout_s: float = ...,
        **filters: Unpack[RequestFilters],
    ) -> RequestHistory[Any, Any]: ...
    async def wait_for_request(
        self,
        api: Any,
        *,
        count: int = 1,
        answered: bool = False,
        error: str | int | None = None,
        timeout_s: float = WAIT_TIMEOUT_S,
        **filters: Unpack[RequestFilters],
    ) -> RequestHistory[Any, Any]:
        """As `Cluster.wait_for_request`."""
        return await self._wait(request_wait(api, filters, count, error, answered=answered), timeout_s)

    async def wait_until(self, predicate: Callable[[], T | Awaitable[T]], *, timeout_s: float = WAIT_TIMEOUT_S) -> T:
        """As `Cluster.wait_until`; the function may be a coroutine function."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with suppress(RuntimeError):  # The loop has ended meanwhile.
                loop.call_soon_threadsafe(changed.set)

        watchers = self._cluster._running().require_started().watchers
        self._cluster._read(lambda _: watchers.add(notify))
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                changed.clear()
                outcome = predicate()
                value = cast("T", await outcome if isawaitable(outcome) else outcome)
                if value:
                    return value
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise WaitTimeout(describe_predicate(predicate, value, timeout_s))
                self._cluster._running()
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), min(left_s, POLL_S))
                    await asyncio.sleep(PAUSE_S)
        finally:
            watchers.discard(notify)

    async def _wait(self, make_wait: MakeWait[T], timeout_s: float) -> T:
        server = self._cluster._running()
        assert self._cluster._loop is not None
        waiting = asyncio.run_coroutine_threadsafe(wait_in_loop(server, make_wait, timeout_s), self._cluster._loop)
        return await asyncio.wrap_future(waiting)


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
