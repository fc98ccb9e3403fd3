"""Accepts connections at one listening socket.

`loop.create_server` is not used: when it is closed while connections are being accepted, asyncio drops their sockets
without closing them, so that their clients wait for nothing (seen with CPython 3.11 and 3.13).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

from mockbroker.log.subjects import CONNECTIONS
from mockbroker.net.socket_transport import SocketProtocol, SocketTransport

#: How many connections the system accepts before the event loop does.
_BACKLOG = 512
#: How many connections are accepted before other events are handled.
_ACCEPTED_MAX = 64
#: How long accepting pauses when the process has no free file descriptor, seconds.
_PAUSE_S = 0.1
#: How long a handshake may take to end that was given up, seconds; it is a matter of a few turns of the event loop.
_END_TIMEOUT_S = 0.2
#: In so many turns of the event loop a handshake has begun that was accepted before.
_FIRST_TURNS = 4

#: Host and port of the client whose TLS handshake is in progress, in the context of the task that waits for it and of
#: what the event loop calls for its connection.
client_address: ContextVar[tuple[str, int]] = ContextVar("client_address", default=("?", 0))


class TlsOrPlainProtocol(SocketProtocol, asyncio.BufferedProtocol):
    """The protocol of a connection: of a plain socket, or of the event loop's transport for TLS."""


class Handshakes:
    """The connections that were accepted and wait for the end of their TLS handshake."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    async def end(self) -> None:
        """Give up the handshakes; those that do not end in time have no connection of the cluster."""
        # asyncio leaves the socket of a handshake open that is cancelled before its protocol is called.
        for _ in range(_FIRST_TURNS if self.tasks else 0):
            await asyncio.sleep(0)
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=_END_TIMEOUT_S)


class Acceptor:
    """Accepts connections until it is closed; a plain one has its protocol at once, one with TLS after its handshake.

    make_protocol: is called for each connection. tls: returns the current context of an encrypted listener.
    handshakes: holds a task for each handshake.
    """

    def __init__(
        self,
        sock: socket.socket,
        make_protocol: Callable[[], TlsOrPlainProtocol],
        *,
        tls: Callable[[], ssl.SSLContext] | None,
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
                template = "%(address)s accepts connections again, after %(failures)d failures"
                CONNECTIONS.warning(template, address=self._address, failures=self._failure_count)
                self._failure_count = 0
            client.setblocking(False)
            if self._tls is None:
                self._start(client, peer)
                continue
            self._tasks.add(task := self._loop.create_task(self._start_with_tls(client, peer, self._tls())))
            task.add_done_callback(partial(self._finish, client))

    def _count_failure(self, error: OSError) -> None:
        """Log the first failure in a row, the tenth, the hundredth and so on."""
        self._failure_count += 1
        digits = str(self._failure_count)
        if digits.strip("0") == "1":
            text = f"{error.strerror}; trying again every {_PAUSE_S} s"
            template = "%(address)s cannot accept a connection (failure %(failures)d): %(reason)s"
            CONNECTIONS.warning(template, address=self._address, failures=self._failure_count, reason=text)

    def _resume(self) -> None:
        if not self._is_closed and not self._is_paused:
            self._loop.add_reader(self._socket, self._accept)

    def _start(self, client: socket.socket, peer: Any) -> None:
        try:
            SocketTransport(client, peer, self._make_protocol())
        except OSError as error:  # The client is gone.
            _log_early_end(peer, error)
            client.close()

    async def _start_with_tls(self, client: socket.socket, peer: Any, tls: ssl.SSLContext) -> None:
        client_address.set((str(peer[0]), int(peer[1])))
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, client, ssl=tls)
        except OSError as error:
            if not isinstance(error, ssl.SSLError):  # `LoggedHandshake` has logged those with their causes.
                _log_early_end(peer, error)
            client.close()

    def _finish(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            client.close()  # A task that is cancelled before it begins does not do it.


def _log_early_end(peer: Any, error: OSError) -> None:
    CONNECTIONS.debug(
        "the connection of %(client)s ended before it was set up: %(reason)s",
        client="{}:{}".format(*peer[:2]),
        reason=str(error),
    )
