"""Changes of dynamic configuration: validation and error codes as in Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.config.broker_config import cross_check
from mockbroker.config.cleaner_checks import check_compaction_lags
from mockbroker.config.keys import ConfigError, ConfigKey, ConfigType, Scope, Value, config_keys, format_value
from mockbroker.config.plugins import STREAMS_ASSIGNOR
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.client_metrics import check_subscription
from mockbroker.state.metadata.configs import ALL_BROKERS, TOPIC_SYNONYMS, Configs, Resource, ResourceKind
from mockbroker.state.metadata.topics import validate_topic_name
from mockbroker.state.settings import read_int

_VALUE_LENGTH_MAX = 32_767
_COMPACTION_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
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
#: The maximum of this one has a name that differs from the pattern, and there is no minimum.
_STANDBYS = ("streams.num.standby.replicas", "group.streams.max.standby.replicas")

_QUEUE_NAME = "errors.deadletterqueue.topic.name"

#: Group configurations of 4.4, and the broker's bounds of the first two.
_STREAMS_SINCE_4_4 = (
    "streams.task.offset.interval.ms",
    "streams.num.warmup.replicas",
    "streams.rack.aware.assignment.tags",
    "streams.assignor.name",
)
_STREAMS_BOUNDS = ("group.streams.min.task.offset.interval.ms", "group.streams.max.warmup.replicas")

#: Cluster-wide settings that can change while brokers run. Source: Kafka's DynamicBrokerConfig.
_DYNAMIC_CLUSTER = frozenset(
    {name for names in TOPIC_SYNONYMS.values() for name, _ in names[:1]}
    | {
        "background.threads",
        "config.providers",
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.topic.name.prefix",
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
#: Settings that can change for a single broker only.
_DYNAMIC_SECURITY = frozenset(
    name
    for name in config_keys(Scope.BROKER)
    if name.startswith(("ssl.keystore", "ssl.truststore")) or name in ("ssl.key.password", "ssl.engine.factory.class")
)
_DYNAMIC_PER_BROKER = _DYNAMIC_SECURITY | frozenset(
    {"cordoned.log.dirs", "listener.security.protocol.map", "listeners", "principal.builder.class"}
    | {"sasl.enabled.mechanisms", "sasl.jaas.config", "sasl.mechanism.inter.broker.protocol"}
    | {name for name in config_keys(Scope.BROKER) if name.startswith(("ssl.", "sasl.kerberos.", "sasl.login.refresh."))}
) - {"ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.principal.mapping.rules"}
DYNAMIC = _DYNAMIC_CLUSTER | _DYNAMIC_PER_BROKER


#: Settings of a listener that can change for all brokers. Source: Kafka's DynamicBrokerConfig.
_CLUSTER_LEVEL_OF_LISTENERS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
#: Where the classes are that a broker has.
_CLASSES = ("org.apache.kafka.", "kafka.")


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(msgspec.Struct, frozen=True):
    """One change of one key; a DELETE has no value."""

    name: str
    operation: ConfigOperation
    value: str | None


def apply_changes(configs: Configs, resource: Resource, changes: Sequence[ConfigChange]) -> dict[str, str]:
    """The texts of a resource after some checked changes; nothing is stored.

    Raises: INVALID_CONFIG for values, unknown names and bounds; INVALID_REQUEST for a resource that cannot be
    configured, and for every invalid value of a broker (KAFKA-13609); INVALID_TOPIC_EXCEPTION.
    """
    after = dict(configs.overrides(resource))
    for change in changes:
        value = _apply_change(configs, after.get(change.name), change, resource)
        if value is None:
            after.pop(change.name, None)
        elif len(value) > _VALUE_LENGTH_MAX:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{change.name}: {len(value)} characters exceed the limit")
        else:
            after[change.name] = value
    check_config(configs, resource, after)
    if resource.kind is ResourceKind.BROKER and configs.elr:
        _check_elr(resource, changes, after)
    return after


def replace_config(configs: Configs, resource: Resource, given: Mapping[str, str]) -> dict[str, str]:
    """The texts of a resource that is to have exactly these, checked; nothing is stored. Raises: as above."""
    changes = [ConfigChange(name, ConfigOperation.SET, value) for name, value in given.items()]
    removed = [name for name in configs.overrides(resource) if name not in given]
    changes += [ConfigChange(name, ConfigOperation.DELETE, None) for name in removed]
    return apply_changes(configs, resource, changes)


def check_config(configs: Configs, resource: Resource, given: Mapping[str, str]) -> None:
    """Reject invalid texts of a resource."""
    try:
        if resource.kind is ResourceKind.TOPIC:
            check_topic(configs, resource.name, given)
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


def check_topic(configs: Configs, name: str, given: Mapping[str, str]) -> None:
    """Reject an invalid topic configuration; ConfigError for a value, KafkaError for the topic's name."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    validate_topic_name(name)
    known_keys = configs.static.known_keys(Scope.TOPIC)
    typed = _parse_values(known_keys, given)
    for key, value in typed.items():
        # The mock has no remote storage, like a broker without remote.log.storage.system.enable.
        if key == "remote.storage.enable" and value is True:
            raise ConfigError("remote.storage.enable: the broker has no remote storage")
    check_compaction_lags(
        *(
            (key, typed[key] if key in typed else configs.inherited_value(known_keys[key], configs.controller_id))
            for key in _COMPACTION_LAGS
        )
    )


