"""Building a cluster: configuration and number of nodes in, a `Core` that accepts its first client out."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from kwire import uuids
from mockbroker.broker.cluster_state import ClusterState
from mockbroker.broker.node import Node, find_rack
from mockbroker.cluster_services.cluster_services import WakeKey
from mockbroker.cluster_services.inter_broker import InterBrokerChannel
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.engine.core import Core
from mockbroker.engine.routes import Route, limit_routes
from mockbroker.handlers import select_routes
from mockbroker.security.authorizer_config import create_authorizer
from mockbroker.security.state import Security
from mockbroker.state.metadata.cluster_image import ClusterImage
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.metadata.feature_levels import SHARE_VERSION
from mockbroker.state.release import RELEASES, Release
from mockbroker.state.share.share_rules import CONTROL_RECORDS_DEFAULTS, ShareRules
from mockbroker.state.storage.log_store import ClusterLogs, LogStore
from mockbroker.state.timers import EarliestDeadline

if TYPE_CHECKING:
    from mockbroker.cluster_services.edition_records import EditionRecords
    from mockbroker.config.kafka_versions import ApiLimits
    from mockbroker.config.node_options import NodeOptions
    from mockbroker.engine.context import Context
    from mockbroker.metadata_log.stored_cluster import StoredCluster
    from mockbroker.state.metadata.config_entries import ConfigApiDialect
    from mockbroker.state.metadata.topics import Topic
    from mockbroker.state.storage.log_directory import LogDirectory
    from mockbroker.state.storage.memory_budget import MemoryBudget

_FIRST_VERSION_WITH_ELR = 1


def build_core(
    *,
    config: BrokerConfig,
    node_count: int,
    features: dict[str, int],
    topics: Mapping[str, int],
    rng: random.Random,
    now_ms: int,
    share_edition: str | None = None,
    share_persister: str = "default",
    versions: ApiLimits | None = None,
    node_options: NodeOptions | None = None,
    budget: MemoryBudget | None = None,
    stored: StoredCluster | None = None,
) -> Core:
    """Build a cluster of `node_count` nodes with consecutive ids from `node.id` on.

    features: finalized levels by name. topics: name to partition count, created at once. share_edition: of KIP-932
    (`mockbroker/editions`), None for the one of the release. share_persister: "control-records" stores the state of
    share-partitions in their own log. versions: the API versions of an older broker. node_options: of single nodes.
    budget: of the memory of all logs, None for no limit. stored: the data directory, None for a cluster in memory; of
    an earlier process it has the cluster's id, features and topics.
    Raises: KafkaError for a topic that cannot be created, ConfigError for super users that are not principals, for an
    unknown edition, and for what is stored and does not fit.
    """
    release = _enabled_release(config, versions)
    routes, rules, records, defaults = _edition_parts(release, share_edition, config)
    routes = routes if versions is None else limit_routes(routes, versions)
    rules = _rules_of_persister(rules, share_persister)
    config = _config_with_edition_defaults(config, rules, defaults)
    if config.dialect is not None and not config.dialect.enables_share_groups(config.given):
        features = {name: level for name, level in features.items() if name != SHARE_VERSION}
    cluster_id, features = _choose_identity(stored, features, release, rng)
    first_id = config.integer("node.id")
    node_ids = range(first_id, first_id + node_count)
    metadata = ClusterImage(node_ids, config, rng, is_cold=config.is_cold)
    earliest_deadline = EarliestDeadline()
    configs = _create_configs(config, features, rules, earliest_deadline, metadata)
    nodes, running = cast("dict[int, Node]", {}), cast("dict[int, Node]", {})
    woken: dict[WakeKey, None] = {}  # A dictionary keeps the order: `setdefault` adds a key.
    state = ClusterState(
        cluster_id=cluster_id,
        config=config,
        configs=configs,
        metadata=metadata,
        features=features,
        nodes=nodes,
        inter_broker=InterBrokerChannel(running, request_timeout_ms=config.integer("request.timeout.ms")),
        rng=rng,
        earliest_deadline=earliest_deadline,
        wake=woken.setdefault,
        woken=woken,
        api_versions={route.api_key: route.listed for route in routes.values()},
        release=release,
        rules=rules,
        edition_records=records,
        config_api_dialect=_config_api_dialect(config),
        security=Security(config, rng),
        authorizer=create_authorizer(config, host_ranges=release.admin.checks_acl_hosts),
    )
    if node_options is not None:
        _set_node_configs(state, node_options)
    with nullcontext() if stored is None else stored.translate_errors():
        make_node = _prepare_nodes(state, stored, budget, lambda: core.now_ms, now_ms)
        core = _create_core(state, routes, make_node, now_ms=now_ms)
        for node_id in node_ids:
            nodes[node_id] = running[node_id] = make_node(node_id)
    _limit_nodes(core, node_options)
    _fill_cluster(core, stored, topics)
    return core


def _set_node_configs(state: ClusterState, node_options: NodeOptions) -> None:
    for node_id, given in node_options.properties.items():
        state.node_configs[node_id] = state.configs.node_static[node_id] = state.config.with_overrides(given)


def _limit_nodes(core: Core, node_options: NodeOptions | None) -> None:
    """Let single nodes serve the API versions of another release."""
    if node_options is None:
        return
    from mockbroker.engine.node_versions import limit_node

    for node_id, limits in node_options.versions.items():
        limit_node(core, node_id, limits)


def record_topic_names(core: Core) -> None:
    """Let the journal know the names of topics, which requests name by their ids, also after they are deleted."""
    metadata, journal = core.state.metadata, core.journal

    def record_name(_: object, topic: Topic, _partitions: object) -> None:
        journal.record_topic_name(topic.topic_id, topic.name)

    for topic in metadata.topics():
        record_name(None, topic, None)
    metadata.add_listener(record_name)


def _choose_identity(
    stored: StoredCluster | None, features: dict[str, int], release: Release, rng: random.Random
) -> tuple[str, dict[str, int]]:
    """The id of the cluster and its feature levels: the stored ones if there are any. Raises: ConfigError."""
    cluster_id = uuids.to_text(rng.randbytes(16))
    if stored is None:
        return cluster_id, features
    levels = stored.choose_levels(features, release.features.levels)
    return stored.initialize(rng, cluster_id), levels


def _fill_cluster(core: Core, stored: StoredCluster | None, topics: Mapping[str, int]) -> None:
    """Restore what is stored, create topics, and store what changes from now on. Raises: KafkaError, ConfigError."""
    if stored is not None:
        stored.restore(core.state, now_ms=core.now_ms)
        with stored.translate_errors():
            core.requests.recorder = stored.record(core.state, lambda: core.now_ms)
    _create_topics(core, topics)


def _create_core(
    state: ClusterState, routes: Mapping[int, Route], make_node: Callable[[int], Node], *, now_ms: int
) -> Core:
    return Core(
        state,
        routes,
        make_node,
        close_share_session=_close_share_session,
        controller_routes=partial(_select_controller_routes, routes),
        now_ms=now_ms,
    )


def _prepare_nodes(
    state: ClusterState,
    stored: StoredCluster | None,
    budget: MemoryBudget | None,
    clock: Callable[[], int],
    started_ms: int,
) -> Callable[[int], Node]:
    """Create the logs of the cluster. Returns: what makes a node that uses them."""
    directory: LogDirectory | None = None if stored is None else stored.directory
    if state.config.replication.is_real:
        from mockbroker.broker.replicated_nodes import ReplicatedNodes

        nodes = ReplicatedNodes(state, clock, started_ms=started_ms, budget=budget, directory=directory)
        state.log_store = nodes.store
        return nodes.make_node
    store = LogStore(
        state.metadata,
        state.configs,
        state.wake,
        started_ms=started_ms,
        budget=budget,
        directory=directory,
        earliest=state.earliest_deadline,
    )
    state.log_store = store
    return partial(_make_node, state, store)


def _make_node(state: ClusterState, store: ClusterLogs, node_id: int) -> Node:
    """A broker with its rack."""
    return Node(node_id, state, store, rack=find_rack(state, node_id))


def _create_topics(core: Core, topics: Mapping[str, int]) -> None:
    """Create topics; one that is stored must have as many partitions. Raises: KafkaError, ConfigError."""
    for name, count in topics.items():
        topic = core.state.metadata.topic(name)
        if topic is None:
            core.create_topic(name, count)
        elif len(topic.partitions) != count:
            stored = len(topic.partitions)
            raise ConfigError(f"topic {name}: {count} partitions; in the data directory it has {stored}")


def _create_configs(
    config: BrokerConfig,
    features: Mapping[str, int],
    rules: ShareRules,
    earliest: EarliestDeadline,
    metadata: ClusterImage,
) -> Configs:
    has_elr = features.get("eligible.leader.replicas.version", 0) >= _FIRST_VERSION_WITH_ELR
    group_names, compacts_state_topic = rules.groups.config_names, rules.state.compacts_state_topic
    configs = Configs(
        config,
        elr=has_elr,
        group_names=group_names,
        compacts_state_topic=compacts_state_topic,
        earliest=earliest,
    )
    configs.track_topics(metadata)
    return configs


def _rules_of_persister(rules: ShareRules, share_persister: str) -> ShareRules:
    if share_persister != "control-records":
        return rules
    return replace(rules, state=replace(rules.state, in_partition_log=True))


def _config_with_edition_defaults(config: BrokerConfig, rules: ShareRules, defaults: Mapping[str, str]) -> BrokerConfig:
    config = config.with_defaults(defaults) if defaults else config
    return config.with_defaults(CONTROL_RECORDS_DEFAULTS) if rules.state.in_partition_log else config


def _close_share_session(connection_id: int, ctx: Context) -> None:
    """Close the share session of a connection that ended. The handlers of share groups are loaded by then."""
    from mockbroker.handlers.share.share_leader import close_session_of_connection

    close_session_of_connection(connection_id, ctx)


def _select_controller_routes(routes: Mapping[int, Route]) -> Mapping[int, Route]:
    """The APIs of the controller's listener; a cluster without one does not import their module."""
    from mockbroker.handlers.controller import select_controller_routes

    return select_controller_routes(routes)


