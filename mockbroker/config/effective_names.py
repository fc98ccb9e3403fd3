"""Which of Kafka's broker configurations have an effect here; the broker logs the names that are set and have none."""

from __future__ import annotations

from collections.abc import Iterable

#: Names with an effect on this broker; a trailing dot stands for all names with this prefix.
EFFECTIVE = (
    "advertised.listeners",
    "auto.create.topics.enable",
    "auto.leader.rebalance.enable",
    "broker.id",
    "broker.rack",
    "broker.session.timeout.ms",
    "compression.",
    "controller.quota.window.",
    "cordoned.log.dirs",
    "connection.failed.authentication.delay.ms",
    "connections.max.idle.ms",
    "connections.max.reauth.ms",
    "default.replication.factor",
    "delegation.token.",
    "delete.topic.enable",
    "errors.deadletterqueue.",
    "fetch.max.bytes",
    "group.",
    "listener.",
    "listeners",
    "leader.imbalance.check.interval.seconds",
    "log.cleaner.",
    "log.cleanup.policy",
    "log.dir",
    "log.dirs",
    "log.flush.",
    "log.index.",
    "log.initial.task.delay.ms",
    "log.local.retention.",
    "log.message.timestamp.",
    "log.preallocate",
    "log.retention.",
    "log.roll.",
    "log.segment.",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.incremental.fetch.session.cache.slots",
    "message.max.bytes",
    "metric.reporters",
    "min.insync.replicas",
    "node.id",
    "num.partitions",
    "offset.metadata.max.bytes",
    "offsets.",
    "producer.id.expiration.check.interval.ms",
    "producer.id.expiration.ms",
    "quota.window.",
    "sasl.enabled.mechanisms",
    "sasl.oauthbearer.allow.",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.",
    "sasl.oauthbearer.jwks.",
    "sasl.oauthbearer.jwt.validator.class",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.server.max.receive.size",
    "share.coordinator.",
    "socket.request.max.bytes",
    "ssl.",
    "telemetry.max.bytes",
    "transaction.",
    "transactional.id.expiration.ms",
    "unclean.leader.election.enable",
    "unclean.leader.election.interval.ms",
    "unstable.api.versions.enable",
    "unstable.feature.versions.enable",
)

#: Names with such a prefix that have none.
WITHOUT_EFFECT = frozenset(
    {
        "group.coordinator.append.linger.ms",
        "group.coordinator.background.threads",
        "group.coordinator.cached.buffer.max.bytes",
        "group.coordinator.threads",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.flush.start.offset.checkpoint.interval.ms",
        "offsets.load.buffer.size",
        "offsets.topic.compression.codec",
        "share.coordinator.append.linger.ms",
        "share.coordinator.cached.buffer.max.bytes",
        "share.coordinator.load.buffer.size",
        "share.coordinator.state.topic.compression.codec",
        "share.coordinator.threads",
        "transaction.state.log.load.buffer.size",
    }
)


def has_effect(name: str, more: Iterable[str]) -> bool:
    """Whether a configuration has an effect. more: names and prefixes in addition to EFFECTIVE."""
    return is_listed(name, (*EFFECTIVE, *more)) and name not in WITHOUT_EFFECT


def is_listed(name: str, items: Iterable[str]) -> bool:
    """Whether a name is one of these, or begins with one that ends with a dot."""
    return any(name == item or (item.endswith(".") and name.startswith(item)) for item in items)
