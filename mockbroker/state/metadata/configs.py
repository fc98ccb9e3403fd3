"""Dynamic configuration of topics, brokers and groups, on top of the static broker configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum

import msgspec

from mockbroker.config.broker_config import BrokerConfig
from mockbroker.config.keys import ConfigKey, ConfigType, Scope, Value
from mockbroker.config.limits import parse_limits
from mockbroker.state.changed_keys import ChangedKeys
from mockbroker.state.metadata.cluster_image import ClusterImage, Topic, TopicChange
from mockbroker.state.metadata.topics import INTERNAL_TOPICS, CoordinatorKind
from mockbroker.state.timers import UNKNOWN_MS, EarliestDeadline

#: The broker's names for a topic's configuration; the first one that is set is used. The number is the factor
#: to the topic's unit (hours to milliseconds). Source: Kafka's ServerTopicConfigSynonyms.
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
TOPIC_SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
    "max.message.bytes": (("message.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "preallocate": (("log.preallocate", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "max.decompressed.message.bytes": (("max.decompressed.message.bytes", 1),),
    "remote.copy.lag.ms": (("log.remote.copy.lag.ms", 1),),
    "remote.copy.lag.bytes": (("log.remote.copy.lag.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}

#: Broker names of group keys that do not begin with "group." and the key's own name.
_GROUP_SYNONYMS: Mapping[str, str] = {"streams.assignor.name": "group.streams.assignors"}


class ResourceKind(IntEnum):
    """The resource types of the configuration APIs; the numbers are the wire's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Resource(msgspec.Struct, frozen=True):
    """A resource with configuration; a broker's name is its id, or "" for all brokers."""

    kind: ResourceKind
    name: str

    @property
    def is_topic(self) -> bool:
        """Whether its configuration concerns only the topic of this name."""
        return self.kind is ResourceKind.TOPIC

    @property
    def is_broker(self) -> bool:
        """Whether its configuration may concern every topic."""
        return self.kind is ResourceKind.BROKER


class EffectiveConfig(Mapping[str, Value]):
    """The effective values, typed, by name. It is a live view: changes are visible at once.

    node_id: the broker whose own settings apply to a topic or group; None for those of all brokers only.
    """

    def __init__(self, configs: Configs, resource: Resource, node_id: int | None) -> None:
        self._configs = configs
        self._resource = resource
        self._node_id = node_id
        self._scope = configs.static.known_keys(_SCOPES[resource.kind])
        self._seen: dict[str, Value] = {}
        self._generation = -1

    def __getitem__(self, name: str) -> Value:
        if self._generation != self._configs.generation:
            self._seen.clear()
            self._generation = self._configs.generation
        try:
            return self._seen[name]
        except KeyError:
            value = self._seen[name] = self._configs.value(self._resource, self._scope[name], self._node_id)
            return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._scope)

    def __len__(self) -> int:
        return len(self._scope)


#: Called with a resource, and its texts before and after a change.
ConfigListener = Callable[[Resource, Mapping[str, str], Mapping[str, str]], None]


