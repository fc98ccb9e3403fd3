"""Configuration entries of DescribeConfigs and CreateTopics: value, source, and synonyms."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

import msgspec
from msgspec import structs

from mockbroker.config.keys import ConfigKey, Scope, Value, format_value
from mockbroker.state.metadata.config_changes import DYNAMIC
from mockbroker.state.metadata.configs import ALL_BROKERS, Configs, ConfigSource, Resource, ResourceKind

#: Broker settings that are synonyms of each other, in this order. Source: Kafka's DynamicBrokerConfig.
_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
#: A name that Kafka does not define has no type, and is treated as sensitive.
_UNKNOWN_TYPE = 0
_LISTENER_NAME = re.compile(r"listener\.name\.[^.]*\.(.*)")
#: Settings of a listener that also have the prefix of a SASL mechanism.
_OF_MECHANISMS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

#: Resources whose configurations of a scope are listed, and the source of what is set for them.
_SCOPES = {
    ResourceKind.TOPIC: Scope.TOPIC,
    ResourceKind.GROUP: Scope.GROUP,
    ResourceKind.CLIENT_METRICS: Scope.CLIENT_METRICS,
}
_SOURCES = {
    ResourceKind.TOPIC: ConfigSource.TOPIC,
    ResourceKind.GROUP: ConfigSource.GROUP,
    ResourceKind.CLIENT_METRICS: ConfigSource.CLIENT_METRICS,
}


class Synonym(msgspec.Struct, frozen=True):
    """A name and a value that an effective value is derived from."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(msgspec.Struct, frozen=True):
    """One configuration of a resource. `type` is the wire's ConfigType number; a sensitive one has no value."""

    name: str
    value: str | None
    source: ConfigSource
    type: int
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]


class ConfigApiDialect(Protocol):
    """Names of configurations in the configuration APIs, for an edition that does not have the released ones."""

    def to_released_names(self, resource_type: int, configs: Iterable[tuple[str, str | None]]) -> list[str]:
        """The released names of the configurations of a request, given as (name, value)."""

    def describe_entries(
        self, configs: Configs, resource: Resource, names: Collection[str] | None, node_id: int
    ) -> list[ConfigEntry]:
        """The entries of a resource by the edition's names."""


def describe_entries(
    configs: Configs, resource: Resource, names: Collection[str] | None, node_id: int
) -> list[ConfigEntry]:
    """The entries of a resource as a broker describes it; unknown requested names are omitted, as in Kafka.

    names: None or empty for all. node_id: the broker, whose own dynamic settings topics and groups inherit.
    """
    entries = _entries(configs, resource, Resource(ResourceKind.BROKER, str(node_id)))
    requested = frozenset(names or ())
    return [entry for entry in entries if not requested or entry.name in requested]


def creation_entries(configs: Configs, given: Mapping[str, str]) -> list[ConfigEntry]:
    """The entries of a new topic with these texts, in name order, as CreateTopics returns them.

    The controller answers, by the settings of its own node. Source: Kafka's ConfigurationControlManager.
    """
    entries = []
    for name, key in sorted(configs.static.known_keys(Scope.TOPIC).items()):
        if name in given:
            entries.append(_make_entry(key, key.parse(given[name]), ConfigSource.TOPIC))
        elif not key.internal:
            value = configs.inherited_value(key, configs.controller_id)
            entries.append(_make_entry(key, value, _deciding_source(configs, key)))
    return entries


def _entries(configs: Configs, resource: Resource, broker: Resource) -> Iterator[ConfigEntry]:
    scope = _SCOPES.get(resource.kind)
    if scope is not None:
        yield from _scope_entries(configs, resource, scope, broker)
    elif resource == ALL_BROKERS:
        yield from _all_brokers_entries(configs)
    else:
        yield from _broker_entries(configs, resource)


def _scope_entries(configs: Configs, resource: Resource, scope: Scope, broker: Resource) -> Iterator[ConfigEntry]:
    given, source, node_id = configs.overrides(resource), _SOURCES[resource.kind], int(broker.name)
    names = configs.group_names if scope is Scope.GROUP else None
    for name, key in configs.static.known_keys(scope).items():
        if (key.internal and name not in given) or (names is not None and name not in names):
            continue
        value = configs.value(resource, key, node_id)
        if names is None:
            entry_synonyms = _broker_synonyms(configs, key, broker)
        else:  # Group names of an edition have no broker synonyms.
            entry_synonyms = () if name in given else (Synonym(name, format_value(key.default), ConfigSource.DEFAULT),)
        if name in given:
            entry_synonyms = (Synonym(name, format_value(value), source), *entry_synonyms)
        yield _make_entry(key, value, entry_synonyms=entry_synonyms)


def _broker_synonyms(configs: Configs, key: ConfigKey, broker: Resource) -> tuple[Synonym, ...]:
    """The broker's synonyms. A group key without a broker name has its own default."""
    names = configs.synonyms(key)
    if names:
        return _synonyms(configs, names[0][0], broker)
    if key.scope is Scope.GROUP and key.default is not None:
        return (Synonym(key.name, format_value(key.default), ConfigSource.DEFAULT),)
    return ()


