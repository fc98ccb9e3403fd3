"""A broker's own configuration: Kafka's names, defaults and ranges, from server.properties and --set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Protocol

from msgspec import structs

from mockbroker.config_keys import ConfigError, ConfigKey, Scope, Value, keys
from mockbroker.properties import parse_properties

__all__ = ["BrokerConfig", "ConfigError", "Value"]

#: Values of a server.properties file that a mock does without.
_STANDARD: Mapping[str, Value] = {
    "node.id": 0,
    "process.roles": ["broker", "controller"],
    "controller.listener.names": ["CONTROLLER"],
}

#: The one authorizer that there is here, and its own names, which Kafka's list does not have.
_STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_LISTENER_NAME = "listener.name."
_JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"
_AUTHORIZER_NAMES = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")

#: A name of our own: whether the coordinators' topics are made as slowly as by a broker that nobody has used yet.
_COLD = "mockbroker.cold.coordinators"

#: Names that change what this broker does; a trailing dot stands for all names that begin so.
_HEEDED = (
    "advertised.listeners",
    "auto.create.topics.enable",
    "auto.leader.rebalance.enable",
    "broker.id",
    "broker.rack",
    "broker.session.timeout.ms",
    "compression.",
    "cordoned.log.dirs",
    "connection.failed.authentication.delay.ms",
    "connections.max.idle.ms",
    "connections.max.reauth.ms",
    "default.replication.factor",
    "delegation.token.",
    "delete.topic.enable",
    "fetch.max.bytes",
    "group.",
    "listener.",
    "listeners",
    "leader.imbalance.check.interval.seconds",
    "log.cleaner.",
    "log.dir",
    "log.dirs",
    "log.cleanup.policy",
    "log.flush.",
    "log.index.",
    "log.initial.task.delay.ms",
    "log.local.retention.",
    "log.message.timestamp.",
    "log.preallocate",
    "log.retention.",
    "log.roll.",
    "log.segment.",
    "max.incremental.fetch.session.cache.slots",
    "message.max.bytes",
    "metric.reporters",
    "min.insync.replicas",
    "node.id",
    "num.partitions",
    "offset.metadata.max.bytes",
    "offsets.",
    "producer.id.expiration.ms",
    "sasl.enabled.mechanisms",
    "sasl.server.max.receive.size",
    "share.coordinator.",
    "socket.request.max.bytes",
    "ssl.",
    "telemetry.max.bytes",
    "transaction.",
    "transactional.id.expiration.ms",
    "unclean.leader.election.enable",
    "unclean.leader.election.interval.ms",
)

#: min <= value <= max. Source: the start-up checks of Kafka's GroupCoordinatorConfig and ShareGroupConfig.
_TRIPLES = (
    "group.consumer.{}heartbeat.interval.ms",
    "group.consumer.{}session.timeout.ms",
    "group.consumer.{}assignment.interval.ms",
    "group.share.{}heartbeat.interval.ms",
    "group.share.{}session.timeout.ms",
    "group.share.{}assignment.interval.ms",
    "group.share.{}delivery.count.limit",
    "group.share.{}record.lock.duration.ms",
    "group.share.{}partition.max.record.locks",
    "group.streams.{}heartbeat.interval.ms",
    "group.streams.{}session.timeout.ms",
    "group.streams.{}assignment.interval.ms",
)

#: The first is at most (or, when strict, below) the second.
_ORDERED = (
    ("group.share.max.size", "group.share.max.share.sessions", False),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms", False),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms", True),
    ("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms", True),
    ("group.streams.heartbeat.interval.ms", "group.streams.session.timeout.ms", True),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas", False),
)

#: Coordinators make their topics with these. Kafka takes any, starts, and then never finds a coordinator, as no topic
#: may have smaller segments; here that is said at once.
_SEGMENTS = (
    "offsets.topic.segment.bytes",
    "share.coordinator.state.topic.segment.bytes",
    "transaction.state.log.segment.bytes",
)
_SEGMENT_MIN = 1 << 20

#: The values of group.share.persister.class.name beside the empty one, which is the second in effect.
DEFAULT_PERSISTER = "org.apache.kafka.server.share.persister.DefaultStatePersister"
NO_OP_PERSISTER = "org.apache.kafka.server.share.persister.NoOpStatePersister"


class Dialect(Protocol):
    """Names, ranges and defaults of an edition of KIP-932 (`mockbroker/editions/configs.py`)."""

    broker_keys: Mapping[str, ConfigKey]
    lacking: frozenset[str]

    def extra_keys(self, scope: Scope) -> Mapping[str, ConfigKey]:
        """Configurations that 4.3 has none for."""
        ...

    def broker_texts(self, given: Mapping[str, str]) -> dict[str, str]:
        """What was set, by the names of 4.3."""
        ...

    def defaults(self) -> dict[str, str]:
        """Defaults that differ, by the names of 4.3."""
        ...

    def enables_share_groups(self, given: Mapping[str, str]) -> bool:
        """Whether share groups are on."""
        ...

    def to_released(self, scope: Scope, name: str) -> str:
        """A name within the broker."""
        ...

    def to_draft(self, scope: Scope, name: str) -> str:
        """A name for clients."""
        ...

    def check(self, scope: Scope, name: str, text: str) -> None:
        """Refuse a value that is not allowed."""
        ...


class BrokerConfig(Mapping[str, Value]):
    """Every broker configuration of Kafka 4.3.0 by name, typed; those given win over Kafka's defaults.

    `given` has the texts that were set, `unknown` the names that Kafka does not define (it accepts them, and so do
    we), `ignored` the names that Kafka defines and that mean nothing to a broker without disks or peers.
    """

    def __init__(self, given: Mapping[str, str] | None = None, *, dialect: Dialect | None = None) -> None:
        self.dialect = dialect
        self.given = dict(given or {})
        known = keys(Scope.BROKER)
        if dialect is not None:
            self.given = dialect.broker_texts(self.given)
            known = dialect.broker_keys
        lacking = frozenset() if dialect is None else dialect.lacking
        heeded = (*(_AUTHORIZER_NAMES if self.has_authorizer else ()), _COLD)
        heeded += () if dialect is None else tuple(dialect.extra_keys(Scope.BROKER))
        told = {name: text for name, text in self.given.items() if name in known and name not in lacking}
        self.unknown = [
            name for name in self.given if name not in told and name not in heeded and not _of_listener(name)
        ]
        self.ignored = [name for name in told if not _heeded(name) and name not in heeded]
        self._values: dict[str, Value] = {name: _STANDARD.get(name, key.default) for name, key in known.items()}
        for name, text in ({} if dialect is None else dialect.defaults()).items():
            self._values[name] = known[name].parse(text)
        for name, text in told.items():
            self._values[name] = known[name].parse(text)
        cross_check(self)

    def of_listener(self, listener: str, mechanism: str = "") -> BrokerConfig:
        """What holds for one listener, and one SASL mechanism of it: `listener.name.NAME.` wins over the plain name.

        Raises: ConfigError for a wrong value under such a name.
        """
        known = keys(Scope.BROKER)
        own = copy(self)
        own._values = dict(self._values)
        prefixes = [f"{_LISTENER_NAME}{listener.lower()}."]
        if mechanism:
            prefixes.append(f"{prefixes[0]}{mechanism.lower()}.")
        for prefix in prefixes:
            for name, text in self.given.items():
                key = known.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
                if key is not None:
                    own._values[key.name] = structs.replace(key, name=name).parse(text)
        return own

    def with_defaults(self, defaults: Mapping[str, str]) -> BrokerConfig:
        """The same with other defaults for what was not set."""
        own = copy(self)
        texts = {name: text for name, text in defaults.items() if name not in self.given}
        own._values = self._values | {name: self.key(name).parse(text) for name, text in texts.items()}
        return own

    @classmethod
    def from_properties(
        cls, text: str, settings: Iterable[str] = (), *, dialect: Dialect | None = None
    ) -> BrokerConfig:
        """A server.properties file, then settings in the form KEY=VALUE, which win."""
        given = parse_properties(text)
        for setting in settings:
            name, equals, value = setting.partition("=")
            if not equals or not name.strip():
                raise ConfigError(f"{setting!r}: a setting has the form KEY=VALUE")
            given[name.strip()] = value
        return cls(given, dialect=dialect)

    @property
    def is_cold(self) -> bool:
        """Whether a coordinator is not available while its topic is made (docs/decisions/warm-coordinators.md)."""
        return self.given.get(_COLD, "").strip().lower() == "true"

    @property
    def takes_telemetry(self) -> bool:
        """Whether something takes the metrics that clients push: here, any reporter that is not Kafka's own."""
        return any(name != _JMX_REPORTER for name in self.names("metric.reporters"))

    @property
    def has_authorizer(self) -> bool:
        """Whether Kafka's standard authorizer is configured; every other one is without effect here."""
        return self.given.get("authorizer.class.name", "").strip() == _STANDARD_AUTHORIZER

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def key(self, name: str) -> ConfigKey:
        """The definition of a broker configuration."""
        return (keys(Scope.BROKER) if self.dialect is None else self.dialect.broker_keys)[name]

    def integer(self, name: str) -> int:
        """A number that is never null."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """A yes or no."""
        value = self._values[name]
        assert isinstance(value, bool)
        return value

    def string(self, name: str) -> str | None:
        """A text, or None where it was left unset."""
        value = self._values[name]
        assert value is None or isinstance(value, str)
        return value

    def names(self, name: str) -> list[str]:
        """A list of texts; one that is null is empty."""
        value = self._values[name]
        assert value is None or isinstance(value, list)
        return value or []


def cross_check(config: Mapping[str, Value]) -> None:
    """Refuse configurations that contradict each other, as Kafka does at start-up."""
    for triple in _TRIPLES:
        name = triple.format("")
        _check_order(config, triple.format("min."), name, strict=False)
        _check_order(config, name, triple.format("max."), strict=False)
    for first, second, strict in _ORDERED:
        _check_order(config, first, second, strict=strict)
    for name in _SEGMENTS:
        size = config[name]
        if isinstance(size, int) and size < _SEGMENT_MIN:
            raise ConfigError(f"{name}: a topic's segment.bytes is {_SEGMENT_MIN} at least, {size} was given")
    assignors = config["group.share.assignors"]
    if not isinstance(assignors, list) or len(assignors) != 1:
        raise ConfigError(f"group.share.assignors: {assignors!r} must name exactly one assignor")
    persister = config["group.share.persister.class.name"]
    if persister and persister not in (DEFAULT_PERSISTER, NO_OP_PERSISTER):
        raise ConfigError(f"group.share.persister.class.name: {persister!r} is neither Kafka's default nor its no-op")


def _check_order(config: Mapping[str, Value], first: str, second: str, *, strict: bool) -> None:
    low, high = config[first], config[second]
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high or (strict and low == high):
        raise ConfigError(f"{first}: {low} must be {'less than' if strict else 'at most'} {second}, which is {high}")


def _of_listener(name: str) -> bool:
    """Whether a name is a configuration of one listener, or of a mechanism there."""
    known = keys(Scope.BROKER)
    _, _, rest = name.removeprefix(_LISTENER_NAME).partition(".")
    return name.startswith(_LISTENER_NAME) and (rest in known or rest.partition(".")[2] in known)


def _heeded(name: str) -> bool:
    return any(name == item or (item.endswith(".") and name.startswith(item)) for item in _HEEDED)