class Configs:
    """All dynamic configuration of the cluster, as texts, by resource.

    elr: the feature eligible.leader.replicas.version is enabled. Then the controller sets min.insync.replicas for the
    whole cluster at the start (KIP-966), which DescribeConfigs returns as a dynamic default. group_names: the
    configurations of groups, None for all. compacts_state_topic: the share coordinator's topic is compacted. earliest:
    of the cluster; deadlines of the log cleaner depend on the configuration.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        elr: bool = True,
        group_names: frozenset[str] | None = None,
        compacts_state_topic: bool = False,
        earliest: EarliestDeadline | None = None,
    ) -> None:
        self.static = config
        self.limits = parse_limits(config.given)
        self.batch_limits = self.limits.batch
        self.node_static: dict[int, BrokerConfig] = {}
        self.group_names = group_names
        self._compacts_state_topic = compacts_state_topic
        self.elr = elr
        self._changed: ChangedKeys[Resource] = ChangedKeys()
        self._earliest = EarliestDeadline() if earliest is None else earliest
        self.changes: Counter[ResourceKind] = Counter()
        self._overrides: dict[Resource, dict[str, str]] = {}
        self._effective: dict[tuple[ResourceKind, str], dict[int | None, EffectiveConfig]] = {}
        self._listeners: list[ConfigListener] = []
        if elr:
            self.set_overrides(ALL_BROKERS, {"min.insync.replicas": str(config["min.insync.replicas"])})

    def topic(self, name: str, node_id: int | None = None) -> EffectiveConfig:
        """The effective configuration of a topic on a broker; for an unknown topic, that of a new one.

        node_id: the broker, whose own dynamic settings apply; None for a topic without one, as without a leader.
        """
        return self._effective_config(ResourceKind.TOPIC, name, node_id)

    def group(self, group_id: str, node_id: int | None = None) -> EffectiveConfig:
        """The effective configuration of a group of any type on a broker. node_id: as above."""
        return self._effective_config(ResourceKind.GROUP, group_id, node_id)

    def client_metrics(self, name: str) -> EffectiveConfig:
        """The effective configuration of a client metrics subscription."""
        return self._effective_config(ResourceKind.CLIENT_METRICS, name)

    def broker(self, node_id: int) -> EffectiveConfig:
        """The effective configuration of a broker, dynamic changes included."""
        return self._effective_config(ResourceKind.BROKER, str(node_id))

    def brokers(self) -> EffectiveConfig:
        """The effective configuration of all brokers, cluster-wide dynamic changes included."""
        return self._effective_config(ALL_BROKERS.kind, ALL_BROKERS.name)

    @property
    def controller_id(self) -> int:
        """The node of the controller, whose own settings count where it decides: the first one."""
        node_id = self.static["node.id"]
        assert isinstance(node_id, int)
        return node_id

    def overrides(self, resource: Resource) -> Mapping[str, str]:
        """The texts that are set for exactly this resource."""
        return self._overrides.get(resource, {})

    def overrides_of_broker(self, node_id: int | None) -> Mapping[str, str]:
        """The texts that are set for one broker; none without one."""
        return {} if node_id is None else self.overrides(Resource(ResourceKind.BROKER, str(node_id)))

    def set_cluster_min_isr(self) -> None:
        """Set min.insync.replicas for the cluster, and remove it from brokers, as eligible leader replicas require.

        Source: Kafka's ConfigurationControlManager.maybeGenerateElrSafetyRecords.
        """
        name = "min.insync.replicas"
        overrides = self.overrides(ALL_BROKERS)
        if name not in overrides:
            self.set_overrides(ALL_BROKERS, {**overrides, name: str(self.static[name])})
        for node_id in self.configured_names(ResourceKind.BROKER):
            broker = Resource(ResourceKind.BROKER, node_id)
            if node_id and name in self.overrides(broker):
                self.set_overrides(broker, {key: text for key, text in self.overrides(broker).items() if key != name})

    def configured_names(self, kind: ResourceKind) -> list[str]:
        """Names of the resources of a type that have their own configuration."""
        return sorted(resource.name for resource in self._overrides if resource.kind is kind)

    def set_overrides(self, resource: Resource, given: Mapping[str, str]) -> None:
        """Replace the checked texts of a resource; without texts the resource is removed."""
        before = self._overrides.get(resource, {})
        if given:
            self._overrides[resource] = dict(given)
        else:
            self._overrides.pop(resource, None)
        self._count_change(resource)
        self.changes[resource.kind] += 1
        for listener in self._listeners:
            listener(resource, before, given)

    @property
    def generation(self) -> int:
        """The number of changes."""
        return self._changed.count

    def resources_changed_since(self, generation: int) -> list[Resource] | None:
        """The resources whose own texts have changed since a generation, deleted ones included; None if unknown."""
        return self._changed.since(generation)

    def _count_change(self, resource: Resource) -> None:
        self._changed.add(resource)
        self._earliest.ms = UNKNOWN_MS

    def add_listener(self, listener: ConfigListener) -> None:
        """Call `listener(resource, before, after)` after each change of a resource."""
        self._listeners.append(listener)

    def track_topics(self, metadata: ClusterImage) -> None:
        """Configure internal topics when they are created, and remove the configuration of deleted topics."""
        metadata.add_listener(self._on_topic_change)

    def _on_topic_change(self, change: TopicChange, topic: Topic, _: object) -> None:
        resource = Resource(ResourceKind.TOPIC, topic.name)
        if change is TopicChange.DELETED:
            self.remove_overrides(resource)
        elif change is TopicChange.CREATED and topic.internal:
            self.set_overrides(resource, self._internal_settings(topic.name))

    def _internal_settings(self, name: str) -> dict[str, str]:
        settings = internal_settings(name, self.static)
        if name == INTERNAL_TOPICS[CoordinatorKind.SHARE].name and self._compacts_state_topic:
            settings["cleanup.policy"] = "compact"
            del settings["retention.ms"]
        return settings

    def remove_overrides(self, resource: Resource) -> None:
        """Remove the configuration of a deleted topic or group."""
        self._overrides.pop(resource, None)
        self._effective.pop((resource.kind, resource.name), None)
        self._count_change(resource)

    def value(self, resource: Resource, key: ConfigKey, node_id: int | None = None) -> Value:
        """The effective typed value of a key of this resource. node_id: the broker, where it is a topic or group."""
        text = self.overrides(resource).get(key.name)
        if text is not None:
            return key.parse(text)
        if resource.kind is ResourceKind.BROKER:
            text = self.overrides(ALL_BROKERS).get(key.name)
            return key.parse(text) if text is not None else self.static_of(resource)[key.name]
        return self.inherited_value(key, node_id)

    def static_of(self, broker: Resource | None) -> BrokerConfig:
        """The static configuration of a broker, which may have properties of its own; else that of all."""
        name = "" if broker is None else broker.name
        return self.static_of_node(int(name)) if name.isascii() and name.isdigit() else self.static

    def static_of_node(self, node_id: int | None) -> BrokerConfig:
        """The static configuration of a broker; None: of all."""
        return self.static if node_id is None else self.node_static.get(node_id, self.static)

    def inherited_value(self, key: ConfigKey, node_id: int | None) -> Value:
        """The value without an own setting of the topic or group: the broker's value, or Kafka's default.

        Each broker has its own settings before those of all brokers. Source: Kafka's DynamicBrokerConfig.
        """
        own, static = self.overrides_of_broker(node_id), self.static_of_node(node_id)
        for name, unit in self.synonyms(key):
            broker_key = self.static.known_keys(Scope.BROKER)[name]
            text = own.get(name, self.overrides(ALL_BROKERS).get(name))
            value = broker_key.parse(text) if text is not None else static[name]
            if value is not None:
                if isinstance(value, list) and key.type is not ConfigType.LIST:
                    return value[0]
                return value * unit if unit != 1 and isinstance(value, int) else value
        return key.default

    def synonyms(self, key: ConfigKey) -> tuple[tuple[str, int], ...]:
        """The broker's names for a topic's or group's key, with their factors."""
        if key.scope is Scope.TOPIC:
            return TOPIC_SYNONYMS.get(key.name, ())
        name = _GROUP_SYNONYMS.get(key.name, f"group.{key.name}")
        return ((name, 1),) if name in self.static.known_keys(Scope.BROKER) else ()

    def _effective_config(self, kind: ResourceKind, name: str, node_id: int | None = None) -> EffectiveConfig:
        by_node = self._effective.get((kind, name))
        if by_node is None:
            by_node = self._effective[kind, name] = {}
        config = by_node.get(node_id)
        if config is None:
            config = by_node[node_id] = EffectiveConfig(self, Resource(kind, name), node_id)
        return config


def internal_settings(name: str, config: Mapping[str, Value]) -> dict[str, str]:
    """The settings of Kafka's coordinators for their internal topics."""
    if name == "__consumer_offsets":
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config["offsets.topic.segment.bytes"]),
        }
    if name == "__transaction_state":
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
            "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
            "unclean.leader.election.enable": "false",
        }
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(config["share.coordinator.state.topic.min.isr"]),
        "retention.ms": "-1",
        "segment.bytes": str(config["share.coordinator.state.topic.segment.bytes"]),
    }


#: The resource of settings for all brokers, whose name is empty on the wire.
ALL_BROKERS = Resource(ResourceKind.BROKER, "")

_SCOPES = {
    ResourceKind.TOPIC: Scope.TOPIC,
    ResourceKind.BROKER: Scope.BROKER,
    ResourceKind.CLIENT_METRICS: Scope.CLIENT_METRICS,
    ResourceKind.GROUP: Scope.GROUP,
}
