"""`ControlServer`: the control over HTTP in a thread and an event loop of its own, so that the broker does not wait."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.errors import MissingExtra
from mockbroker.control.options import ControlOptions

try:
    import uvicorn
    from uvicorn.lifespan.off import LifespanOff

    from mockbroker.control.app import create_app
    from mockbroker.control.http_connection import limited_protocol
except ImportError as error:
    raise MissingExtra("the control over HTTP", "control") from error

from mockbroker.control.connection_table import ConnectionTable, HttpLimits
from mockbroker.control.control_socket import bind_control, control_url
from mockbroker.control.events.event_hub import EventHub
from mockbroker.log.subjects import CONTROL
from mockbroker.net.event_loops import new_event_loop

if TYPE_CHECKING:
    from mockbroker.cluster_methods.methods import SharedMethods
    from mockbroker.control.operations import ControlApi

#: How long the thread may take beyond the time of requests in progress, seconds.
_END_TIMEOUT_S = 0.4
#: How long requests may take to end that were cancelled, seconds.
_CANCEL_TIMEOUT_S = 0.1
_START_TIMEOUT_S = 30.0
_THREAD = "mockbroker-control"
#: What uvicorn logs of each request that offers another protocol, as those of Java's HttpClient do; it is answered.
_UPGRADE_MESSAGES = ("Unsupported upgrade request", "No supported WebSocket library")


class _HttpServer(uvicorn.Server):
    """uvicorn without signals, without a clock that ticks, and with an end that does not wait for ticks."""

    async def serve_until(self, stop: asyncio.Future[float], sock: socket.socket, on_start: Callable[[], None]) -> None:
        """Serve at a socket until `stop` has the time, in seconds, that requests in progress may take from then on."""
        self.config.load()
        self.lifespan = LifespanOff(self.config)
        await self.startup(sockets=[sock])
        on_start()
        grace_s = await stop
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        tasks = set(self.server_state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_CANCEL_TIMEOUT_S)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # Its client does not read.


class ControlServer:
    """Serves the control of a cluster, or of a proxy, between `start` and `stop`.

    api: what is served. shut_down: called by the operation that ends the process, in the thread of the control; None to
    refuse it. sock: that listens already, None to bind one. limits: of connections and streams, and of the time that
    requests take to arrive.
    """

    def __init__(
        self,
        cluster: SharedMethods,
        api: ControlApi,
        options: ControlOptions,
        shut_down: Callable[[], None] | None = None,
        *,
        sock: socket.socket | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._options = options
        self._shut_down = shut_down
        self._limits = limits or HttpLimits()
        self._socket = sock
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Future[float] | None = None
        self._hub: EventHub | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """The base of all paths, "http://127.0.0.1:9090"."""
        return self._url

    @property
    def hub(self) -> EventHub:
        """The readers of events; `start` must have been called."""
        assert self._hub is not None
        return self._hub

    def start(self) -> None:
        """Listen, and serve in a new thread. Raises: OSError if the address is in use or unknown."""
        if self._socket is None:
            self._socket = bind_control(self._options)
        self._url = control_url(self._socket)
        self._thread = threading.Thread(target=self._run, name=_THREAD, daemon=True)
        self._thread.start()
        is_started = self._started.wait(_START_TIMEOUT_S)
        if self._failure is not None or not is_started:
            self._socket.close()
            raise RuntimeError(f"the control at {self._url} did not start") from self._failure

    def stop(self, grace_s: float) -> None:
        """Close every stream and connection, and end the thread; does nothing if it is not running.

        grace_s: how long requests in progress may take; those that wait for the cluster end at once.
        """
        thread, loop, stop, hub = self._thread, self._loop, self._stop, self._hub
        if thread is None or loop is None or stop is None or hub is None:
            return

        def end() -> None:
            hub.stop()
            stop.set_result(grace_s)

        self._thread = None
        loop.call_soon_threadsafe(end)
        thread.join(grace_s + _END_TIMEOUT_S)
        if thread.is_alive():
            CONTROL.warning("the control at %(url)s does not end: a request is in progress", url=self._url)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
            self._started.set()
            raise

    async def _serve(self) -> None:
        assert self._socket is not None
        self._loop, self._hub = asyncio.get_running_loop(), EventHub(self._cluster, limits=self._limits.streams)
        self._stop = self._loop.create_future()
        context = self._api.context(self._cluster, self._hub, self._api, self._shut_down)
        config = uvicorn.Config(
            create_app(context, self._options),
            http=limited_protocol(ConnectionTable(self._limits)),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=self._limits.keep_alive_s,
        )
        logging.getLogger("uvicorn.error").addFilter(_take_record)
        await _HttpServer(config).serve_until(self._stop, self._socket, self._started.set)


def _take_record(record: logging.LogRecord) -> bool:
    """Log a warning of this server as one of the control. Other servers in the process log their messages themselves.

    Returns: whether the record is of another server.
    """
    if record.threadName != _THREAD:
        return True
    if record.levelno >= logging.WARNING and not record.getMessage().startswith(_UPGRADE_MESSAGES):
        CONTROL.warning("%(reason)s", reason=record.getMessage())
    return False
