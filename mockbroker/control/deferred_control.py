"""`DeferredControl`: listens at once, and loads the HTTP server with the first connection.

Its modules take as much CPU time as all others of a broker, and a test that only may need the control pays for none.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from mockbroker.control.control_socket import bind_control, control_url
from mockbroker.log.subjects import CONTROL

if TYPE_CHECKING:
    from mockbroker.cluster_methods.methods import SharedMethods
    from mockbroker.control.control_server import ControlServer
    from mockbroker.control.operations import ControlApi
    from mockbroker.control.options import ControlOptions

#: How many connections the system accepts before the HTTP server does.
_BACKLOG = 512
#: How long the end of the waiting thread may take, seconds; while it loads the server, the server ends by itself.
_JOIN_TIMEOUT_S = 0.4


class DeferredControl:
    """Serves the control of a cluster, or of a proxy, between `start` and `stop`.

    load_api: imports what is served. shut_down: as of `ControlServer`.
    """

    def __init__(
        self,
        cluster: SharedMethods,
        load_api: Callable[[], ControlApi],
        options: ControlOptions,
        shut_down: Callable[[], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._load_api = load_api
        self._options = options
        self._shut_down = shut_down
        self._url = ""
        self._thread: threading.Thread | None = None
        self._wake: socket.socket | None = None
        self._server: ControlServer | None = None
        self._is_stopped = False

    @property
    def url(self) -> str:
        """The base of all paths, "http://127.0.0.1:9090"."""
        return self._url

    @property
    def server(self) -> ControlServer | None:
        """The HTTP server, None before the first connection."""
        return self._server

    def start(self) -> None:
        """Listen, and wait for the first connection in a new thread. Raises: OSError if the address is in use."""
        sock = bind_control(self._options)
        try:
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            where = f"{self._options.host}:{self._options.port}"
            raise OSError(error.errno, f"control: cannot listen on {where}: {error.strerror}") from error
        self._url = control_url(sock)
        self._wake, woken = socket.socketpair()
        self._thread = threading.Thread(
            target=self._serve_first, args=(sock, woken), name="mockbroker-control-start", daemon=True
        )
        self._thread.start()
        CONTROL.info("control over HTTP at %(url)s", url=self._url)

    def stop(self, grace_s: float) -> None:
        """Close every stream and connection, and the socket; does nothing if it is not running.

        grace_s: how long requests in progress may take, as of `ControlServer`.
        """
        thread, wake = self._thread, self._wake
        if thread is None or wake is None:
            return
        self._is_stopped = True
        wake.close()
        thread.join(grace_s + _JOIN_TIMEOUT_S)
        self._thread = self._wake = None
        if self._server is not None:
            self._server.stop(grace_s)
            self._server = None

    def _serve_first(self, sock: socket.socket, woken: socket.socket) -> None:
        """Wait for a connection, or for the end; then load the server, which accepts it."""
        with woken, selectors.DefaultSelector() as selector:
            selector.register(sock, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in selector.select()}
        if woken in ready:
            sock.close()
            return
        try:
            from mockbroker.control.control_server import ControlServer

            server = ControlServer(self._cluster, self._load_api(), self._options, self._shut_down, sock=sock)
            server.start()
        except Exception as error:
            CONTROL.error("the control at %(url)s cannot be served: %(cause)s", error, url=self._url, cause=repr(error))
            sock.close()
            return
        if self._is_stopped:
            server.stop(0)
        else:
            self._server = server