def _all_brokers_entries(configs: Configs) -> Iterator[ConfigEntry]:
    for name, text in configs.overrides(ALL_BROKERS).items():
        key = find_broker_key(configs, name)
        entry_synonyms = tuple(s for s in _synonyms(configs, name) if s.source is ConfigSource.DYNAMIC_DEFAULT_BROKER)
        if key is None:
            yield _unknown_entry(name, ConfigSource.DYNAMIC_DEFAULT_BROKER, entry_synonyms)
        else:
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            entry = _make_entry(key, key.parse(text), source, entry_synonyms=entry_synonyms)
            yield structs.replace(entry, name=name)


def _broker_entries(configs: Configs, resource: Resource) -> Iterator[ConfigEntry]:
    known_keys = configs.static.known_keys(Scope.BROKER)
    overrides, given = configs.overrides(resource), configs.static_of(resource).given
    for name, key in known_keys.items():
        if key.internal and name not in overrides and name not in given:
            continue
        entry_synonyms = _synonyms(configs, name, resource)
        value = configs.value(resource, key)
        yield _make_entry(key, value, entry_synonyms=entry_synonyms, read_only=name not in DYNAMIC)
    for name in {**given, **configs.overrides(ALL_BROKERS), **overrides}:
        if name not in known_keys:
            entry_synonyms = _synonyms(configs, name, resource)
            listener_key = find_broker_key(configs, name)
            if listener_key is None:
                yield _unknown_entry(name, entry_synonyms[0].source, entry_synonyms)
            else:
                text = entry_synonyms[0].value
                value = None if text is None else listener_key.parse(text)
                entry = _make_entry(listener_key, value, entry_synonyms=entry_synonyms, read_only=True)
                yield structs.replace(entry, name=name)


def _synonyms(configs: Configs, name: str, broker: Resource | None = None) -> tuple[Synonym, ...]:
    """All settings that a broker's name is derived from, strongest first.

    Those before the first one of that very name are dropped, and all of them when the name itself is not set: so
    retention.ms has the source DEFAULT even when log.retention.hours decides it. That is Kafka's behaviour.
    """
    listener_key, known_keys = find_broker_key(configs, name), configs.static.known_keys(Scope.BROKER)
    is_of_listener = listener_key is not None and listener_key.name != name
    family = (name, listener_key.name) if listener_key is not None and is_of_listener else _synonym_family(name)
    overrides = configs.overrides(broker) if broker else {}
    given: tuple[tuple[Mapping[str, str], ConfigSource], ...] = (
        (overrides, ConfigSource.DYNAMIC_BROKER),
        (configs.overrides(ALL_BROKERS), ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (configs.static_of(broker).given, ConfigSource.STATIC_BROKER),
    )
    entry_synonyms = [
        Synonym(synonym_name, _shown_value(find_broker_key(configs, synonym_name), texts[synonym_name]), source)
        for texts, source in given
        for synonym_name in family
        if synonym_name in texts
    ]
    for synonym_name in family:
        key = known_keys.get(synonym_name)
        if key is not None and key.default is not None:
            text = None if key.sensitive else format_value(key.default)
            entry_synonyms.append(Synonym(synonym_name, text, ConfigSource.DEFAULT))
    start = next((at for at, synonym in enumerate(entry_synonyms) if synonym.name == name), len(entry_synonyms))
    return tuple(entry_synonyms[start:])


def find_broker_key(configs: Configs, name: str) -> ConfigKey | None:
    """The definition of a broker's configuration, with or without the prefix of a listener and of a mechanism."""
    known_keys = configs.static.known_keys(Scope.BROKER)
    match = _LISTENER_NAME.fullmatch(name)
    if match is None:
        return known_keys.get(name)
    base = match[1]
    return known_keys.get(next((suffix for suffix in _OF_MECHANISMS if base.endswith(suffix)), base))


def _deciding_source(configs: Configs, key: ConfigKey) -> ConfigSource:
    """The source of a new topic's value. Unlike DescribeConfigs, the controller checks every synonym."""
    names = {name for name, _ in configs.synonyms(key)}
    if not names.isdisjoint(configs.overrides_of_broker(configs.controller_id)):
        return ConfigSource.DYNAMIC_BROKER
    if not names.isdisjoint(configs.overrides(ALL_BROKERS)):
        return ConfigSource.DYNAMIC_DEFAULT_BROKER
    return (
        ConfigSource.DEFAULT
        if names.isdisjoint(configs.static_of_node(configs.controller_id).given)
        else ConfigSource.STATIC_BROKER
    )


def _synonym_family(name: str) -> tuple[str, ...]:
    if name == _FLUSH[0]:
        return _FLUSH
    return next((family for family in _FAMILIES if name in family), (name,))


def _shown_value(key: ConfigKey | None, text: str) -> str | None:
    return None if key is None or key.sensitive else text


def _make_entry(
    key: ConfigKey,
    value: Value,
    source: ConfigSource | None = None,
    *,
    entry_synonyms: tuple[Synonym, ...] = (),
    read_only: bool = False,
) -> ConfigEntry:
    """The entry of a key; its source is by default that of the first synonym."""
    text = None if key.sensitive else format_value(value)
    if source is None:
        source = entry_synonyms[0].source if entry_synonyms else ConfigSource.DEFAULT
    return ConfigEntry(key.name, text, source, key.type.wire, read_only, key.sensitive, entry_synonyms)


def _unknown_entry(name: str, source: ConfigSource, entry_synonyms: tuple[Synonym, ...]) -> ConfigEntry:
    return ConfigEntry(name, None, source, _UNKNOWN_TYPE, True, True, entry_synonyms)
