"""A cluster in a thread of its own: its start, its end, and calls into its event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from mockbroker.net.event_loops import new_event_loop
from mockbroker.server import Server
from mockbroker.server_options import Options

T = TypeVar("T")

#: The maximum duration of start and stop, seconds.
_TIMEOUT_S = 30.0


class ClusterThread:
    """Runs a `Server` in its own thread and event loop, between `start` and `stop`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._server: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Start the cluster; every listener accepts connections when this returns."""
        if self._thread is not None:
            raise RuntimeError("the cluster is already running")
        server = self._make_server()
        loop = new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="mockbroker", daemon=True)
        thread.start()
        self._server, self._loop, self._thread = server, loop, thread
        try:
            asyncio.run_coroutine_threadsafe(server.start(), loop).result(_TIMEOUT_S)
        except BaseException:
            self._end_thread()
            raise
        return self

    def _make_server(self) -> Server:
        return Server(self._options)

    def stop(self) -> None:
        """Close every connection and end the thread; does nothing if the cluster is not running.

        It returns within `stop_grace_ms` and a second, whatever clients do. Raises: TimeoutError if the cluster's
        thread is busy for longer than 30 s.
        """
        if self._thread is None or self._loop is None or self._server is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result(_TIMEOUT_S)
        finally:
            self._end_thread()

    def _begin_stop(self) -> float:
        """End what waits for the cluster, as `stop` follows. Returns: what is left of the grace, seconds."""
        return self._read(lambda server: server.begin_stop())

    def reset(self) -> None:
        """Replace the cluster by a new one with the same options and addresses, which takes less time than a start.

        Topics, records, groups, ACLs, quotas, faults and journal are those of a new cluster; connections are closed,
        and nodes that are down start again. The clock runs as the wall clock. A capture goes on in the same file.
        """
        self._read(lambda server: server.reset())

    def _end_thread(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_TIMEOUT_S)
        if thread.is_alive():
            raise TimeoutError(f"the thread of the cluster is busy for more than {_TIMEOUT_S:.0f} s; it is left behind")
        loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.get_running_loop().run_in_executor(None, self.start)

    async def __aexit__(self, *error: object) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.stop)

    @property
    def seed(self) -> int | None:
        """The seed of the cluster's randomness, None if it was started without one."""
        return self._options.seed

    @property
    def is_stopping(self) -> bool:
        """Whether it is being stopped, or is not running."""
        network_server = None if self._server is None else self._server.network_server
        return network_server is None or network_server.is_stopped

    def run(self, action: Callable[[Server], T]) -> T:
        """Run a function in the cluster's own thread, which does nothing else meanwhile. Returns: its result."""
        return self._await(self._run_in_loop(action))

    async def _run_in_loop(self, action: Callable[[Server], T]) -> T:
        server = self._running()
        result = action(server)
        if server.network_server is not None:
            server.network_server.run_due()
        return result

    async def run_async(self, action: Callable[[Server], T]) -> T:
        """As `run`, for a coroutine of another event loop, which goes on meanwhile."""
        self._running()
        assert self._loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._run_in_loop(action), self._loop))

    def _read(self, action: Callable[[Server], T]) -> T:
        """As `run`, for a function that changes nothing: it is no event that waits look at."""
        server = self._running()

        async def run_in_loop() -> T:
            return action(server)

        return self._await(run_in_loop())

    def _await(self, action: Coroutine[Any, Any, T], timeout_s: float = _TIMEOUT_S) -> T:
        """Run a coroutine in the cluster's event loop, and return its result.

        Raises: RuntimeError in the cluster's own thread, which would wait for itself.
        """
        assert self._loop is not None
        if threading.current_thread() is self._thread:
            action.close()
            raise RuntimeError("a call inside a function of Cluster.run would wait for itself")
        return asyncio.run_coroutine_threadsafe(action, self._loop).result(timeout_s)

    def _started(self) -> Server:
        if self._server is None:
            raise RuntimeError("the cluster has not been started: use it in a `with` block, or call start()")
        return self._server

    def _running(self) -> Server:
        if self._server is None or self._thread is None:
            raise RuntimeError("the cluster is not running: use it in a `with` block, or call start()")
        return self._server
