"""Changes of dynamic configuration: what Kafka lets through, and with which code it refuses the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.config import cross_check
from mockbroker.config_keys import ConfigError, ConfigKey, ConfigType, Scope, Value, keys, to_text
from mockbroker.kafka_error import KafkaError
from mockbroker.state.client_metrics import check_subscription
from mockbroker.state.configs import ALL_BROKERS, TOPIC_SYNONYMS, Configs, Resource, ResourceKind
from mockbroker.state.topics import validate_topic_name

_VALUE_LENGTH_MAX = 32_767
_SCOPES = {ResourceKind.TOPIC: Scope.TOPIC, ResourceKind.BROKER: Scope.BROKER, ResourceKind.GROUP: Scope.GROUP}
_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.")

#: Group configuration -> the broker's bounds for it. Source: Kafka's GroupConfig; share-semantics 8.4.
_BOUNDED = (
    "consumer.{}heartbeat.interval.ms",
    "consumer.{}session.timeout.ms",
    "consumer.{}assignment.interval.ms",
    "share.{}heartbeat.interval.ms",
    "share.{}session.timeout.ms",
    "share.{}assignment.interval.ms",
    "share.{}delivery.count.limit",
    "share.{}record.lock.duration.ms",
    "share.{}partition.max.record.locks",
    "streams.{}heartbeat.interval.ms",
    "streams.{}session.timeout.ms",
    "streams.{}assignment.interval.ms",
)
#: The maximum of this one has a name of its own, and there is no minimum.
_STANDBYS = ("streams.num.standby.replicas", "group.streams.max.standby.replicas")

#: Settings of all brokers that a running broker takes over. Source: Kafka's DynamicBrokerConfig.
_DYNAMIC_CLUSTER = frozenset(
    {name for names in TOPIC_SYNONYMS.values() for name, _ in names[:1]}
    | {
        "background.threads",
        "config.providers",
        "follower.fetch.last.tiered.offset.enable",
        "group.consumer.assignment.interval.ms",
        "group.coordinator.cached.buffer.max.bytes",
        "group.share.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "metric.reporters",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
        "share.coordinator.cached.buffer.max.bytes",
        "transaction.partition.verification.enable",
    }
)
#: Settings that only a named broker takes over.
_DYNAMIC_SECURITY = frozenset(
    name
    for name in keys(Scope.BROKER)
    if name.startswith(("ssl.keystore", "ssl.truststore")) or name in ("ssl.key.password", "ssl.engine.factory.class")
)
_DYNAMIC_PER_BROKER = _DYNAMIC_SECURITY | frozenset(
    {"cordoned.log.dirs", "listener.security.protocol.map", "listeners", "principal.builder.class"}
    | {"sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.mechanism.inter.broker.protocol"}
    | {name for name in keys(Scope.BROKER) if name.startswith(("ssl.", "sasl.kerberos.", "sasl.login.refresh."))}
) - {"ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.principal.mapping.rules"}
DYNAMIC = _DYNAMIC_CLUSTER | _DYNAMIC_PER_BROKER


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(msgspec.Struct, frozen=True):
    """One change of one key; a DELETE has no value."""

    name: str
    operation: Operation
    value: str | None


def altered(configs: Configs, resource: Resource, changes: Sequence[ConfigChange]) -> dict[str, str]:
    """The texts of a resource after some changes, all checked; nothing is stored.

    Raises: INVALID_CONFIG for values, unknown names and bounds; INVALID_REQUEST for a resource that cannot be
    configured, and for every wrong value of a broker (KAFKA-13609); INVALID_TOPIC_EXCEPTION.
    """
    after = dict(configs.given(resource))
    for change in changes:
        value = _applied(after.get(change.name), change, resource)
        if value is None:
            after.pop(change.name, None)
        elif len(value) > _VALUE_LENGTH_MAX:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{change.name}: {len(value)} characters are too many")
        else:
            after[change.name] = value
    check(configs, resource, after)
    if resource.kind is ResourceKind.BROKER and configs.elr:
        _check_elr(resource, changes, after)
    return after


def replaced(configs: Configs, resource: Resource, given: Mapping[str, str]) -> dict[str, str]:
    """The texts of a resource that is to have these and no others, all checked; nothing is stored. Raises: as above."""
    changes = [ConfigChange(name, Operation.SET, value) for name, value in given.items()]
    gone = [name for name in configs.given(resource) if name not in given]
    return altered(configs, resource, [*changes, *(ConfigChange(name, Operation.DELETE, None) for name in gone)])


def check(configs: Configs, resource: Resource, given: Mapping[str, str]) -> None:
    """Refuse texts that this resource cannot have."""
    try:
        if resource.kind is ResourceKind.TOPIC:
            check_topic(resource.name, given)
        elif resource.kind is ResourceKind.GROUP:
            _check_group(configs, resource, given)
        elif resource.kind is ResourceKind.BROKER:
            _check_broker(configs, resource, given)
        elif resource.kind is ResourceKind.CLIENT_METRICS:
            check_subscription(resource.name, given)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {int(resource.kind)}")
    except ConfigError as error:
        code = ErrorCode.INVALID_REQUEST if resource.kind is ResourceKind.BROKER else ErrorCode.INVALID_CONFIG
        raise KafkaError(code, str(error)) from None


def check_topic(name: str, given: Mapping[str, str]) -> None:
    """Refuse a topic's configuration that Kafka would; ConfigError for a value, KafkaError for the topic's name."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    validate_topic_name(name)
    for key, value in _typed(Scope.TOPIC, given).items():
        # This mock has no remote storage, like a broker without remote.log.storage.system.enable.
        if key == "remote.storage.enable" and value is True:
            raise ConfigError("remote.storage.enable: the broker has no remote storage")


