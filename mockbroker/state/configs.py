"""Dynamic configuration of topics, brokers and groups over what the broker was started with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum

import msgspec

from mockbroker.config import BrokerConfig
from mockbroker.config_keys import ConfigKey, Scope, Value, keys
from mockbroker.state.metadata import Change, Metadata, Topic
from mockbroker.state.topics import INTERNAL_TOPICS, CoordinatorKind

#: The broker's names for a topic's configuration, the first that is set wins. The number is what one unit of it is
#: in the topic's unit (hours in milliseconds). Source: Kafka's ServerTopicConfigSynonyms.
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
TOPIC_SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
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
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}


class ResourceKind(IntEnum):
    """The resource types of the configuration APIs; the numbers are the wire's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
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
    """Whose configuration is meant; a broker's name is its id, or "" for all brokers."""

    kind: ResourceKind
    name: str


class Effective(Mapping[str, Value]):
    """The values in force, typed, by name. It is live: what is altered shows at the next look."""

    def __init__(self, configs: Configs, resource: Resource) -> None:
        self._configs = configs
        self._resource = resource
        self._scope = keys(_SCOPES[resource.kind])
        self._seen: dict[str, Value] = {}
        self._generation = -1

    def __getitem__(self, name: str) -> Value:
        if self._generation != self._configs.generation:
            self._seen.clear()
            self._generation = self._configs.generation
        if name not in self._seen:
            self._seen[name] = self._configs.value(self._resource, self._scope[name])
        return self._seen[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scope)

    def __len__(self) -> int:
        return len(self._scope)


#: Told of a resource, of what was set for it, and of what is set now.
Watcher = Callable[[Resource, Mapping[str, str], Mapping[str, str]], None]


