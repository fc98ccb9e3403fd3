"""`ProxyServer`: the server of a proxy, with a listener for each broker of the cluster behind it."""

from __future__ import annotations

import socket
import ssl
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from mockbroker.broker.node import Node
from mockbroker.faults.fault_error import FaultError
from mockbroker.faults.model import Fault
from mockbroker.faults.registry import FaultRegistry
from mockbroker.log.subjects import PROXY
from mockbroker.net.listeners import NODES_MAX
from mockbroker.net.network_server import NetworkServer
from mockbroker.proxy.cluster_lookup import look_up
from mockbroker.proxy.forwarding import Forwarder
from mockbroker.proxy.learned_topics import LearnedTopics
from mockbroker.proxy.upstream import Endpoint
from mockbroker.server import Server
from mockbroker.server_options import Options

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import WakeKey
    from mockbroker.engine.core import Core
    from mockbroker.faults.cluster_model import ClusterFault
    from mockbroker.faults.registry import ChaosRun
    from mockbroker.net.capture_tap import CaptureTap
    from mockbroker.net.connection import ClientConnection
    from mockbroker.state.metadata.cluster_image import ClusterImage


#: The node id of the address that the proxy was given, if the cluster does not list it; as clients number it.
BOOTSTRAP_NODE = -1
_LISTENER = "PLAINTEXT"


class ProxyOptions(Options, frozen=True):
    """The options of a proxy. upstream: a broker of the cluster. upstream_tls: None for plain connections."""

    upstream: tuple[str, int] = ("", 0)
    upstream_tls: ssl.SSLContext | None = None

    secret_fields: ClassVar[frozenset[str]] = Options.secret_fields | {"upstream_tls"}


class ProxiedNode(NamedTuple):
    """A broker of the cluster. address: HOST:PORT for clients. upstream: HOST:PORT of the broker itself."""

    node_id: int
    address: str
    upstream: str


