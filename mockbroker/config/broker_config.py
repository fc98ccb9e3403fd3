"""`BrokerConfig`: Kafka's broker configurations with defaults and ranges, from server.properties and --set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING

from msgspec import structs

from mockbroker.config.cleaner_checks import COMPACTION_LAGS, check_cleaner_memory, check_compaction_lags
from mockbroker.config.effective_names import has_effect
from mockbroker.config.keys import ConfigError, ConfigKey, ConfigValues, Scope, Value, config_keys
from mockbroker.config.plugins import (
    CONSUMER_ASSIGNORS,
    JMX_REPORTER,
    STANDARD_AUTHORIZER,
    UnsupportedPlugin,
    check_assignors,
    check_plugins,
    find_unsupported,
)
from mockbroker.config.properties import parse_properties
from mockbroker.config.releases import DEFAULT_RELEASE
from mockbroker.config.replication import OWN_NAMES, check_replication, parse_replication

if TYPE_CHECKING:
    from mockbroker.config.config_dialect import ConfigDialect

__all__ = ["BrokerConfig", "ConfigError", "Value"]

#: Values that a server.properties file must have for Kafka, and need not have here.
_STANDARD: Mapping[str, Value] = {
    "node.id": 0,
    "process.roles": ["broker", "controller"],
    "controller.listener.names": ["CONTROLLER"],
}

_LISTENER_NAME = "listener.name."
#: The configurations of the only supported authorizer, which Kafka's list does not contain.
_AUTHORIZER_NAMES = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")

#: A configuration that Kafka does not have: whether coordinators' topics are created as slowly as by an unused broker.
_COLD = "mockbroker.cold.coordinators"

#: min <= value <= max, where `_bound` names both. Source: the start-up checks of Kafka's GroupCoordinatorConfig and
#: ShareGroupConfig.
_BOUNDED = (
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.session.timeout.ms",
    "group.consumer.assignment.interval.ms",
    "group.share.heartbeat.interval.ms",
    "group.share.session.timeout.ms",
    "group.share.assignment.interval.ms",
    "group.share.delivery.count.limit",
    "group.share.record.lock.duration.ms",
    "group.share.partition.max.record.locks",
    "group.streams.heartbeat.interval.ms",
    "group.streams.session.timeout.ms",
    "group.streams.assignment.interval.ms",
)

#: The first is at most (or, when strict, below) the second.
_ORDERED = (
    ("group.share.max.size", "group.share.max.share.sessions", False),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms", False),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms", True),
    ("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms", True),
    ("group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms", True),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas", False),
    ("group.streams.min.task.offset.interval.ms", "group.streams.task.offset.interval.ms", False),
    ("group.streams.num.warmup.replicas", "group.streams.max.warmup.replicas", False),
)

#: Coordinators create their topics with these. Kafka accepts any value, starts, and then never finds a coordinator, as
#: no topic may have smaller segments; here the value is refused at the start.
_SEGMENTS = (
    "offsets.topic.segment.bytes",
    "share.coordinator.state.topic.segment.bytes",
    "transaction.state.log.segment.bytes",
)
_SEGMENT_MIN = 1 << 20


class BrokerConfig(Mapping[str, Value]):
    """Every broker configuration of a release of Kafka by name, typed; given values override Kafka's defaults.

    release: its name; decides which configurations exist, of topics and groups as well. `given` has the texts that were
    set, `unknown` the names that Kafka does not define (both accept them), `ignored` the names that Kafka defines and
    that have no effect on a broker without disks or peers; classes that it does not have are in `unsupported_plugins`.
    """

    def __init__(
        self,
        given: Mapping[str, str] | None = None,
        *,
        release: str = DEFAULT_RELEASE,
        dialect: ConfigDialect | None = None,
    ) -> None:
        self.release = release
        self.dialect = dialect
        self.given = dict(given or {})
        known = self.known_keys(Scope.BROKER)
        if dialect is not None:
            self.given = dialect.to_released_values(self.given)
            known = dialect.broker_keys
        lacking = frozenset() if dialect is None else dialect.unsupported_names
        effective = (*(_AUTHORIZER_NAMES if self.has_authorizer else ()), _COLD, *OWN_NAMES)
        effective += () if dialect is None else tuple(dialect.extra_keys(Scope.BROKER))
        recognized = {name: text for name, text in self.given.items() if name in known and name not in lacking}
        others = (name for name in self.given if name not in recognized and name not in effective)
        self.unknown = [name for name in others if not self._is_listener_key(name)]
        self.replication = parse_replication(self.given)
        names = (*self.replication.effective_names, *effective)
        own = known.keys() - lacking
        check_plugins(self.given, own)
        self.unsupported_plugins: list[UnsupportedPlugin] = list(find_unsupported(self.given, own))
        names += tuple(plugin.name for plugin in self.unsupported_plugins)
        self.ignored = [name for name in recognized if not has_effect(name, names)]
        self._values = ConfigValues(known, _STANDARD)
        for name, text in {**({} if dialect is None else dialect.broker_defaults()), **recognized}.items():
            self._values[name] = known[name].parse(text)
        cross_check(self)
        check_replication(self)
        check_compaction_lags(*((name, self[name]) for name in COMPACTION_LAGS))
        check_cleaner_memory(self.integer("log.cleaner.threads"), self.integer("log.cleaner.dedupe.buffer.size"))

    def for_listener(self, listener: str, mechanism: str = "") -> BrokerConfig:
        """The configuration of a listener or of its SASL mechanism: `listener.name.NAME.` overrides the plain name.

        Raises: ConfigError for a wrong value under such a name.
        """
        known = self.known_keys(Scope.BROKER)
        listener_config = copy(self)
        listener_config._values = self._values.with_changes({})
        prefixes = [f"{_LISTENER_NAME}{listener.lower()}."]
        if mechanism:
            prefixes.append(f"{prefixes[0]}{mechanism.lower()}.")
        for prefix in prefixes:
            for name, text in self.given.items():
                key = known.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
                if key is not None:
                    listener_config._values[key.name] = structs.replace(key, name=name).parse(text)
        return listener_config

    def with_defaults(self, defaults: Mapping[str, str]) -> BrokerConfig:
        """A copy with other defaults for values that were not set."""
        copied = copy(self)
        texts = {name: text for name, text in defaults.items() if name not in self.given}
        copied._values = self._values.with_changes({name: self.key(name).parse(text) for name, text in texts.items()})
        return copied

    def with_settings(self, settings: Mapping[str, str]) -> BrokerConfig:
        """A copy with further settings, by released names, for values that were not set; unknown names are left out.

        Raises: ConfigError when they contradict values that were set.
        """
        return self.with_overrides({name: text for name, text in settings.items() if name not in self.given})

    def with_overrides(self, settings: Mapping[str, str]) -> BrokerConfig:
        """A copy with these settings, by released names; unknown names are left out. Raises: ConfigError."""
        known = self.known_keys(Scope.BROKER) if self.dialect is None else self.dialect.broker_keys
        copied = copy(self)
        copied.given = {**self.given, **{name: text for name, text in settings.items() if name in known}}
        copied._values = self._values.with_changes(
            {name: known[name].parse(text) for name, text in settings.items() if name in known}
        )
        cross_check(copied)
        return copied

    @classmethod
    def from_properties(
        cls,
        text: str,
        settings: Iterable[str] = (),
        *,
        release: str = DEFAULT_RELEASE,
        dialect: ConfigDialect | None = None,
    ) -> BrokerConfig:
        """Parse a server.properties file, then settings in the form KEY=VALUE, which override it."""
        given = parse_properties(text)
        for setting in settings:
            name, equals, value = setting.partition("=")
            if not equals or not name.strip():
                raise ConfigError(f"{setting!r}: a setting has the form KEY=VALUE")
            given[name.strip()] = value
        return cls(given, release=release, dialect=dialect)

    @property
    def is_cold(self) -> bool:
        """Whether coordinators are unavailable while their topics are created (docs/decisions/warm-coordinators.md)."""
        return self.given.get(_COLD, "").strip().lower() == "true"

    @property
    def consumer_assignors(self) -> list[str]:
        """The names of the assignors of consumer groups, the default first; a class of Kafka's counts by its name."""
        return [CONSUMER_ASSIGNORS[name] for name in self.strings("group.consumer.assignors")]

    @property
    def accepts_telemetry(self) -> bool:
        """Whether a reporter receives the metrics that clients push: here, any reporter that is not Kafka's own."""
        return any(name != JMX_REPORTER for name in self.strings("metric.reporters"))

    @property
    def stores_topology_descriptions(self) -> bool:
        """Whether a plugin stores the topology descriptions of streams groups: here, any class, in memory."""
        return bool(self.get("group.streams.topology.description.plugin.class"))

    @property
    def has_authorizer(self) -> bool:
        """Whether Kafka's standard authorizer is configured; any other one has no effect here."""
        return self.given.get("authorizer.class.name", "").strip() == STANDARD_AUTHORIZER

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values.known)

    def __len__(self) -> int:
        return len(self._values.known)

    def known_keys(self, scope: Scope) -> Mapping[str, ConfigKey]:
        """The configurations of a scope that the release has, by name."""
        return config_keys(scope, self.release)

    def key(self, name: str) -> ConfigKey:
        """The definition of a broker configuration."""
        return (self.known_keys(Scope.BROKER) if self.dialect is None else self.dialect.broker_keys)[name]

    def _is_listener_key(self, name: str) -> bool:
        """Whether a name is a configuration of one listener, or of one of its mechanisms."""
        known = self.known_keys(Scope.BROKER)
        _, _, rest = name.removeprefix(_LISTENER_NAME).partition(".")
        return name.startswith(_LISTENER_NAME) and (rest in known or rest.partition(".")[2] in known)

    def integer(self, name: str) -> int:
        """A number that is never null."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def boolean(self, name: str) -> bool:
        """A boolean."""
        value = self._values[name]
        assert isinstance(value, bool)
        return value

    def string(self, name: str) -> str | None:
        """A string, or None if it is not set."""
        value = self._values[name]
        assert value is None or isinstance(value, str)
        return value

    def strings(self, name: str) -> list[str]:
        """A list of strings, empty if it is null."""
        value = self._values[name]
        assert value is None or isinstance(value, list)
        return value or []


def _bound(name: str, end: str) -> str:
    """The name of a bound: `group.share.min.session.timeout.ms` for `group.share.session.timeout.ms`."""
    group, protocol, rest = name.split(".", 2)
    return f"{group}.{protocol}.{end}.{rest}"


def cross_check(config: Mapping[str, Value]) -> None:
    """Refuse configurations that contradict each other, as Kafka does at start-up."""
    for name in _BOUNDED:
        _check_order(config, _bound(name, "min"), name, strict=False)
        _check_order(config, name, _bound(name, "max"), strict=False)
    for first, second, strict in _ORDERED:
        if first in config:  # Some are of newer releases.
            _check_order(config, first, second, strict=strict)
    for name in _SEGMENTS:
        size = config[name]
        if isinstance(size, int) and size < _SEGMENT_MIN:
            raise ConfigError(f"{name}: a topic's segment.bytes must be at least {_SEGMENT_MIN}, not {size}")
    protocols = config["group.coordinator.rebalance.protocols"]
    if not isinstance(protocols, list) or "classic" not in protocols:
        raise ConfigError("group.coordinator.rebalance.protocols: the protocol classic cannot be disabled")
    check_assignors(config)


def _check_order(config: Mapping[str, Value], first: str, second: str, *, strict: bool) -> None:
    low, high = config[first], config[second]
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high or (strict and low == high):
        raise ConfigError(f"{first}: {low} must be {'less than' if strict else 'at most'} {second}, which is {high}")
