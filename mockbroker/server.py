"""`Server`: a cluster in an event loop, with its options; used by the command and by `mockbroker.Cluster`."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import msgspec

from mockbroker.build import build_core
from mockbroker.clock import Clock
from mockbroker.cluster_log import ClusterLog
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.config.features import finalize_levels
from mockbroker.config.profiles import DEFAULT_PROFILE
from mockbroker.kafka_error import KafkaError
from mockbroker.log.repetitions import REPETITIONS
from mockbroker.log.subjects import SERVER
from mockbroker.net.listeners import (
    Listener,
    check_node_count,
    controller_listener,
    parse_listeners,
    place_listeners,
)
from mockbroker.net.network_server import NetworkServer
from mockbroker.state.storage.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from pathlib import Path

    from mockbroker.broker.node import Node
    from mockbroker.config.kafka_versions import ApiLimits
    from mockbroker.engine.core import Core
    from mockbroker.faults.cluster_model import ClusterFault
    from mockbroker.faults.model import Fault
    from mockbroker.faults.registry import FaultRegistry
    from mockbroker.metadata_log.stored_cluster import StoredCluster
    from mockbroker.net.capture_tap import CaptureTap
    from mockbroker.net.jwks_refresh import JwksRefresher
    from mockbroker.net.token_endpoint import TokenEndpoint
    from mockbroker.security.client_security import ClientSecurity
    from mockbroker.security.verification_keys import FetchedKeys
    from mockbroker.state.metadata.topics import Topic
    from mockbroker.storage_options import StorageOptions


class Options(msgspec.Struct, frozen=True):
    """The options of a cluster.

    nodes: None for as many as are stored, 1 without. port: of the first listener of node 0, node i adds i; 0: a free
    port for each; None: as in `listeners`.
    topics: name to partition count, created before the first client connects. seed: of all randomness in the cluster.
    share_edition: of KIP-932, None for that of the release. share_persister: where share groups store their state.
    add_scram: initial users, in the format of `kafka-storage.sh`; they contain passwords. faults: added at the start.
    versions: the API versions of an older broker. host: where the nodes listen. advertised: the address that
    clients are given, "HOST" or "HOST:PORT".
    chaos: a profile of faults, and its seed. security: TLS and SASL in one word each; its files exist as long as it.
    profile: of timers, which `config` has. memory_limit: bytes that the logs may take, None for no limit.
    controller_port: of the controller's own listener, 0: a free one, None: it has none. storage: None for a cluster in
    memory.
    """

    nodes: int | None = None
    port: int | None = None
    config: BrokerConfig = msgspec.field(default_factory=BrokerConfig)
    features: tuple[str, ...] = ()
    topics: Mapping[str, int] = msgspec.field(default_factory=dict)
    capture: Path | None = None
    seed: int | None = None
    share_edition: str | None = None
    share_persister: str = "default"
    add_scram: tuple[str, ...] = ()
    faults: tuple[Fault | ClusterFault, ...] = ()
    chaos: tuple[str, int] | None = None
    versions: ApiLimits | None = None
    host: str | None = None
    advertised: str | None = None
    security: ClientSecurity | None = None
    profile: str = DEFAULT_PROFILE
    memory_limit: int | None = None
    controller_port: int | None = None
    storage: StorageOptions | None = None

    #: The fields that hold passwords or keys, which a text of the options leaves out.
    secret_fields: ClassVar[frozenset[str]] = frozenset({"add_scram", "security"})

    def __repr__(self) -> str:
        """All fields but the secret ones."""
        shown = (name for name in self.__struct_fields__ if name not in self.secret_fields)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


class Server:
    """A cluster in the event loop in which `start` is called."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.clock = Clock()
        self._stored, self._node_count = self._open_storage()
        self.network_server: NetworkServer | None = None
        self._token_endpoint: TokenEndpoint | None = None
        self._jwks: JwksRefresher | None = None
        self._cluster_log = ClusterLog(self._write_log_soon)
        try:
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
            stored.close(store.close if store is not None else lambda: None)

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
        core = build_core(
            config=options.config,
            node_count=self._node_count,
            features=finalize_levels(
                options.features,
                options.config.release,
                unstable=options.config.boolean("unstable.feature.versions.enable"),
                limit=(lambda support: support) if versions is None else versions.limit_features,
            ),
            topics=options.topics,
            rng=random.Random(options.seed),
            now_ms=self.clock.now_ms(),
            share_edition=options.share_edition,
            share_persister=options.share_persister,
            versions=versions,
            budget=MemoryBudget(options.memory_limit, _log_full_memory),
            stored=self._stored,
        )
        _record_topic_names(core)
        self._cluster_log.watch(core.state, known=() if self._stored is None else self._stored.topic_ids)
        for user in options.add_scram:
            core.state.security.add_scram(user)
        return core

    def reset(self) -> None:
        """Replace the cluster by a new one at the same addresses: nothing of the old one is left.

        Connections are closed, nodes that are down start again, the clock runs as the wall clock. With a seed, the new
        cluster has the same ids as the old one had.
        Raises: OSError if an address of a node that was down is in use; RuntimeError where there is a data directory.
        """
        if self._stored is not None:
            raise RuntimeError("a cluster with a data directory cannot be reset: stop it, and start another one")
        self.clock = Clock()
        self.__dict__.pop("faults", None)
        previous, self.core = self.core, self._build_core()
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
        """Listen on every node; afterwards `bootstrap` returns the address list for clients."""
        options = self.options
        tls = {}
        for listener in self._listeners:
            if listener.is_encrypted:
                from mockbroker.net.tls import create_server_context

                tls[listener.name] = create_server_context(options.config, listener)
        await self._start_oauth()
        frame_bytes_max = options.config.integer("socket.request.max.bytes")
        tap = _open_capture(options.capture)
        network_server = self._make_network_server(frame_bytes_max, tap)
        try:
            await network_server.start(self._listeners, tls)
        except OSError:
            if tap is not None:
                tap.close()
            self._close_storage()
            await self._stop_oauth()
            raise
        self.network_server = network_server
        if self._jwks is not None:
            network_server.watchers.add(self._jwks.check)
        try:
            self.core.requests.write_metadata()
        except KafkaError as error:
            await self.stop()
            raise ConfigError(f"data-dir: {error}") from error
        self._log_start()
        self._cluster_log.write()

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
        for listener in self._listeners:
            if not listener.is_loopback:
                template = "%(listener)s listens on %(host)s, which other machines may reach"
                SERVER.warning(template, listener=listener.name, host=listener.host)
        if self._stored is not None:
            from mockbroker.storage_options import log_storage

            log_storage(self._stored, config)
        if config.ignored:
            SERVER.info("configurations without effect: %(names)s", names=", ".join(sorted(config.ignored)))
        if config.unknown:
            template = "configurations unknown to Kafka %(release)s, ignored: %(names)s"
            SERVER.warning(template, release=config.release, names=", ".join(sorted(config.unknown)))

    def _log_state(self, change: str) -> None:
        """Log that the cluster has started or ended."""
        template = f"cluster %(cluster)s {change}: nodes %(node_count)d, Kafka %(release)s"
        cluster_id, release = self.core.state.cluster_id, self.options.config.release
        SERVER.info(template, cluster=cluster_id, node_count=len(self._nodes), release=release)

    def _log_listeners(self, node: Node) -> None:
        for entry in self.require_started().require_listeners().bound(node.node_id):
            listener, advertised = entry.listener, "{}:{}".format(*entry.advertised)
            address = f"{listener.host}:{entry.port}"
            fields = {"node": node.node_id, "listener": listener.name, "protocol": listener.protocol}
            template = "node %(node)d listens on %(listener)s://%(address)s"
            if advertised != address:
                template += ", advertised as %(advertised)s"
            SERVER.info(template, about=str(node.node_id), **fields, address=address, advertised=advertised)

    def _write_log_soon(self) -> None:
        """Log what has changed when the event in progress has ended."""
        if self.network_server is not None:
            self.network_server.watchers.add(self._write_log)

    def _write_log(self) -> None:
        self.require_started().watchers.discard(self._write_log)
        self._cluster_log.write()

    def _make_network_server(self, frame_bytes_max: int, tap: CaptureTap | None) -> NetworkServer:
        return NetworkServer(self.core, self.clock, frame_bytes_max=frame_bytes_max, tap=tap)

    def add_node(self) -> int:
        """Add a node; `bootstrap` lists it from now on. Returns: its id. Raises: ConfigError, OSError."""
        check_node_count(len(self._nodes) + 1)
        node = self.require_started().add_node()
        self._nodes.append(node)
        self._log_listeners(node)
        return node.node_id

    async def stop(self) -> None:
        """Close every connection, stop listening, and close the data directory, if there is one."""
        if self.network_server is not None:
            await self.network_server.stop()
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

    def bootstrap(self, listener: str | None = None) -> str:
        """HOST:PORT of every node, stopped nodes included, of the first listener or the named one."""
        name = listener or self._listeners[0].name
        return ",".join("{}:{}".format(*node.endpoint(name)) for node in self._nodes)

    def bootstrap_controllers(self) -> str:
        """HOST:PORT of the controller's own listener, "" if it has none."""
        endpoint = self.core.state.controller_endpoint
        return "" if endpoint is None else f"{endpoint.host}:{endpoint.port}"


def _log_full_memory(used: int, limit: int) -> None:
    template = "produced batches are refused: the logs take %(used)d bytes, and may take %(limit)d (--memory-limit)"
    SERVER.warning(template, used=used, limit=limit)


def _record_topic_names(core: Core) -> None:
    """Requests name topics by their ids; the journal has the names of deleted topics too."""
    metadata, journal = core.state.metadata, core.journal

    def record_name(_: object, topic: Topic) -> None:
        journal.record_topic_name(topic.topic_id, topic.name)

    for topic in metadata.topics():
        record_name(None, topic)
    metadata.add_listener(record_name)


def _open_capture(capture: Path | None) -> CaptureTap | None:
    if capture is None:
        return None
    from mockbroker.net.capture_tap import CaptureTap

    return CaptureTap(capture)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """An event loop of uvloop if it is installed, else of asyncio."""
    if sys.platform != "win32":
        with suppress(ImportError):
            import uvloop

            return uvloop.new_event_loop()
    return asyncio.new_event_loop()