def _config_api_dialect(config: BrokerConfig) -> ConfigApiDialect | None:
    """The names of the configuration APIs, None for the released ones, which load no module of the editions."""
    if config.dialect is None:
        return None
    from mockbroker.editions.config_api_names import ConfigApiNames

    return ConfigApiNames(config.dialect)


def _enabled_release(config: BrokerConfig, versions: ApiLimits | None) -> Release:
    """The release of a cluster, with unstable feature levels where they are enabled, and limited by `versions`."""
    release = RELEASES[config.release]
    features = release.features
    if config.boolean("unstable.feature.versions.enable"):
        features = features.with_unstable_levels()
    if versions is not None:
        features = versions.limit_features(features)
    return release if features is release.features else replace(release, features=features)


def _edition_parts(
    release: Release, edition_name: str | None, config: BrokerConfig
) -> tuple[Mapping[int, Route], ShareRules, EditionRecords | None, Mapping[str, str]]:
    """The APIs, rules, records and defaults of a release or an edition. A release loads no module of the editions.

    config: it may enable unstable versions of the release's APIs.
    """
    if edition_name is None:
        routes = select_routes(release.apis)
        if config.boolean("unstable.api.versions.enable"):
            routes = {api_key: route.with_unstable_version() for api_key, route in routes.items()}
        return routes, release.share, None, {}
    from mockbroker.editions import load_edition

    edition = load_edition(edition_name)
    return edition.routes, edition.rules, edition.records, edition.defaults
