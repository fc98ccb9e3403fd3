"""Accepts connections at one listening socket.

`loop.create_server` is not used: when it is closed while connections are being accepted, asyncio drops their sockets
without closing them, so that their clients wait for nothing (seen with CPython 3.11 and 3.13).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from mockbroker.net.socket_transport import SocketProtocol, SocketTransport

log = logging.getLogger(__name__)

#: How many connections the system accepts before the event loop does.
_BACKLOG = 512
#: How many connections are accepted before other events are handled.
_ACCEPTED_MAX = 64
#: How long accepting pauses when the process has no free file descriptor, seconds.
_PAUSE_S = 0.1


class TlsOrPlainProtocol(SocketProtocol, asyncio.BufferedProtocol):
    """The protocol of a connection: of a plain socket, or of the event loop's transport for TLS."""


class Handshakes:
    """The connections that were accepted and wait for the end of their TLS handshake."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    async def end(self) -> None:
        """Give up the handshakes."""
        for task in self.tasks:
            task.cancel()
        while self.tasks:
            await asyncio.wait(self.tasks)


class Acceptor:
    """Accepts connections until it is closed; a plain one has its protocol at once, one with TLS after its handshake.

    make_protocol: is called for each connection. tls: the context of an encrypted listener. handshakes: holds a task
    for each handshake.
    """

    def __init__(
        self,
        sock: socket.socket,
        make_protocol: Callable[[], TlsOrPlainProtocol],
        *,
        tls: ssl.SSLContext | None,
        handshakes: Handshakes,
    ) -> None:
        self._socket = sock
        self._make_protocol = make_protocol
        self._tls = tls
        self._tasks = handshakes.tasks
        self._loop = asyncio.get_running_loop()
        self._is_closed = self._is_paused = False
        self._failure_count = 0
        self._address = "{}:{}".format(*sock.getsockname()[:2])
        sock.setblocking(False)
        sock.listen(_BACKLOG)
        self._loop.add_reader(sock, self._accept)

    def close(self) -> None:
        """Stop accepting and release the address; the system resets connections that were not accepted."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def set_paused(self, *, is_paused: bool) -> None:
        """Accept nothing: the system completes connections up to its limit. Or go on."""
        if self._is_closed or is_paused == self._is_paused:
            return
        self._is_paused = is_paused
        self._loop.remove_reader(self._socket)
        self._resume()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_MAX):
            try:
                client, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._count_failure(error)
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_PAUSE_S, self._resume)
                return
            if self._failure_count:
                log.warning("%s accepts connections again, after %d failures", self._address, self._failure_count)
                self._failure_count = 0
            client.setblocking(False)
            if self._tls is None:
                self._start(client, peer)
                continue
            self._tasks.add(task := self._loop.create_task(self._start_with_tls(client, self._tls)))
            task.add_done_callback(partial(self._finish, client))

    def _count_failure(self, error: OSError) -> None:
        """Log the first failure in a row, the tenth, the hundredth and so on."""
        self._failure_count += 1
        digits = str(self._failure_count)
        if digits.strip("0") == "1":
            text = f"{error.strerror}; trying again every {_PAUSE_S} s"
            log.warning("%s cannot accept a connection (failure %s): %s", self._address, digits, text)

    def _resume(self) -> None:
        if not self._is_closed and not self._is_paused:
            self._loop.add_reader(self._socket, self._accept)

    def _start(self, client: socket.socket, peer: Any) -> None:
        try:
            SocketTransport(client, peer, self._make_protocol())
        except OSError as error:  # The client is gone.
            log.debug("a connection ended before it was set up: %s", error)
            client.close()

    async def _start_with_tls(self, client: socket.socket, tls: ssl.SSLContext) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, client, ssl=tls)
        except OSError as error:
            # The client is gone, or its TLS handshake failed, which `LoggedHandshake` has logged with the reason.
            log.debug("a connection ended before it was set up: %s", error)
            client.close()

    def _finish(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            client.close()  # A task that is cancelled before it begins does not do it.
