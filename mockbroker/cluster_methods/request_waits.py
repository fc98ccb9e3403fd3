"""Methods of `Cluster` and `Proxy` that wait for requests, and for whatever a function finds."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from mockbroker.cluster_methods.cluster_thread import ClusterThread
from mockbroker.cluster_methods.history import Api, RequestClass, RequestT, ResponseT, StructT
from mockbroker.cluster_methods.waiting import WAIT_TIMEOUT_S, Wait, WaitTimeout, wait_in_loop

if TYPE_CHECKING:
    from mockbroker.faults.control import FaultHandle
    from mockbroker.journal.request_filters import RequestFilters
    from mockbroker.journal.request_history import RequestHistory
    from mockbroker.server import Server

T = TypeVar("T")
MakeWait = Callable[["Server"], Wait[T]]

#: How often `wait_until` calls its function without an event of the cluster, seconds: it may depend on a client.
POLL_S = 0.05
#: The least time between two calls, seconds: a function that calls into the cluster is an event of it.
PAUSE_S = 0.001


class RequestWaits(ClusterThread):
    """Waits with a limit in seconds of the wall clock; they raise as those of `WaitMethods`."""

    @overload
    def wait_for_request(
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
    def wait_for_request(
        self,
        api: str | type[StructT],
        *,
        count: int = ...,
        answered: bool = ...,
        error: str | int | None = ...,
        timeout_s: float = ...,
        **filters: Unpack[RequestFilters],
    ) -> RequestHistory[Any, Any]: ...
    def wait_for_request(
        self,
        api: Any,
        *,
        count: int = 1,
        answered: bool = False,
        error: str | int | None = None,
        timeout_s: float = WAIT_TIMEOUT_S,
        **filters: Unpack[RequestFilters],
    ) -> RequestHistory[Any, Any]:
        """Wait until this many requests match, those before the call included. Returns: all of them.

        api, filters: as for `requests`; `after=` counts later ones only. answered: wait for their responses. error: for
        responses with this error, "NOT_LEADER_OR_FOLLOWER", or "NONE" for those without any.
        Raises: as `requests`.
        """
        return self._wait(request_wait(api, filters, count, error, answered=answered), timeout_s)

    def wait_for_held(self, fault: FaultHandle, count: int = 1, *, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """Wait until a fault holds this many requests (docs/faults.md). Returns: how many.

        Raises: WaitTimeout; ValueError for a fault that acts on no requests.
        """
        return self._wait(held_wait(fault, count), timeout_s)

    def wait_until(self, predicate: Callable[[], T], *, timeout_s: float = WAIT_TIMEOUT_S) -> T:
        """Wait until a function returns something true. Returns: that value.

        The function is called in this thread, after each event of the cluster and at least every 50 ms: it may look at
        the cluster and at clients. What it raises ends the wait.
        """
        self._refuse_own_thread()
        changed = threading.Event()
        watchers = self._running().require_started().watchers
        self._read(lambda _: watchers.add(changed.set))
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                changed.clear()
                value = predicate()
                if value:
                    return value
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise WaitTimeout(f"{describe_predicate(predicate, value, timeout_s)}{event_loop_hint()}")
                self._running()
                if changed.wait(min(left_s, POLL_S)):
                    time.sleep(PAUSE_S)
        finally:
            watchers.discard(changed.set)

    def _wait(self, make_wait: MakeWait[T], timeout_s: float) -> T:
        self._refuse_own_thread()
        server = self._running()
        assert self._loop is not None
        waiting = asyncio.run_coroutine_threadsafe(wait_in_loop(server, make_wait, timeout_s), self._loop)
        try:
            return waiting.result()
        except WaitTimeout as error:
            raise WaitTimeout(f"{error}{event_loop_hint()}", error.seen) from None
        finally:
            waiting.cancel()

    def _refuse_own_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("a wait inside a function of Cluster.run would stop the cluster for ever")


class AsyncRequestWaits:
    """The same waits as coroutines for asyncio, in `aio`: arguments, results and errors are the same."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._cluster = cluster

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

    async def wait_for_held(self, fault: FaultHandle, count: int = 1, *, timeout_s: float = WAIT_TIMEOUT_S) -> int:
        """As `Cluster.wait_for_held`."""
        return await self._wait(held_wait(fault, count), timeout_s)

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


def held_wait(fault: FaultHandle, count: int) -> MakeWait[int]:
    """The wait for held requests; its module is imported on first use."""
    from mockbroker.cluster_methods.held_wait import HeldWait

    return lambda server: HeldWait(fault, count)


def request_wait(
    api: Api, filters: RequestFilters, count: int, error: str | int | None, *, answered: bool
) -> MakeWait[RequestHistory[Any, Any]]:
    """The wait for requests; its module is imported on first use."""
    from mockbroker.cluster_methods.request_wait import RequestWait

    return lambda server: RequestWait(server, api, filters, count=count, answered=answered, error=error)


def describe_predicate(predicate: object, value: object, timeout_s: float) -> str:
    """The message of a wait for a function that did not return anything true."""
    name = getattr(predicate, "__qualname__", repr(predicate))
    return f"waited {timeout_s:g} s for {name}; the last value was {value!r}"


def event_loop_hint() -> str:
    """A hint for a wait that blocks an event loop, whose clients stand still meanwhile."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return ""
    return " (this thread runs an event loop, which was blocked: use `await cluster.aio...` there)"