class Configs:
    """All dynamic configuration of the cluster, as texts, by resource.

    elr: whether the feature eligible.leader.replicas.version is on. It makes the controller set min.insync.replicas
    for the whole cluster at the start (KIP-966), which DescribeConfigs shows as a dynamic default. group_names: what
    groups can be configured by, None for everything. compacts_states: whether the share coordinator's topic is
    compacted.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        elr: bool = True,
        group_names: frozenset[str] | None = None,
        compacts_states: bool = False,
    ) -> None:
        self.static = config
        self.group_names = group_names
        self._compacts_states = compacts_states
        self.elr = elr
        self.generation = 0
        self.changes: Counter[ResourceKind] = Counter()
        self._dynamic: dict[Resource, dict[str, str]] = {}
        self._effective: dict[Resource, Effective] = {}
        self._watchers: list[Watcher] = []
        if elr:
            self.put(ALL_BROKERS, {"min.insync.replicas": str(config["min.insync.replicas"])})

    def topic(self, name: str) -> Effective:
        """A topic's configuration in force; of a topic that does not exist, what it would have."""
        return self._live(Resource(ResourceKind.TOPIC, name))

    def group(self, group_id: str) -> Effective:
        """A group's configuration in force, for any kind of group."""
        return self._live(Resource(ResourceKind.GROUP, group_id))

    def client_metrics(self, name: str) -> Effective:
        """A subscription to metrics of clients."""
        return self._live(Resource(ResourceKind.CLIENT_METRICS, name))

    def broker(self, node_id: int) -> Effective:
        """A broker's configuration in force, dynamic changes included."""
        return self._live(Resource(ResourceKind.BROKER, str(node_id)))

    def brokers(self) -> Effective:
        """The configuration in force of all brokers, dynamic changes that are meant for all of them included."""
        return self._live(ALL_BROKERS)

    def given(self, resource: Resource) -> Mapping[str, str]:
        """The texts that were set for just this resource."""
        return self._dynamic.get(resource, {})

    def groups(self) -> list[str]:
        """Ids of the groups that have configuration of their own."""
        return self.names(ResourceKind.GROUP)

    def secure_least_in_sync(self) -> None:
        """With eligible leader replicas min.insync.replicas is the cluster's alone: it is set there, and nowhere else.

        Source: Kafka's ConfigurationControlManager.maybeGenerateElrSafetyRecords.
        """
        name = "min.insync.replicas"
        own = self.given(ALL_BROKERS)
        if name not in own:
            self.put(ALL_BROKERS, {**own, name: str(self.static[name])})
        for node_id in self.names(ResourceKind.BROKER):
            broker = Resource(ResourceKind.BROKER, node_id)
            if node_id and name in self.given(broker):
                self.put(broker, {key: text for key, text in self.given(broker).items() if key != name})

    def names(self, kind: ResourceKind) -> list[str]:
        """Names of the resources of a type that have configuration of their own."""
        return sorted(resource.name for resource in self._dynamic if resource.kind is kind)

    def put(self, resource: Resource, given: Mapping[str, str]) -> None:
        """Replace what was set for a resource; the texts have been checked. Nothing left means nothing kept."""
        before = self._dynamic.get(resource, {})
        if given:
            self._dynamic[resource] = dict(given)
        else:
            self._dynamic.pop(resource, None)
        self.generation += 1
        self.changes[resource.kind] += 1
        for watcher in self._watchers:
            watcher(resource, before, given)

    def watch(self, watcher: Watcher) -> None:
        """Have `watcher(resource, before, after)` called after each change of what is set for a resource."""
        self._watchers.append(watcher)

    def follow(self, metadata: Metadata) -> None:
        """Give coordinators' topics their configuration when they are made, and forget that of deleted topics."""
        metadata.watch(self._topic_changed)

    def _topic_changed(self, change: Change, topic: Topic) -> None:
        resource = Resource(ResourceKind.TOPIC, topic.name)
        if change is Change.DELETED:
            self.forget(resource)
        elif change is Change.CREATED and topic.internal:
            self.put(resource, self._internal_settings(topic.name))

    def _internal_settings(self, name: str) -> dict[str, str]:
        settings = internal_settings(name, self.static)
        if name == INTERNAL_TOPICS[CoordinatorKind.SHARE].name and self._compacts_states:
            settings["cleanup.policy"] = "compact"
            del settings["retention.ms"]
        return settings

    def forget(self, resource: Resource) -> None:
        """Drop the configuration of a topic or group that is deleted."""
        self._dynamic.pop(resource, None)
        self._effective.pop(resource, None)
        self.generation += 1

    def value(self, resource: Resource, key: ConfigKey) -> Value:
        """The typed value in force for a key of this resource."""
        text = self.given(resource).get(key.name)
        if text is not None:
            return key.parse(text)
        if resource.kind is ResourceKind.BROKER:
            text = self.given(ALL_BROKERS).get(key.name)
            return key.parse(text) if text is not None else self.static[key.name]
        return self.inherited(key)

    def inherited(self, key: ConfigKey) -> Value:
        """What a topic or group has that sets nothing itself: the broker's value, or Kafka's default."""
        for name, unit in synonyms(key):
            broker_key = keys(Scope.BROKER)[name]
            text = self.given(ALL_BROKERS).get(name)
            value = broker_key.parse(text) if text is not None else self.static[name]
            if value is not None:
                return value * unit if unit != 1 and isinstance(value, int) else value
        return key.default

    def _live(self, resource: Resource) -> Effective:
        live = self._effective.get(resource)
        if live is None:
            live = self._effective[resource] = Effective(self, resource)
        return live


def internal_settings(name: str, config: Mapping[str, Value]) -> dict[str, str]:
    """What Kafka's coordinators set for their own topics."""
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


def synonyms(key: ConfigKey) -> tuple[tuple[str, int], ...]:
    """The broker's names for a topic's or group's key, with their units."""
    if key.scope is Scope.TOPIC:
        return TOPIC_SYNONYMS.get(key.name, ())
    name = f"group.{key.name}"
    return ((name, 1),) if name in keys(Scope.BROKER) else ()


#: The resource of settings for all brokers, whose name is empty on the wire.
ALL_BROKERS = Resource(ResourceKind.BROKER, "")

_SCOPES = {
    ResourceKind.TOPIC: Scope.TOPIC,
    ResourceKind.BROKER: Scope.BROKER,
    ResourceKind.CLIENT_METRICS: Scope.CLIENT_METRICS,
    ResourceKind.GROUP: Scope.GROUP,
}