def _check_group(configs: Configs, resource: Resource, given: Mapping[str, str]) -> None:
    if not resource.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    for name in given:
        if configs.group_names is not None and name not in configs.group_names:
            raise ConfigError(f"{name} is not a group configuration")
    extra = {} if configs.static.dialect is None else configs.static.dialect.extra_keys(Scope.GROUP)
    for name in given.keys() & extra.keys():
        extra[name].parse(given[name])
    known_keys = configs.static.known_keys(Scope.GROUP)
    typed = _parse_values(known_keys, {name: text for name, text in given.items() if name not in extra})
    values = {
        name: typed.get(name, configs.inherited_value(key, configs.controller_id)) for name, key in known_keys.items()
    }
    for pattern in _BOUNDED:
        low, high = (read_int(configs.static, f"group.{pattern.format(end)}") for end in ("min.", "max."))
        name = pattern.format("")
        value = read_int(values, name)
        if not low <= value <= high:
            raise ConfigError(f"{name}: {value} is not allowed; the broker's bounds: [{low},...,{high}]")
    if str(values.get(_QUEUE_NAME, "")).startswith("__"):
        raise ConfigError(f"{_QUEUE_NAME}: the name of a dead-letter queue must not begin with __")
    standbys = read_int(values, _STANDBYS[0])
    most = read_int(configs.static, _STANDBYS[1])
    if standbys > most:
        raise ConfigError(f"{_STANDBYS[0]}: {standbys} is not allowed; the broker's maximum: {most}")
    _check_streams(configs, given, values)
    for kind in ("consumer", "share", "streams"):
        timeout_name = f"{kind}.session.timeout.ms"
        interval_name = f"{kind}.heartbeat.interval.ms"
        timeout, interval = read_int(values, timeout_name), read_int(values, interval_name)
        if timeout <= interval:
            raise ConfigError(f"{timeout_name}: {timeout} must be greater than {interval_name} ({interval})")


def _check_streams(configs: Configs, given: Mapping[str, str], values: Mapping[str, Value]) -> None:
    """Reject values of streams groups that the broker does not allow. Pinned by other-streams-44-configs."""
    interval_name, warmup_name, tags_name, assignor_name = _STREAMS_SINCE_4_4
    if interval_name not in values:
        return
    least, most = (read_int(configs.static, name) for name in _STREAMS_BOUNDS)
    interval_ms, warmups = read_int(values, interval_name), read_int(values, warmup_name)
    if interval_ms < least:
        raise ConfigError(f"{interval_name}: {interval_ms} is not allowed; the broker's minimum: {least}")
    if warmups > most:
        raise ConfigError(f"{warmup_name}: {warmups} is not allowed; the broker's maximum: {most}")
    tags = [tag.strip() for tag in given.get(tags_name, "").split(",")]
    if len(tags) > 1 and ("" in tags or len(set(tags)) < len(tags)):
        raise ConfigError(f"{tags_name}: {tags} must not contain a tag twice, nor an empty one")
    if given.get(assignor_name, STREAMS_ASSIGNOR) != STREAMS_ASSIGNOR:
        raise ConfigError(f"{assignor_name}: {given[assignor_name]!r} is not {STREAMS_ASSIGNOR}, the only assignor")


