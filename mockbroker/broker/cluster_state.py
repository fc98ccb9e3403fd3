"""`ClusterState`: everything that the brokers of a cluster share, the controller's image included."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from mockbroker.broker.node import Node
from mockbroker.cluster_services.cluster_services import ClusterServices
from mockbroker.state.streams.topology_descriptions import TopologyDescriptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.messages import streams_group_describe as describe
    from mockbroker.broker.controller import Controller
    from mockbroker.cluster_services.cluster_services import WakeKey
    from mockbroker.config.features import FeatureSupport
    from mockbroker.security.state import Security
    from mockbroker.state.metadata.config_entries import ConfigApiDialect
    from mockbroker.state.storage.log_store import ClusterLogs


class ControllerEndpoint(NamedTuple):
    """The listener of the controller, and its address for clients."""

    listener: str
    host: str
    port: int


class NodeApis(NamedTuple):
    """What a node of another release serves: the version range of each API by key, and its features."""

    versions: Mapping[int, tuple[int, int]]
    features: FeatureSupport


class KeyStores(Protocol):
    """The key stores and trust stores of encrypted listeners. Implemented by `mockbroker.net`."""

    def check_change(self, node_id: int, texts: Mapping[str, str]) -> None:
        """Check the stores of a node for the configurations that it is to have. Raises: KafkaError."""

    def restart_node(self, node_id: int) -> None:
        """Read the stores of a node that starts again. Raises: KafkaError for what cannot be used."""


class ClusterState(ClusterServices[Node], kw_only=True):
    """The shared state of one cluster, which every request handler can reach.

    nodes: the brokers that Metadata responses list, by ascending id; the running ones are `inter_broker.nodes`.
    woken: the keys that `wake` got, in order, whose requests `Core` resumes next.
    log_store: all logs, with their deadlines; a node reaches the logs that it leads by its `logs`.
    api_versions: the version range that ApiVersions lists, by API key; node_apis: of nodes of another release.
    security: users, and the settings of listeners. config_api_dialect: configuration names of an edition, None for the
    released ones. topology_descriptions: of streams groups, kept as by a plugin that all brokers share.
    controller_endpoint: where clients reach the controller itself (KIP-919), None if they do not. key_stores: of
    encrypted listeners, None without sockets.
    """

    cluster_id: str
    nodes: dict[int, Node]
    woken: dict[WakeKey, None]
    api_versions: Mapping[int, tuple[int, int]]
    security: Security
    log_store: ClusterLogs | None = None
    controller: Controller | None = None
    config_api_dialect: ConfigApiDialect | None = None
    wake_key_count: int = 0
    node_apis: dict[int, NodeApis] = msgspec.field(default_factory=dict)
    controller_endpoint: ControllerEndpoint | None = None
    key_stores: KeyStores | None = None
    topology_descriptions: TopologyDescriptions[describe.TopologyDescription] = msgspec.field(
        default_factory=TopologyDescriptions
    )

    def features_of(self, node_id: int) -> FeatureSupport:
        """The feature levels that a node supports."""
        own = self.node_apis.get(node_id)
        return self.release.features if own is None else own.features

    @property
    def supported_features(self) -> FeatureSupport:
        """The feature levels that all nodes support."""
        return reduce(
            lambda common, apis: common.intersect(apis.features), self.node_apis.values(), self.release.features
        )

    def new_wake_key(self) -> WakeKey:
        """A wake key that is used nowhere else: a request parks on it until its own work is done."""
        self.wake_key_count += 1
        return ("done", self.wake_key_count)
