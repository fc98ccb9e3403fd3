"""Configuration as DescribeConfigs and CreateTopics show it: value, source, and the synonyms behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from mockbroker.config_keys import ConfigKey, Scope, Value, keys, to_text
from mockbroker.state.config_changes import DYNAMIC
from mockbroker.state.configs import ALL_BROKERS, Configs, Resource, ResourceKind, Source, synonyms

#: Broker settings that answer for each other, in this order. Source: Kafka's DynamicBrokerConfig.
_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
#: A name that Kafka does not define has no type, and is treated as a secret.
_UNKNOWN_TYPE = 0


class Synonym(msgspec.Struct, frozen=True):
    """A name and a value that stand behind a value in force."""

    name: str
    value: str | None
    source: Source


class ConfigEntry(msgspec.Struct, frozen=True):
    """One configuration of a resource. `type` is the wire's ConfigType number; a secret has no value."""

    name: str
    value: str | None
    source: Source
    type: int
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]


def describe(configs: Configs, resource: Resource, names: Collection[str] | None) -> list[ConfigEntry]:
    """The entries of a resource; names asked for that do not exist are left out, as Kafka does.

    names: None, or none at all, stands for every name.
    """
    entries = _entries(configs, resource)
    wanted = frozenset(names or ())
    return [entry for entry in entries if not wanted or entry.name in wanted]


def creation_entries(configs: Configs, given: Mapping[str, str]) -> list[ConfigEntry]:
    """What a new topic with these texts would have, in order of the names, as CreateTopics answers."""
    entries = []
    for name, key in sorted(keys(Scope.TOPIC).items()):
        if name in given:
            entries.append(_entry(key, key.parse(given[name]), Source.TOPIC))
        elif not key.internal:
            found = _first_set(configs, key)
            entries.append(_entry(key, configs.inherited(key), found.source if found else Source.DEFAULT))
    return entries


def _entries(configs: Configs, resource: Resource) -> Iterator[ConfigEntry]:
    if resource.kind is ResourceKind.TOPIC:
        yield from _of_scope(configs, resource, Scope.TOPIC, Source.TOPIC)
    elif resource.kind is ResourceKind.GROUP:
        yield from _of_scope(configs, resource, Scope.GROUP, Source.GROUP)
    elif resource.kind is ResourceKind.CLIENT_METRICS:
        yield from _of_scope(configs, resource, Scope.CLIENT_METRICS, Source.CLIENT_METRICS)
    elif resource == ALL_BROKERS:
        yield from _of_all_brokers(configs)
    else:
        yield from _of_broker(configs, resource)


def _of_scope(configs: Configs, resource: Resource, scope: Scope, own: Source) -> Iterator[ConfigEntry]:
    given = configs.given(resource)
    names = configs.group_names if scope is Scope.GROUP else None
    for name, key in keys(scope).items():
        if (key.internal and name not in given) or (names is not None and name not in names):
            continue
        value = configs.value(resource, key)
        if names is None:
            behind = _behind(configs, key)
        else:  # Where groups have names of their own, brokers do not stand behind them.
            behind = () if name in given else (Synonym(name, to_text(key.default), Source.DEFAULT),)
        if name in given:
            behind = (Synonym(name, to_text(value), own), *behind)
        yield _entry(key, value, behind[0].source if behind else Source.DEFAULT, behind=behind)


def _behind(configs: Configs, key: ConfigKey) -> tuple[Synonym, ...]:
    """What the broker says. A group key that the broker has no name for shows its own default."""
    names = synonyms(key)
    if names:
        return _synonyms(configs, names[0][0])
    if key.scope is Scope.GROUP and key.default is not None:
        return (Synonym(key.name, to_text(key.default), Source.DEFAULT),)
    return ()


def _of_all_brokers(configs: Configs) -> Iterator[ConfigEntry]:
    for name, text in configs.given(ALL_BROKERS).items():
        key = keys(Scope.BROKER).get(name)
        behind = tuple(s for s in _synonyms(configs, name) if s.source is Source.DYNAMIC_DEFAULT_BROKER)
        if key is None:
            yield _unknown(name, Source.DYNAMIC_DEFAULT_BROKER, behind)
        else:
            yield _entry(key, key.parse(text), Source.DYNAMIC_DEFAULT_BROKER, behind=behind)


def _of_broker(configs: Configs, resource: Resource) -> Iterator[ConfigEntry]:
    known = keys(Scope.BROKER)
    own = configs.given(resource)
    for name, key in known.items():
        if key.internal and name not in own and name not in configs.static.given:
            continue
        behind = _synonyms(configs, name, resource)
        yield _entry(
            key,
            configs.value(resource, key),
            behind[0].source if behind else Source.DEFAULT,
            behind=behind,
            read_only=name not in DYNAMIC,
        )
    for name in {**configs.static.given, **configs.given(ALL_BROKERS), **own}:
        if name not in known:
            behind = _synonyms(configs, name, resource)
            yield _unknown(name, behind[0].source, behind)


def _synonyms(configs: Configs, name: str, broker: Resource | None = None) -> tuple[Synonym, ...]:
    """All settings behind a broker's name, strongest first.

    Those before the first of that very name are dropped, and with them all when the name itself is nowhere set: so
    retention.ms shows the source DEFAULT even when log.retention.hours decides it. That is what Kafka does.
    """
    family = _family(name)
    own = configs.given(broker) if broker else {}
    given: tuple[tuple[Mapping[str, str], Source], ...] = (
        (own, Source.DYNAMIC_BROKER),
        (configs.given(ALL_BROKERS), Source.DYNAMIC_DEFAULT_BROKER),
        (configs.static.given, Source.STATIC_BROKER),
    )
    found = [Synonym(one, _shown(one, texts[one]), source) for texts, source in given for one in family if one in texts]
    for one in family:
        key = keys(Scope.BROKER).get(one)
        if key is not None and key.default is not None:
            found.append(Synonym(one, None if key.sensitive else to_text(key.default), Source.DEFAULT))
    start = next((at for at, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[start:])


def _first_set(configs: Configs, key: ConfigKey) -> Synonym | None:
    """The setting that decides a new topic's value. Unlike DescribeConfigs, the controller looks at every synonym."""
    for texts, source in (
        (configs.given(ALL_BROKERS), Source.DYNAMIC_DEFAULT_BROKER),
        (configs.static.given, Source.STATIC_BROKER),
    ):
        for name, _ in synonyms(key):
            if name in texts:
                return Synonym(name, texts[name], source)
    return None


def _family(name: str) -> tuple[str, ...]:
    if name == _FLUSH[0]:
        return _FLUSH
    return next((family for family in _FAMILIES if name in family), (name,))


def _shown(name: str, text: str) -> str | None:
    key = keys(Scope.BROKER).get(name)
    return None if key is None or key.sensitive else text


def _entry(
    key: ConfigKey, value: Value, source: Source, *, behind: tuple[Synonym, ...] = (), read_only: bool = False
) -> ConfigEntry:
    text = None if key.sensitive else to_text(value)
    return ConfigEntry(key.name, text, source, key.type.wire, read_only, key.sensitive, behind)


def _unknown(name: str, source: Source, behind: tuple[Synonym, ...]) -> ConfigEntry:
    return ConfigEntry(name, None, source, _UNKNOWN_TYPE, True, True, behind)