def _check_broker(configs: Configs, resource: Resource, given: Mapping[str, str]) -> None:
    known_keys = configs.static.known_keys(Scope.BROKER)
    for name, text in given.items():
        base = _LISTENER_PREFIX.sub("", name)
        if name in known_keys and name not in DYNAMIC:
            raise ConfigError(f"{name}: this configuration cannot be changed while the broker runs")
        if name in _DYNAMIC_SECURITY:
            raise ConfigError(f"{name}: security configurations can only be changed per listener, with its prefix")
        is_per_broker = name in _DYNAMIC_PER_BROKER or (base != name and base not in _CLUSTER_LEVEL_OF_LISTENERS)
        if not resource.name and is_per_broker:
            raise ConfigError(f"{name}: this configuration can only be set for a single broker")
        if base in known_keys:
            _check_broker_value(known_keys[base], text, of_listener=base != name)
    below = configs.overrides(ALL_BROKERS) if resource.name else {}
    texts = {name: text for name, text in {**below, **given}.items() if name in known_keys}
    cross_check({**configs.static, **{name: known_keys[name].parse(text) for name, text in texts.items()}})


def _check_broker_value(key: ConfigKey, text: str, *, of_listener: bool) -> None:
    """Raises: ConfigError. Pinned by the conversation other-broker-listener-configs."""
    value = key.parse(text)
    if key.type is ConfigType.CLASS and not text.strip().startswith(_CLASSES):
        raise ConfigError(f"{key.name}: {text!r} is not a class of the broker")
    if of_listener and key.name == "max.connections" and not value:
        raise ConfigError(f"{key.name}: a listener needs at least one connection")


def _check_elr(resource: Resource, changes: Sequence[ConfigChange], after: Mapping[str, str]) -> None:
    """With eligible leader replicas min.insync.replicas is set for the cluster, and cannot be removed there."""
    is_changed = any(change.name == "min.insync.replicas" for change in changes)
    if is_changed and (resource.name or "min.insync.replicas" not in after):
        level = "a broker" if resource.name else "no"
        message = f"min.insync.replicas cannot have {level} value while ELR is enabled"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def require_list(configs: Configs, resource: Resource, change: ConfigChange) -> None:
    """Reject a change of an entry of a list where the key has no list. Raises: INVALID_CONFIG."""
    if change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        key = _list_key(configs, resource, change.name)
        if key is None or key.type is not ConfigType.LIST:
            message = f"Can't {change.operation.name} to key {change.name}: its type is not LIST."
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _apply_change(configs: Configs, current: str | None, change: ConfigChange, resource: Resource) -> str | None:
    if change.operation is ConfigOperation.DELETE:
        return None
    assert change.value is not None
    if change.operation is ConfigOperation.SET:
        return change.value
    require_list(configs, resource, change)
    key = _list_key(configs, resource, change.name)
    before = format_value(key.default) if current is None and key else current
    parts = [part for part in (before or "").split(",") if part]
    values = change.value.split(",")
    if change.operation is ConfigOperation.APPEND:
        return ",".join([*parts, *(part for part in dict.fromkeys(values) if part not in parts)])
    return ",".join(part for part in parts if part not in values)


def _list_key(configs: Configs, resource: Resource, name: str) -> ConfigKey | None:
    """Groups have no lists, and Kafka's controller has definitions for topics and brokers only."""
    scope = _SCOPES.get(resource.kind)
    return configs.static.known_keys(scope).get(name) if scope in (Scope.TOPIC, Scope.BROKER) else None


def _parse_values(known_keys: Mapping[str, ConfigKey], given: Mapping[str, str]) -> dict[str, Value]:
    for name in given:
        if name not in known_keys:
            scope = next(iter(known_keys.values())).scope
            raise ConfigError(f"Unknown {scope.value} config name: {name}")
    return {name: known_keys[name].parse(text) for name, text in given.items()}
