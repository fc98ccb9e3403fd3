"""`NodeListeners`: the listening sockets of the nodes, at addresses that stay theirs."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mockbroker.config.broker_config import ConfigError
from mockbroker.log.subjects import SERVER
from mockbroker.net.acceptor import Acceptor, Handshakes, TlsOrPlainProtocol
from mockbroker.net.listeners import node_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mockbroker.net.listeners import Listener

    #: Makes the protocol of a connection, by its node and listener.
    MakeProtocol = Callable[[int, Listener], TlsOrPlainProtocol]
    #: Finds the context of an encrypted listener, by its node and name.
    FindContext = Callable[[int, str], ssl.SSLContext]


class BoundListener(NamedTuple):
    """A listener of a node, the node's index from 0 on, and the bound port, which the node reuses after a restart."""

    listener: Listener
    port: int
    node_index: int

    @property
    def advertised(self) -> tuple[str, int]:
        """The host and port that clients are given: by default those of the socket."""
        listener = self.listener
        port = node_port(listener.advertised_port, self.node_index) if listener.advertised_port else self.port
        return listener.advertised_host or connectable_host(listener.host), port


class NodeListeners:
    """The sockets at which nodes accept connections.

    listeners: of every node, but for that of the controller, which only the first node has. tls: returns the current
    context of a node's listener by its name. make_protocol: is called for each connection.
    """

    def __init__(self, listeners: Sequence[Listener], tls: FindContext, make_protocol: MakeProtocol) -> None:
        self._listeners = listeners
        self._tls = tls
        self._make_protocol = make_protocol
        self._acceptors: dict[int, list[Acceptor]] = {}
        self._bound: dict[int, list[BoundListener]] = {}
        # Of nodes that are closed: bound sockets that do not listen, so that no other program gets the ports meanwhile.
        self._reserved: dict[int, dict[BoundListener, socket.socket]] = {}
        self._handshakes = Handshakes()

    @property
    def node_ids(self) -> list[int]:
        """The nodes that have addresses."""
        return list(self._bound)

    def bound(self, node_id: int) -> list[BoundListener]:
        """The listeners of a node with their ports."""
        return list(self._bound[node_id])

    def ports(self, node_id: int) -> list[int]:
        """The ports of the sockets of a node, one for each listener."""
        return [entry.port for entry in self._bound[node_id]]

    def bind(self, indexes: Mapping[int, int]) -> dict[int, list[tuple[BoundListener, socket.socket]]]:
        """Bind every listener of these nodes; index 0 has the configured ports, and the next ones follow.

        Raises: OSError if an address is in use, ConfigError for a port above 65535; then none is bound.
        """
        bound: dict[int, list[tuple[BoundListener, socket.socket]]] = {node_id: [] for node_id in indexes}
        try:
            for node_id, index in indexes.items():
                for listener in self._listeners:
                    if listener.is_controller and index:
                        continue
                    sock = bind_socket(listener.host, node_port(listener.port, index))
                    bound[node_id].append((BoundListener(listener, sock.getsockname()[1], index), sock))
        except (OSError, ConfigError):
            _close_all([sock for pairs in bound.values() for _, sock in pairs])
            raise
        return bound

    def accept(self, node_id: int, bound: list[tuple[BoundListener, socket.socket]]) -> None:
        """Accept connections of a node at bound sockets, which stay its addresses."""
        self._bound[node_id] = [entry for entry, _ in bound]
        acceptors = self._acceptors[node_id] = []
        for (listener, *_), sock in bound:
            acceptors.append(
                Acceptor(
                    sock,
                    partial(self._make_protocol, node_id, listener),
                    tls=partial(self._tls, node_id, listener.name) if listener.is_encrypted else None,
                    handshakes=self._handshakes,
                )
            )

    def open(self, node_id: int) -> None:
        """Accept connections at the previous addresses of a node. Raises: OSError if one is in use by now."""
        if node_id in self._acceptors:
            return
        reserved = self._reserved.setdefault(node_id, {})
        try:
            for entry in self._bound[node_id]:
                if entry not in reserved:
                    reserved[entry] = bind_socket(entry.listener.host, entry.port)
                _listen(reserved[entry], entry)
        except OSError:
            self._release(node_id)
            raise
        self.accept(node_id, list(self._reserved.pop(node_id).items()))

    def close(self, node_id: int) -> None:
        """Refuse new connections to a node; those that are open stay. Its addresses remain reserved."""
        if node_id not in self._acceptors:
            return
        self._release(node_id)
        reserved = self._reserved[node_id] = {}
        for entry in self._bound[node_id]:
            # Between both another program can have got the port, which `open` reports if it still has it.
            with suppress(OSError):
                reserved[entry] = bind_socket(entry.listener.host, entry.port)

    def forget(self, node_id: int) -> None:
        """Release the addresses of a node that is no more."""
        self._release(node_id)
        del self._bound[node_id]

    def _release(self, node_id: int) -> None:
        for acceptor in self._acceptors.pop(node_id, []):
            acceptor.close()
        _close_all(self._reserved.pop(node_id, {}).values())

    def set_paused(self, node_id: int, *, is_paused: bool) -> None:
        """Leave new connections to a node with the operating system, which completes them, or accept them again."""
        for acceptor in self._acceptors.get(node_id, []):
            acceptor.set_paused(is_paused=is_paused)

    async def stop(self) -> None:
        """Close all sockets, and give up the TLS handshakes in progress."""
        for node_id in self._bound:
            self._release(node_id)
        await self._handshakes.end()


def _close_all(sockets: Iterable[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket at this address. Raises: OSError that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise _name_address(error, host, port) from error
    return sock


def _listen(sock: socket.socket, entry: BoundListener) -> None:
    """Listen at a reserved socket: other programs that reuse addresses can listen there before."""
    try:
        sock.listen()
    except OSError as error:
        raise _name_address(error, entry.listener.host, entry.port) from error


def _name_address(error: OSError, host: str, port: int) -> OSError:
    return OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}")


def connectable_host(host: str) -> str:
    """The loopback address for a wildcard address, which clients cannot connect to."""
    return "127.0.0.1" if host == "0.0.0.0" else "::1" if host == "::" else host  # noqa: S104


def log_bound(node_id: int, bound: Iterable[BoundListener]) -> None:
    """Log the addresses of the listeners of a node."""
    for entry in bound:
        listener, advertised = entry.listener, "{}:{}".format(*entry.advertised)
        address = f"{listener.host}:{entry.port}"
        fields = {"node": node_id, "listener": listener.name, "protocol": listener.protocol}
        template = "node %(node)d listens on %(listener)s://%(address)s"
        if advertised != address:
            template += ", advertised as %(advertised)s"
        SERVER.info(template, about=str(node_id), **fields, address=address, advertised=advertised)


def log_reachable(listeners: Iterable[Listener]) -> None:
    """Log the listeners that are not only for this machine."""
    for listener in listeners:
        if not listener.is_loopback:
            template = "%(listener)s listens on %(host)s, which other machines may reach"
            SERVER.warning(template, listener=listener.name, host=listener.host)
