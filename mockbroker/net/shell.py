"""The shell around the core: listens, feeds it frames and time, carries its output, arms one timer."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import TYPE_CHECKING, NamedTuple

from mockbroker.core import Close, Core, Send
from mockbroker.net.connection import ClientConnection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mockbroker.clock import Clock
    from mockbroker.net.listeners import Listener
    from mockbroker.net.tap import Tap
    from mockbroker.security.principal_rules import PrincipalRules

log = logging.getLogger(__name__)

#: Frames that may wait behind a parked request before the connection is left unread.
_BACKLOG_MAX = 1


class _Door(NamedTuple):
    """Where a node listens, with the port that the system chose, to come back to after a restart."""

    listener: Listener
    port: int


class Shell:
    """One event loop's worth of cluster: every method runs in that loop's thread.

    frame_bytes_max: `socket.request.max.bytes`. tap: sees every byte that goes by, for `--capture`; or None.
    """

    def __init__(self, core: Core, clock: Clock, *, frame_bytes_max: int, tap: Tap | None = None) -> None:
        self.core = core
        self.clock = clock
        self.frame_bytes_max = frame_bytes_max
        self.tap = tap
        self._connections: dict[int, ClientConnection] = {}
        self._servers: dict[int, list[asyncio.Server]] = {}
        self._doors: dict[int, list[_Door]] = {}
        self._tls: Mapping[str, ssl.SSLContext] = {}
        self._rules: dict[str, PrincipalRules] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None

    async def start(self, listeners: list[Listener], tls: Mapping[str, ssl.SSLContext]) -> None:
        """Bind every listener of every node, tell the nodes their addresses, then accept; tls: by listener.

        Raises: OSError where an address is taken; nothing listens then.
        """
        bound: list[tuple[int, Listener, socket.socket]] = []
        try:
            for index, node in enumerate(self.core.state.nodes.values()):
                for listener in listeners:
                    port = listener.port + index if listener.port else 0
                    bound.append((node.node_id, listener, _bind(listener.host, port)))
        except OSError:
            for _, _, sock in bound:
                sock.close()
            raise
        for node_id, listener, sock in bound:
            port = sock.getsockname()[1]
            shown_port = listener.advertised_port
            shift = port - listener.port if listener.port else 0
            self.core.state.nodes[node_id].listen(
                listener.name,
                listener.advertised_host or _shown(listener.host),
                shown_port + shift if shown_port else port,
            )
            self._doors.setdefault(node_id, []).append(_Door(listener, port))
        self._tls = tls
        for node_id, listener, sock in bound:
            await self._serve(node_id, listener, sock)

    async def _serve(self, node_id: int, listener: Listener, sock: socket.socket) -> None:
        encrypted = listener.is_encrypted
        server = await asyncio.get_running_loop().create_server(
            lambda: ClientConnection(self, node_id, listener.name, encrypted=encrypted),
            sock=sock,
            ssl=self._tls[listener.name] if encrypted else None,
            backlog=512,
        )
        self._servers.setdefault(node_id, []).append(server)

    def stop_node(self, node_id: int) -> None:
        """End a node cleanly: its leaderships move, its answers leave, its listeners and connections close."""
        self.core.stop_node(node_id, self.clock.now_ms())
        self._close_doors(node_id)

    def kill_node(self, node_id: int) -> None:
        """End a node at once; what it had not sent yet is lost."""
        self.core.kill_node(node_id, self.clock.now_ms())
        self._close_doors(node_id)

    def _close_doors(self, node_id: int) -> None:
        for server in self._servers.pop(node_id, []):
            server.close()
        self.turn()

    async def start_node(self, node_id: int) -> None:
        """Start a node that was stopped or killed, at the addresses it had.

        Raises: OSError where an address has been taken meanwhile; KafkaError when the node is no such one.
        """
        self.core.start_node(node_id, self.clock.now_ms())
        bound: list[tuple[_Door, socket.socket]] = []
        try:
            for door in self._doors[node_id]:
                bound.append((door, _bind(door.listener.host, door.port)))
        except OSError:
            for _, sock in bound:
                sock.close()
            self.kill_node(node_id)
            raise
        for door, sock in bound:
            await self._serve(node_id, door.listener, sock)
        self.turn()

    async def stop(self) -> None:
        """Accept nothing more, end every connection, and let go of the addresses."""
        if self._timer is not None:
            self._timer.cancel()
        servers = [server for node_servers in self._servers.values() for server in node_servers]
        for server in servers:
            server.close()
        for connection in list(self._connections.values()):
            connection.close()
        for server in servers:
            await server.wait_closed()
        while self._connections:
            await asyncio.sleep(0)
        if self.tap is not None:
            self.tap.close()

    def principal_of(self, certificate: bytes, listener: str) -> str | None:
        """Who a client is by its certificate at a listener; None when no rule is for it."""
        rules = self._rules.get(listener)
        if rules is None:
            from mockbroker.security.principal_rules import rules_of

            rules = self._rules[listener] = rules_of(self.core.state.config, listener)
        from mockbroker.security.distinguished_name import subject_of

        return rules.principal(subject_of(certificate))

    def connected(
        self, connection: ClientConnection, node_id: int, host: str, port: int, *, listener: str, principal: str
    ) -> int:
        """A client has connected; answers the number by which the core knows it."""
        number = self.core.connect(node_id, host, port, listener=listener, principal=principal)
        self._connections[number] = connection
        self._carry()  # A node that ended while the connection came up has something to say at once.
        return number

    def disconnected(self, connection: ClientConnection) -> None:
        """A connection is gone."""
        self._connections.pop(connection.id, None)
        self.core.disconnect(connection.id, self.clock.now_ms())
        self.turn()

    def submit(self, connection: ClientConnection, frames: Iterable[bytes], arrived_ns: int) -> None:
        """Give the core what came in, and carry away what it says.

        A mistake of ours in one request ends that connection, with its trace in the log, and nobody else's.
        """
        try:
            for frame in frames:
                self.core.submit(connection.id, frame, self.clock.now_ms(), arrived_ns=arrived_ns)
        except Exception:
            log.exception("a request of connection %d failed inside the broker", connection.id)
            connection.close()
        self.turn()
        self.settle(connection)

    def settle(self, connection: ClientConnection) -> None:
        """Read on from a connection that has nothing waiting, or stop reading."""
        connection.set_reading(self.core.backlog(connection.id) <= _BACKLOG_MAX)

    def turn(self) -> None:
        """Bring the core up to the clock, send what is due, and arm the timer for what comes next.

        Answers leave before the clock moves: what a handler sent to another node happens after its answer.
        """
        self._carry()
        now_ms = self.clock.now_ms()
        due_ms = self.core.next_deadline_ms()
        if due_ms is not None and due_ms <= now_ms:
            self.core.advance(now_ms)
            self._carry()
            due_ms = self.core.next_deadline_ms()
        self._arm(due_ms, now_ms)

    def _carry(self) -> None:
        for output in self.core.take_output():
            connection = self._connections.get(output.connection_id)
            if connection is None:
                continue
            match output:
                case Send():
                    connection.send(output)
                    self.settle(connection)
                case Close():
                    connection.close(is_abrupt=output.is_abrupt)
        if self.tap is not None:
            self.tap.flush()

    def _arm(self, due_ms: int | None, now_ms: int) -> None:
        if due_ms == self._timer_due_ms and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_due_ms = due_ms
        if due_ms is not None and not self.clock.frozen:
            # One millisecond late rather than early: the deadline must have come when the timer fires.
            delay_s = (due_ms - now_ms) / 1000 + 0.001
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_due_ms = None
        self.turn()


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return sock


def _shown(host: str) -> str:
    """A wildcard address is none that a client can connect to."""
    return "127.0.0.1" if host == "0.0.0.0" else "::1" if host == "::" else host  # noqa: S104
