"""`Server`: a cluster in an event loop, with its options; used by the command and by `mockbroker.Cluster`."""

from __future__ import annotations

import asyncio
import random
from functools import cached_property
from typing import TYPE_CHECKING

from mockbroker.build import build_core, record_topic_names
from mockbroker.clock import Clock
from mockbroker.cluster_log import ClusterLog, log_full_memory
from mockbroker.config.broker_config import ConfigError
from mockbroker.config.features import finalize_levels
from mockbroker.config.limits import parse_limits
from mockbroker.kafka_error import KafkaError
from mockbroker.log.repetitions import REPETITIONS
from mockbroker.log.subjects import SERVER
from mockbroker.net.event_loops import report_loop_errors
from mockbroker.net.listeners import (
    Listener,
    check_node_count,
    controller_listener,
    parse_listeners,
    place_listeners,
)
from mockbroker.net.network_server import NetworkServer
from mockbroker.net.node_listeners import log_bound, log_reachable
from mockbroker.server_options import Options
from mockbroker.state.storage.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from pathlib import Path

    from mockbroker.broker.node import Node
    from mockbroker.engine.core import Core
    from mockbroker.faults.registry import FaultRegistry
    from mockbroker.metadata_log.stored_cluster import StoredCluster
    from mockbroker.net.capture_tap import CaptureTap
    from mockbroker.net.jwks_refresh import JwksRefresher
    from mockbroker.net.listener_views import ListenerView
    from mockbroker.net.tls_contexts import TlsContexts
    from mockbroker.net.token_endpoint import TokenEndpoint
    from mockbroker.security.verification_keys import FetchedKeys


