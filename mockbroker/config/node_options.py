"""`NodeOptions`: what single nodes have instead of the whole cluster: static properties, and API versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

import msgspec

from mockbroker.config.broker_config import BrokerConfig
from mockbroker.config.effective_names import is_listed
from mockbroker.config.kafka_versions import ApiLimits, VersionsOption, parse_versions
from mockbroker.config.keys import ConfigError, Scope
from mockbroker.config.properties import format_value
from mockbroker.config.replication import VERSIONS

#: API versions of all nodes, or by the id of a node.
NodeVersions = VersionsOption | Mapping[int, VersionsOption]
NodeProperties = Mapping[int, Mapping[str, object]]

#: Names with an effect that a node may have a value of its own of; a trailing dot stands for all with this prefix.
_OF_NODES = (
    "auto.create.topics.enable",
    "broker.rack",
    "compression.",
    "fetch.max.bytes",
    "group.",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleanup.policy",
    "log.flush.interval.",
    "log.index.",
    "log.local.retention.",
    "log.message.timestamp.",
    "log.preallocate",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.",
    "log.segment.",
    "max.incremental.fetch.session.cache.slots",
    "max.request.partition.size.limit",
    "message.max.bytes",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.retention.",
    "quota.window.",
    "share.coordinator.snapshot.",
    "share.coordinator.state.topic.prune.interval.ms",
    "share.coordinator.write.timeout.ms",
    "telemetry.max.bytes",
    "transaction.abort.",
    "transaction.max.timeout.ms",
    "transaction.partition.verification.enable",
    "transaction.remove.",
    "transactional.id.expiration.ms",
    VERSIONS,
)


class NodeOptions(msgspec.Struct, frozen=True):
    """What single nodes have of their own, by their ids: the texts of properties, and API versions."""

    properties: Mapping[int, Mapping[str, str]] = MappingProxyType({})
    versions: Mapping[int, ApiLimits] = MappingProxyType({})

    def check_nodes(self, first_id: int, count: int) -> None:
        """Check that a cluster with this first node and number of nodes has them. Raises: ConfigError."""
        known = range(first_id, first_id + count)
        for node_id in (*self.properties, *self.versions):
            if node_id not in known:
                raise ConfigError(f"node {node_id}: the nodes are {', '.join(map(str, known))}")


def split_versions(
    versions: NodeVersions | None, config: BrokerConfig
) -> tuple[VersionsOption | None, Mapping[int, VersionsOption]]:
    """The API versions of all nodes, and those of single ones. config: may have them as a property.

    Raises: ConfigError for ids and names of APIs in one mapping, and for versions that are given twice.
    """
    given = config.given.get(VERSIONS)
    if given is not None and versions is not None:
        raise ConfigError(f"versions: given beside {VERSIONS}; give one of them")
    if isinstance(versions, str) or versions is None:
        return (given if versions is None else versions), {}
    by_node = {node_id: text for node_id, text in versions.items() if isinstance(node_id, int)}
    by_api = {name: last for name, last in versions.items() if isinstance(name, str)}
    if by_node and by_api:
        raise ConfigError("versions: has ids of nodes and names of APIs; give {node: {API: version}}")
    return (None, by_node) if by_node else (by_api, {})  # type: ignore[return-value]


def parse_node_settings(settings: Iterable[str]) -> dict[int, dict[str, object]]:
    """The properties of nodes from texts in the form "NODE:KEY=VALUE". Raises: ConfigError."""
    found: dict[int, dict[str, object]] = {}
    for setting in settings:
        node, _, rest = setting.partition(":")
        name, equals, value = rest.partition("=")
        if not node.isascii() or not node.isdigit() or not equals or not name.strip():
            raise ConfigError(f"node-set: {setting!r} has not the form NODE:KEY=VALUE")
        found.setdefault(int(node), {})[name.strip()] = value
    return found


def parse_node_options(
    config: BrokerConfig, properties: NodeProperties, versions: Mapping[int, VersionsOption]
) -> NodeOptions:
    """Check and parse what nodes have of their own; config: of all nodes.

    Raises: ConfigError for a name that no node can have a value of its own of, and for wrong values.
    """
    texts: dict[int, dict[str, str]] = {}
    limits: dict[int, ApiLimits] = {node_id: parse_versions(given) for node_id, given in versions.items()}
    for node_id, given in properties.items():
        if isinstance(node_id, bool) or not isinstance(node_id, int):
            raise ConfigError(f"node_properties: {node_id!r} is not the id of a node")
        texts[node_id] = {name: format_value(name, value) for name, value in given.items()}
        for name in texts[node_id]:
            _check_name(config, node_id, name, texts[node_id][name])
        own = texts[node_id].get(VERSIONS)
        if own is not None:
            if node_id in limits:
                raise ConfigError(f"node {node_id}: versions are given twice, once as {VERSIONS}")
            limits[node_id] = parse_versions(own)
        try:
            config.with_overrides(texts[node_id])
        except ConfigError as error:
            raise ConfigError(f"node {node_id}: {error}") from error
    return NodeOptions(texts, limits)


def _check_name(config: BrokerConfig, node_id: int, name: str, text: str) -> None:
    """Refuse a name that Kafka does not have, or whose value all nodes share here."""
    if is_listed(name, _OF_NODES):
        return
    known = config.known_keys(Scope.BROKER)
    if name not in known:
        nearest = get_close_matches(name, known, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise ConfigError(f"node {node_id}: {name} is no broker configuration{hint}")
    try:
        has_effect = name not in BrokerConfig({name: text}, release=config.release).ignored
    except ConfigError as error:
        raise ConfigError(f"node {node_id}: {error}") from error
    if has_effect:
        raise ConfigError(f"node {node_id}: {name} is the same for all nodes here; set it for the whole cluster")
