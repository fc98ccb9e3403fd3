"""The brokers that the scripts name, by their properties; each script gets a fresh one."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conversations.venues import VirtualVenue

#: What the recording broker ran with beside each file of properties.
_BASE = {
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}

_ACL = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.share.assignment.interval.ms": "0",
}

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_USERS = 'user_alice="alice-secret" user_bob="bob-secret" user_carol="carol-secret"'

#: Beside PLAINTEXT, by the names that the scripts connect to.
SASL_LISTENERS = ("SASL", "SCRAM", "REAUTH")
_SASL = {
    "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *SASL_LISTENERS)),
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SCRAM:SASL_PLAINTEXT,REAUTH:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": f'{_PLAIN} {_USERS} user_admin="admin-secret";',
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": _SCRAM,
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": _SCRAM,
    "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.scram.scram-sha-512.sasl.jaas.config": _SCRAM,
    "listener.name.reauth.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.reauth.plain.sasl.jaas.config": f"{_PLAIN} {_USERS};",
    "listener.name.reauth.scram-sha-256.sasl.jaas.config": _SCRAM,
    "listener.name.reauth.connections.max.reauth.ms": "3000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "group.share.assignment.interval.ms": "0",
}

_STREAMS = {
    "auto.create.topics.enable": "false",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.max.size": "6",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
}

BROKERS: Mapping[str, Mapping[str, str]] = {
    "common": {
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.min.session.timeout.ms": "1000",
        "group.share.min.heartbeat.interval.ms": "200",
        "group.share.assignment.interval.ms": "0",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.assignment.interval.ms": "0",
        "group.min.session.timeout.ms": "500",
        "group.share.max.size": "10",
        "auto.create.topics.enable": "false",
    },
    "cold": {"auto.create.topics.enable": "false"},
    "defaults": {"auto.create.topics.enable": "true"},
    "limits": {
        "group.share.max.size": "10",
        "group.share.max.share.sessions": "10",
        "group.share.min.record.lock.duration.ms": "1000",
    },
    "acl": _ACL,
    # A broker of its own that is not played on again: the script denies 127.0.0.1 what a controller asks of its broker.
    # The one that was recorded had its controller at another address of the machine.
    "acl-locked": _ACL,
    # Their scripts change what holds for the whole cluster; the other two do so for good.
    "admin": {"auto.create.topics.enable": "false"},
    "kraft": {"auto.create.topics.enable": "false"},
    "unregistered": {"auto.create.topics.enable": "false"},
    "txn": {
        "auto.create.topics.enable": "false",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    },
    "txn1": {
        "auto.create.topics.enable": "false",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    },
    "forgetful": {
        "group.share.persister.class.name": "org.apache.kafka.server.share.persister.NoOpStatePersister",
        "group.share.assignment.interval.ms": "0",
    },
    "cleaning": {
        "auto.create.topics.enable": "false",
        "group.share.min.record.lock.duration.ms": "1000",
        "log.cleaner.backoff.ms": "100",
        "log.initial.task.delay.ms": "100",
        "log.retention.check.interval.ms": "200",
    },
    "snapshots": {
        "auto.create.topics.enable": "false",
        "share.coordinator.snapshot.update.records.per.snapshot": "5",
    },
    "streams": _STREAMS,
    "streams-acl": {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "auto.create.topics.enable": "false",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
    },
    "nostreams": _STREAMS,
    # The state topic has one partition, so that what the share coordinator keeps up shows at offsets that are known.
    "cold-snapshots": {
        "auto.create.topics.enable": "false",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.cold.partition.snapshot.interval.ms": "2000",
    },
    "pruning": {
        "auto.create.topics.enable": "false",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.prune.interval.ms": "700",
    },
    # For the early access alone (early_scripts).
    "few": {"auto.create.topics.enable": "false", "share.fetch.max.fetch.records": "5"},
    "noshare": {"auto.create.topics.enable": "false"},
    "sasl": _SASL,
    "sasl-tokens": {**_SASL, "delegation.token.secret.key": "mysterious"},
    # The recording broker had a reporter of this name that takes what clients push, and does nothing with it.
    "telemetry": {"metric.reporters": "TelemetryReceiver", "telemetry.max.bytes": "1000"},
}


#: Feature levels of the brokers that were not formatted with Kafka's own.
_FEATURES: Mapping[str, tuple[str, ...]] = {
    "noshare": ("share.version=0",),
    "nostreams": ("streams.version=0",),
    "txn1": ("transaction.version=1",),
}


#: What a real broker needs beside: where a script denies 127.0.0.1 what a controller asks, the controller is somebody
#: else than the clients, and may do all.
_REAL: Mapping[str, Mapping[str, str]] = {
    "acl-locked": {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="controller" password="controller" user_controller="controller";'
        ),
        "super.users": "User:controller",
    },
}

#: Brokers on which scripts are played one by one, as each changes what holds for all.
ALONE = frozenset({"acl", "admin", "limits"})

#: Brokers on which nothing is played after a script.
ONCE = frozenset({"acl-locked", "cold", "cold-snapshots", "kraft", "pruning", "sasl-tokens", "unregistered"})

#: Brokers whose coordinators nobody has asked for anything before.
COLD = frozenset({"cold"})


def properties(name: str) -> dict[str, str]:
    """All properties of a broker."""
    return {**_BASE, **BROKERS[name]}


def real_properties(name: str) -> dict[str, str]:
    """All properties of a real broker of this name, beside those that `start-kafka` gives to each."""
    return {**properties(name), **_REAL.get(name, {})}


def features(name: str) -> tuple[str, ...]:
    """Its feature levels as far as they are not Kafka's own."""
    return _FEATURES.get(name, ())


def venue(name: str) -> VirtualVenue:
    """A broker of this name, on virtual time."""
    return VirtualVenue(properties(name), features(name))