class ProxyServer(Server):
    """A proxy in the event loop in which `start` is called.

    Its core is that of a cluster, whose handlers send requests to the cluster behind the proxy: journal, faults and
    capture are the same code. Nodes are added as responses name them.
    """

    def __init__(self, options: ProxyOptions) -> None:
        self._proxy_options = options
        self._endpoints: dict[int, Endpoint] = {}
        self._topics = LearnedTopics()
        super().__init__(options)

    def _build_core(self) -> Core:
        core = super()._build_core()
        self._forwarder = Forwarder(
            self._endpoints.__getitem__,
            self._localize,
            self._topics,
            wake=self._wake,
            disconnect=self._disconnect,
            record_topic=core.journal.record_topic_name,
        )
        core.routes = self._forwarder.routes(core.routes)
        core.state.nodes.clear()
        core.state.inter_broker.nodes.clear()
        # What faults read of it is there.
        core.state.metadata = cast("ClusterImage", self._topics)
        return core

    def _add_faults(self) -> None:
        """Faults are added in `start`, when the nodes are known."""

    def reset(self) -> None:
        """A proxy has nothing to reset. Raises: RuntimeError."""
        raise RuntimeError("a proxy cannot be reset: its state is that of the cluster behind it")

    async def start(self) -> None:
        """Ask the cluster for its nodes, and listen for each.

        Raises: ConnectionError if there is no cluster, OSError if an address is in use, FaultError for a wrong fault.
        """
        bootstrap = self.bootstrap_endpoint
        info = await look_up(bootstrap)
        self._forwarder.api_versions_max = info.api_versions_max
        listed = [(node_id, Endpoint(host, port, bootstrap.tls)) for node_id, host, port in info.brokers]
        first = next((node_id for node_id, endpoint in listed if _is_same(endpoint, bootstrap)), None)
        if first is None:
            listed.insert(0, (BOOTSTRAP_NODE, bootstrap))
            # The first listener is that of the address that the proxy was given.
            first = BOOTSTRAP_NODE
        for node_id, endpoint in sorted(listed, key=lambda each: (each[0] != first, each[0])):
            self._add_endpoint(node_id, endpoint)
        await super().start()
        try:
            super()._add_faults()
        except FaultError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close every connection on both sides, and stop listening."""
        await super().stop()
        await self._forwarder.end_all(grace_s=self.begin_stop())

    @cached_property
    def faults(self) -> FaultRegistry:
        """The faults of the proxy."""
        return ProxyFaults(self.core)

    def bootstrap(self, listener: str | None = None) -> str:
        """HOST:PORT of the listener for the address that the proxy was given."""
        return super().bootstrap(listener).split(",")[0]

    @property
    def bootstrap_endpoint(self) -> Endpoint:
        """The broker that the proxy was given."""
        return Endpoint(*self._proxy_options.upstream, self._proxy_options.upstream_tls)

    def proxied_nodes(self) -> list[ProxiedNode]:
        """The brokers that the proxy has learned of, by their ids."""
        return [
            ProxiedNode(node.node_id, str(Endpoint(*node.endpoint(_LISTENER))), str(self._endpoints[node.node_id]))
            for node in sorted(self._nodes, key=lambda node: node.node_id)
        ]

    def _make_network_server(self, frame_bytes_max: int, tap: CaptureTap | None) -> NetworkServer:
        return ProxyNetworkServer(self, frame_bytes_max=frame_bytes_max, tap=tap)

    def _add_endpoint(self, node_id: int, endpoint: Endpoint) -> Node:
        assert self.core.state.log_store is not None
        node = Node(node_id, self.core.state, self.core.state.log_store, rack=None)
        self._endpoints[node_id] = endpoint
        self.core.state.nodes[node_id] = self.core.state.inter_broker.nodes[node_id] = node
        self._nodes.append(node)
        return node

    def _localize(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        """The address for clients of a node; a new one gets a listener. Raises: OSError if there can be none."""
        endpoint = Endpoint(host, port, self._proxy_options.upstream_tls)
        node = self.core.state.nodes.get(node_id)
        if node is not None:
            self._endpoints[node_id] = endpoint
            return node.endpoint(_LISTENER)
        if len(self._nodes) >= NODES_MAX:
            raise OSError(f"the cluster has more than {NODES_MAX} nodes")
        listeners = self.require_started().require_listeners()
        bound = listeners.bind({node_id: len(self._nodes)})[node_id]
        node = self._add_endpoint(node_id, endpoint)
        for entry, _ in bound:
            node.add_endpoint(entry.listener.name, *entry.advertised)
        listeners.accept(node_id, bound)
        self._log_listeners(node)
        return node.endpoint(_LISTENER)

    def _log_state(self, change: str) -> None:
        template = f"proxy of %(upstream)s {change}: nodes %(node_count)d"
        PROXY.info(template, upstream=str(self.bootstrap_endpoint), node_count=len(self._nodes))

    def _log_listeners(self, node: Node) -> None:
        address, upstream = "{}:{}".format(*node.endpoint(_LISTENER)), str(self._endpoints[node.node_id])
        template = "node %(node)d is %(upstream)s, reached by %(address)s"
        PROXY.info(template, about=str(node.node_id), node=node.node_id, upstream=upstream, address=address)

    def _wake(self, key: WakeKey) -> None:
        """Resume a request from the event loop, outside of the core's own calls."""
        core = self.core
        core.state.inter_broker.schedule(0, lambda _: core.wake(key), now_ms=core.now_ms, owner=None)
        if self.network_server is not None and not self.network_server.is_stopped:
            self.network_server.run_due()

    def _disconnect(self, connection_id: int, reason: str) -> None:
        if self.network_server is not None:
            self.network_server.close_connection(connection_id, reason)

    def end_client(self, connection_id: int) -> None:
        """The connection of a client has ended."""
        self._forwarder.end(connection_id)


class ProxyNetworkServer(NetworkServer):
    """The sockets of a proxy: the end of a client's connection ends the one to the cluster."""

    def __init__(self, server: ProxyServer, *, frame_bytes_max: int, tap: CaptureTap | None) -> None:
        super().__init__(server.core, server.clock, frame_bytes_max=frame_bytes_max, tap=tap)
        self._server = server

    def remove_connection(self, connection: ClientConnection) -> None:
        """Remove a connection that has ended."""
        self._server.end_client(connection.id)
        super().remove_connection(connection)


class ProxyFaults(FaultRegistry):
    """The faults of a proxy: those of requests and connections, since it has no nodes of its own."""

    def _check(self, fault: Fault | ClusterFault) -> None:
        """Refuse a fault of nodes. Raises: FaultError."""
        if not isinstance(fault, Fault):
            raise FaultError(
                f"{fault.action}: a proxy has no nodes of its own; faults of requests and connections act in it"
            )
        if fault.then.state is not None:
            raise FaultError(f"state: {fault.then.state} changes the state of a cluster, and a proxy has none")
        super()._check(fault)

    def add_chaos(self, profile: str, seed: int) -> ChaosRun:
        """Refuse a profile, which has faults of nodes. Raises: FaultError."""
        raise FaultError(f"chaos {profile!r}: a proxy has no nodes of its own")


def _is_same(listed: Endpoint, given: Endpoint) -> bool:
    """Whether two addresses are one; names are resolved."""
    return listed.port == given.port and (listed.host == given.host or bool(_resolve(listed) & _resolve(given)))


def _resolve(endpoint: Endpoint) -> set[str]:
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(entry[4][0]) for entry in found}
