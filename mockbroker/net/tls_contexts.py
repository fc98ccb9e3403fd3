"""`TlsContexts`: the TLS contexts of the nodes' listeners, which follow changes of key stores and trust stores."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.config.broker_config import ConfigError
from mockbroker.kafka_error import KafkaError
from mockbroker.log.subjects import SERVER
from mockbroker.net.tls import create_server_context
from mockbroker.security.key_store_changes import check_replacement
from mockbroker.security.listener_stores import LOCATIONS, RELOADABLE, ListenerStores, read_stores
from mockbroker.state.metadata.configs import Resource, ResourceKind

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Mapping

    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.config.broker_config import BrokerConfig
    from mockbroker.net.listeners import Listener
    from mockbroker.security.tls_stores import KeyStore
    from mockbroker.state.metadata.configs import Configs


class _Loaded(NamedTuple):
    """What a listener of a node serves. values: of the configurations of its stores. times: of their files, ns."""

    values: tuple[object, ...]
    times: tuple[int | None, ...]
    stores: ListenerStores
    context: ssl.SSLContext


class TlsContexts:
    """The contexts of all encrypted listeners. A new connection gets the one that is current.

    Stores are read at the start, when a node starts again, by `replace_cluster`, and after each change of a node's own
    configuration: if the configurations of a store or its file have changed since (KIP-226).
    """

    def __init__(self, config: BrokerConfig, listeners: Iterable[Listener]) -> None:
        """Read all stores. Raises: ConfigError."""
        self._config = config
        self._listeners = {listener.name: listener for listener in listeners if listener.is_encrypted}
        self._configs: Configs | None = None
        self._shared = self._load_all()
        self._own: dict[tuple[int, str], _Loaded] = {}
        self._served: dict[int, KeyStore] = {}

    def context(self, node_id: int, listener_name: str) -> ssl.SSLContext:
        """The current context of a listener of a node."""
        return self._current(node_id, listener_name).context

    def keys(self, node_id: int, listener_name: str) -> KeyStore:
        """What a listener of a node presents."""
        return self._current(node_id, listener_name).stores.keys

    def follow(self, state: ClusterState) -> None:
        """Apply the dynamic configurations of a cluster, those that it has and those that come."""
        state.key_stores = self
        self._configs = configs = state.configs
        configs.add_listener(self._on_change)
        for name in configs.configured_names(ResourceKind.BROKER):
            self._on_change(Resource(ResourceKind.BROKER, name), {}, {})

    def replace_cluster(self) -> None:
        """Read all stores again, for a cluster without dynamic configurations. Raises: ConfigError; all stays then."""
        self._shared = self._load_all()
        self._own.clear()
        self._served.clear()

    def check_change(self, node_id: int, texts: Mapping[str, str]) -> None:
        """Check the stores of a node for the configurations that it is to have.

        A file that has changed, while its configurations have not, is not read. Raises: KafkaError(INVALID_REQUEST).
        """
        for name in self._listeners:
            current = self._current(node_id, name)
            try:
                config = self._overlay(name, texts)
                if _values(config) != current.values:
                    self._replacement(name, config, current)
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error

    def restart_node(self, node_id: int) -> None:
        """Read the stores of a node that starts again. Raises: KafkaError(INVALID_CONFIG) for what cannot be used."""
        for name in self._listeners:
            try:
                self._own[node_id, name] = self._load(name, self._config.for_listener(name))
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"node {node_id} cannot start: {error}") from error
            self._apply(node_id, name)
        if node_id in self._served:
            self.serve([node_id], self._served[node_id])

    def serve(self, node_ids: Iterable[int], keys: KeyStore) -> None:
        """Present other keys at every encrypted listener of some nodes, whatever names their certificates have.

        They are served until the configuration or the file of a store is changed, or the cluster is replaced.
        Raises: ConfigError for keys that cannot be used.
        """
        node_ids = list(node_ids)
        changed: dict[tuple[int, str], _Loaded] = {}
        for node_id in node_ids:
            for name, listener in self._listeners.items():
                current = self._current(node_id, name)
                stores = current.stores._replace(keys=keys, key_password=None)
                context = create_server_context(self._config, listener, stores)
                changed[node_id, name] = current._replace(stores=stores, context=context)
        self._own |= changed
        self._served |= dict.fromkeys(node_ids, keys)

    def _current(self, node_id: int, name: str) -> _Loaded:
        return self._own.get((node_id, name)) or self._shared[name]

    def _on_change(self, resource: Resource, _before: object, _after: object) -> None:
        if resource.kind is ResourceKind.BROKER and resource.name:
            for name in self._listeners:
                self._apply(int(resource.name), name)

    def _apply(self, node_id: int, name: str) -> None:
        """Serve what the configuration of a node says now; what cannot be used is logged, as Kafka does."""
        assert self._configs is not None
        current = self._current(node_id, name)
        texts = self._configs.overrides(Resource(ResourceKind.BROKER, str(node_id)))
        try:
            config = self._overlay(name, texts)
            if _values(config) == current.values and not _are_modified(current.times, _modification_times(config)):
                return
            self._own[node_id, name] = self._replacement(name, config, current)
            self._served.pop(node_id, None)
        except ConfigError as error:
            template = "node %(node)d, listener %(listener)s: key store and trust store stay as they were: %(reason)s"
            SERVER.warning(template, about=f"{node_id} {name}", node=node_id, listener=name, reason=str(error))
            return
        template = "node %(node)d, listener %(listener)s: key store and trust store were read again"
        SERVER.info(template, about=f"{node_id} {name}", node=node_id, listener=name)

    def _overlay(self, name: str, texts: Mapping[str, str]) -> BrokerConfig:
        """The configuration of a listener with those of its stores that are set dynamically. Raises: ConfigError."""
        keys = [f"listener.name.{name.lower()}.{end}" for end in RELOADABLE]
        config = copy(self._config)
        config.given = {**config.given, **{key: texts[key] for key in keys if key in texts}}
        return config.for_listener(name)

    def _replacement(self, name: str, config: BrokerConfig, current: _Loaded) -> _Loaded:
        loaded = self._load(name, config)
        check_replacement(self._config.for_listener(name), current.stores, loaded.stores)
        return loaded

    def _load_all(self) -> dict[str, _Loaded]:
        return {name: self._load(name, self._config.for_listener(name)) for name in self._listeners}

    def _load(self, name: str, config: BrokerConfig) -> _Loaded:
        """Read the stores of a listener. config: of the listener."""
        times = _modification_times(config)  # Before the files are read: a change meanwhile is seen later.
        stores = read_stores(config)
        return _Loaded(
            _values(config), times, stores, create_server_context(self._config, self._listeners[name], stores)
        )


def _values(config: BrokerConfig) -> tuple[object, ...]:
    return tuple(config[name] for name in RELOADABLE)


def _modification_times(config: BrokerConfig) -> tuple[int | None, ...]:
    """When the files of the stores were changed; None for one that is not there."""
    return tuple(_modification_time(config.string(name)) for name in LOCATIONS)


def _are_modified(old: tuple[int | None, ...], new: tuple[int | None, ...]) -> bool:
    return any(time is not None and time != before for before, time in zip(old, new, strict=True))


def _modification_time(location: str | None) -> int | None:
    try:
        return None if location is None else Path(location).stat().st_mtime_ns
    except OSError:
        return None