def _check_group(configs: Configs, resource: Resource, given: Mapping[str, str]) -> None:
    if not resource.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    for name in given:
        if configs.group_names is not None and name not in configs.group_names:
            raise ConfigError(f"{name} is no configuration of a group")
    extra = {} if configs.static.dialect is None else configs.static.dialect.extra_keys(Scope.GROUP)
    for name in given.keys() & extra.keys():
        extra[name].parse(given[name])
    typed = _typed(Scope.GROUP, {name: text for name, text in given.items() if name not in extra})
    values: dict[str, Value] = {
        name: typed.get(name, configs.inherited(key)) for name, key in keys(Scope.GROUP).items()
    }
    for pattern in _BOUNDED:
        low, high = configs.static[f"group.{pattern.format('min.')}"], configs.static[f"group.{pattern.format('max.')}"]
        name = pattern.format("")
        value = values[name]
        assert isinstance(low, int)
        assert isinstance(high, int)
        assert isinstance(value, int)
        if not low <= value <= high:
            raise ConfigError(f"{name}: {value} is not allowed; the broker's bounds: [{low},...,{high}]")
    standbys, most = values[_STANDBYS[0]], configs.static[_STANDBYS[1]]
    assert isinstance(standbys, int)
    assert isinstance(most, int)
    if standbys > most:
        raise ConfigError(f"{_STANDBYS[0]}: {standbys} is not allowed; the broker's maximum: {most}")
    for kind in ("consumer", "share", "streams"):
        timeout, interval = values[f"{kind}.session.timeout.ms"], values[f"{kind}.heartbeat.interval.ms"]
        assert isinstance(timeout, int)
        assert isinstance(interval, int)
        if timeout <= interval:
            raise ConfigError(
                f"{kind}.session.timeout.ms: {timeout} must be greater than {kind}.heartbeat.interval.ms ({interval})"
            )


def _check_broker(configs: Configs, resource: Resource, given: Mapping[str, str]) -> None:
    known = keys(Scope.BROKER)
    for name, text in given.items():
        base = _LISTENER_PREFIX.sub("", name)
        if name in known and name not in DYNAMIC:
            raise ConfigError(f"{name}: this configuration cannot be changed while the broker runs")
        if name in _DYNAMIC_SECURITY:
            raise ConfigError(f"{name}: security configurations are changed for one listener, by its prefix")
        if not resource.name and (name in _DYNAMIC_PER_BROKER or base != name):
            raise ConfigError(f"{name}: this configuration needs the id of a broker")
        if base in known:
            known[base].parse(text)
    static: dict[str, Value] = dict(configs.static)
    below = configs.given(ALL_BROKERS) if resource.name else {}
    for name, text in {**below, **given}.items():
        if name in known:
            static[name] = known[name].parse(text)
    cross_check(static)


def _check_elr(resource: Resource, changes: Sequence[ConfigChange], after: Mapping[str, str]) -> None:
    """With eligible leader replicas min.insync.replicas belongs to the cluster, and cannot be taken from it."""
    if any(change.name == "min.insync.replicas" for change in changes) and (
        resource.name or "min.insync.replicas" not in after
    ):
        level = "a broker" if resource.name else "no"
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"min.insync.replicas cannot have {level} value while ELR is enabled"
        )


def _applied(current: str | None, change: ConfigChange, resource: Resource) -> str | None:
    if change.operation is Operation.DELETE:
        return None
    assert change.value is not None
    if change.operation is Operation.SET:
        return change.value
    key = _key(resource, change.name)
    if key is None or key.type is not ConfigType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Can't {change.operation.name} to key {change.name}: its type is not LIST."
        )
    before = to_text(key.default) if current is None else current
    parts = [part for part in (before or "").split(",") if part]
    named = change.value.split(",")
    if change.operation is Operation.APPEND:
        return ",".join([*parts, *(part for part in dict.fromkeys(named) if part not in parts)])
    return ",".join(part for part in parts if part not in named)


def _key(resource: Resource, name: str) -> ConfigKey | None:
    """Groups have no lists, and Kafka's controller knows the keys of topics and brokers alone."""
    scope = _SCOPES.get(resource.kind)
    return keys(scope).get(name) if scope in (Scope.TOPIC, Scope.BROKER) else None


def _typed(scope: Scope, given: Mapping[str, str]) -> dict[str, Value]:
    known = keys(scope)
    for name in given:
        if name not in known:
            raise ConfigError(f"Unknown {scope.value} config name: {name}")
    return {name: known[name].parse(text) for name, text in given.items()}