class Server:
    """A cluster in the event loop in which `start` is called."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.clock = Clock()
        self._stored, self._node_count = self._open_storage()
        self.network_server: NetworkServer | None = None
        self._token_endpoint: TokenEndpoint | None = None
        self._jwks: JwksRefresher | None = None
        self._tls: TlsContexts | None = None
        self._cluster_log = ClusterLog(self._write_log_soon)
        self._stop_by_s: float | None = None
        try:
            if options.security is not None:
                options.security.create_files()
            self._listeners = self._place_listeners()
            self.core = self._build_core()
            self._nodes = list(self.core.state.nodes.values())
            self._add_faults()
        except BaseException:
            self._close_storage()
            raise

    def _open_storage(self) -> tuple[StoredCluster | None, int]:
        """The data directory, if there is one, and the number of nodes. Raises: ConfigError."""
        storage, nodes = self.options.storage, self.options.nodes
        if storage is None:
            return None, 1 if nodes is None else nodes
        from mockbroker.storage_options import open_storage

        return open_storage(storage, self.options.config, nodes)

    def _close_storage(self) -> None:
        stored, self._stored = self._stored, None
        if stored is not None:
            store = self.core.state.log_store if "core" in self.__dict__ else None
            stored.close(store.close if store is not None else None)

    def _place_listeners(self) -> list[Listener]:
        options = self.options
        own = {"listeners"} if options.security is not None else set()
        for name, setting in (("host", "listeners"), ("advertised", "advertised.listeners")):
            if getattr(options, name) is not None and setting in options.config.given.keys() - own:
                raise ConfigError(f"{name}: given beside {setting}, which has it; give one of them")
        listeners = parse_listeners(options.config, port=options.port, node_count=self._node_count)
        if options.controller_port is not None:
            # After the brokers' own: the first one is that of `bootstrap`.
            listeners.append(controller_listener(options.config, options.controller_port))
        return place_listeners(listeners, host=options.host, advertised=options.advertised, node_count=self._node_count)

    def _add_faults(self) -> None:
        for fault in self.options.faults:
            self.faults.add_any(fault)
        if self.options.chaos is not None:
            self.faults.add_chaos(*self.options.chaos)

    def _build_core(self) -> Core:
        options, versions = self.options, self.options.versions
        if options.node_options is not None:
            options.node_options.check_nodes(options.config.integer("node.id"), self._node_count)
        core = build_core(
            config=options.config,
            node_count=self._node_count,
            features=finalize_levels(
                options.features,
                options.config.release,
                unstable=options.config.boolean("unstable.feature.versions.enable"),
                limit=options.limit_features,
            ),
            topics=options.topics,
            rng=random.Random(options.seed),
            now_ms=self.clock.now_ms(),
            share_edition=options.share_edition,
            share_persister=options.share_persister,
            versions=versions,
            node_options=options.node_options,
            budget=MemoryBudget(options.memory_limit, log_full_memory),
            stored=self._stored,
        )
        record_topic_names(core)
        self._cluster_log.watch(core.state, known=() if self._stored is None else self._stored.topic_ids)
        for user in options.add_scram:
            core.state.security.add_scram(user)
        return core

    def reset(self) -> None:
        """Replace the cluster by a new one at the same addresses: nothing of the old one is left.

        Connections are closed, nodes that are down start again, the clock runs as the wall clock. With a seed, the new
        cluster has the same ids as the old one had.
        Raises: OSError if an address is in use, ConfigError for unusable key stores, RuntimeError with a data folder.
        """
        if self._stored is not None:
            raise RuntimeError("a cluster with a data directory cannot be reset: stop it, and start another one")
        if self._tls is not None:
            self._tls.replace_cluster()
        self.clock = Clock()
        self.__dict__.pop("faults", None)
        previous, self.core = self.core, self._build_core()
        if self._tls is not None:
            self._tls.follow(self.core.state)
        for old in self._nodes:
            if old.node_id in self.core.state.nodes:  # Others were added later.
                self.core.state.nodes[old.node_id].copy_endpoints(old)
        self._nodes = list(self.core.state.nodes.values())
        self.core.connection_count = previous.connection_count
        self.core.state.controller_endpoint = previous.state.controller_endpoint
        if self._jwks is not None:
            self._jwks.replace(self._fetched_keys(), self.clock)
        self.require_started().replace_core(self.core, self.clock)
        self._add_faults()

    async def start(self) -> None:
        """Listen on every node; `bootstrap` returns the addresses then. After an error nothing is left open."""
        try:
            await self._start()
        except BaseException:
            network_server, self.network_server = self.network_server, None
            try:
                if network_server is not None:
                    await network_server.stop(grace_s=0)
            finally:
                self._close_storage()
                await self._stop_oauth()
            raise

    async def _start(self) -> None:
        options = self.options
        report_loop_errors(asyncio.get_running_loop())
        self._read_key_stores()
        await self._start_oauth()
        frame_bytes_max = options.config.integer("socket.request.max.bytes")
        tap = _open_capture(options.capture)
        network_server = self._make_network_server(frame_bytes_max, tap)
        try:
            await network_server.start(self._listeners, lambda *key: self.require_tls().context(*key))
        except OSError:
            if tap is not None:
                tap.close()
            raise
        self.network_server = network_server
        if self._jwks is not None:
            network_server.watchers.add(self._jwks.check)
        try:
            self.core.requests.write_metadata()
        except KafkaError as error:
            raise ConfigError(f"data-dir: {error}") from error
        self._log_start()
        self._cluster_log.write()

    def _read_key_stores(self) -> None:
        """Read the stores of encrypted listeners; without one nothing is loaded. Raises: ConfigError."""
        if any(listener.is_encrypted for listener in self._listeners):
            from mockbroker.net.tls_contexts import TlsContexts

            self._tls = TlsContexts(self.options.config, self._listeners)
            self._tls.follow(self.core.state)

    def require_tls(self) -> TlsContexts:
        """The TLS contexts of a cluster with an encrypted listener that was started."""
        assert self._tls is not None
        return self._tls

    async def _start_oauth(self) -> None:
        """Fetch the keys of signed tokens, and serve the token endpoint, if there are such; else nothing is loaded.

        Raises: ConfigError for keys that cannot be fetched.
        """
        keys = self._fetched_keys()
        if keys:
            from mockbroker.net.jwks_refresh import JwksRefresher

            self._jwks = JwksRefresher(keys, self.clock)
            await self._jwks.fetch_all()
        security = self.options.security
        if security is not None and security.issuer is not None:
            from mockbroker.net.token_endpoint import TOKEN_PATH, TokenEndpoint

            self._token_endpoint = TokenEndpoint(security.issuer, self.read_clock)
            await self._token_endpoint.start()
            security.token_endpoint_url = self._token_endpoint.base_url + TOKEN_PATH

    async def _stop_oauth(self) -> None:
        for part in (self._jwks, self._token_endpoint):
            if part is not None:
                await part.stop()

    def _fetched_keys(self) -> list[FetchedKeys]:
        names = [listener.name for listener in self._listeners if listener.protocol.startswith("SASL_")]
        return self.core.state.security.fetched_keys(names)

    def read_clock(self) -> int:
        """The time of the cluster's clock, which `reset` replaces."""
        return self.clock.now_ms()

    def require_token_endpoint(self) -> TokenEndpoint:
        """The token endpoint of a cluster that was started with `sasl="OAUTHBEARER"`."""
        assert self._token_endpoint is not None
        return self._token_endpoint

    def _log_start(self) -> None:
        config = self.options.config
        self._log_state("started")
        for node in self._nodes:
            self._log_listeners(node)
        log_reachable(self._listeners)
        if self._stored is not None:
            from mockbroker.storage_options import log_storage

            log_storage(self._stored, config)
        if config.ignored or config.unknown or config.unsupported_plugins:
            from mockbroker.log.config_log import log_ineffective

            log_ineffective(config)

    def _log_state(self, change: str) -> None:
        """Log that the cluster has started or ended."""
        fields = {"cluster": self.core.state.cluster_id, "release": self.options.config.release}
        template = f"cluster %(cluster)s {change}: nodes %(node_count)d, Kafka %(release)s"
        SERVER.info(template, node_count=len(self._nodes), **fields)

    def _log_listeners(self, node: Node) -> None:
        log_bound(node.node_id, self.require_started().require_listeners().bound(node.node_id))

    def _write_log_soon(self) -> None:
        """Log what has changed when the event in progress has ended."""
        if self.network_server is not None:
            self.network_server.watchers.add(self._write_log)

    def _write_log(self) -> None:
        self.require_started().watchers.discard(self._write_log)
        self._cluster_log.write()

    def _make_network_server(self, frame_bytes_max: int, tap: CaptureTap | None) -> NetworkServer:
        queued_bytes_max = parse_limits(self.core.state.config.given).queued_bytes
        return NetworkServer(
            self.core, self.clock, frame_bytes_max=frame_bytes_max, queued_bytes_max=queued_bytes_max, tap=tap
        )

    def add_node(self) -> int:
        """Add a node; `bootstrap` lists it from now on. Returns: its id. Raises: ConfigError, OSError."""
        check_node_count(len(self._nodes) + 1)
        node = self.require_started().add_node()
        self._nodes.append(node)
        self._log_listeners(node)
        return node.node_id

    def begin_stop(self) -> float:
        """End what waits for the cluster, as `stop` follows. Returns: what is left of the grace, seconds.

        Called in its event loop, for the first time when the grace begins.
        """
        now_s = asyncio.get_running_loop().time()
        if self._stop_by_s is None:
            self._stop_by_s = now_s + self.options.stop_grace_ms / 1000
            if self.network_server is not None:
                self.network_server.announce_stop()
        return max(0.0, self._stop_by_s - now_s)

    async def stop(self) -> None:
        """Close every connection, stop listening, and close the data directory, if there is one.

        It takes `stop_grace_ms` and less than a second more, whatever clients do.
        """
        grace_s = self.begin_stop()
        if self.network_server is not None:
            await self.network_server.stop(grace_s=grace_s)
        self._close_storage()
        await self._stop_oauth()
        REPETITIONS.flush()
        if self.network_server is not None:
            self._log_state("ended")

    def require_started(self) -> NetworkServer:
        """The network server; `start` must have been called."""
        assert self.network_server is not None
        return self.network_server

    @cached_property
    def faults(self) -> FaultRegistry:
        """The faults of the cluster; without this call, the modules of faults are not imported."""
        from mockbroker.faults.registry import FaultRegistry

        return FaultRegistry(self.core, listeners=lambda: self.network_server)

    @property
    def has_faults(self) -> bool:
        """Whether faults were ever added: without, their modules are not imported."""
        return "faults" in self.__dict__

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes by their ids, also those that are down, which the state of the cluster does not list."""
        return tuple(self._nodes)

    def listeners(self) -> list[ListenerView]:
        """The listeners of all nodes with their bound and advertised addresses."""
        from mockbroker.net.listener_views import listener_views

        return listener_views(self.require_started().require_listeners())

    def bootstrap(self, listener: str | None = None) -> str:
        """HOST:PORT of every node, stopped nodes included, of the first listener or the named one."""
        name = listener or self._listeners[0].name
        return ",".join("{}:{}".format(*node.endpoint(name)) for node in self._nodes)

    def bootstrap_controllers(self) -> str:
        """HOST:PORT of the controller's own listener, "" if it has none."""
        endpoint = self.core.state.controller_endpoint
        return "" if endpoint is None else f"{endpoint.host}:{endpoint.port}"


def _open_capture(capture: Path | None) -> CaptureTap | None:
    if capture is None:
        return None
    from mockbroker.net.capture_tap import CaptureTap

    return CaptureTap(capture)
