"""Properties of the brokers that the scripts name; each script gets a fresh broker."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from tools.oracle.conversations.virtual_broker import RESPONSE_TIMEOUT_MS, START_MS, VirtualBroker

#: Properties of every recording broker, in addition to those by name.
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

#: Listeners in addition to PLAINTEXT, by the names that the scripts connect to.
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

#: Public keys of the tokens in the scripts; nothing has the private ones.
_JWKS = Path(__file__).with_name("oauth_jwks.json").as_uri()
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_BEARER = f"{_OAUTH}.OAuthBearerLoginModule required"
_SCOPES = (
    'unsecuredLoginStringClaim_sub="broker" unsecuredValidatorPrincipalClaimName="sub" '
    'unsecuredValidatorScopeClaimName="roles" unsecuredValidatorRequiredScope="read write" '
    'unsecuredValidatorAllowableClockSkewMs="1000"'
)
_OAUTH_BROKER = {
    "listeners": ",".join(
        f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "UNSECURED", "SCOPED", "SIGNED", "LIMITED")
    ),
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,UNSECURED:SASL_PLAINTEXT,SCOPED:SASL_PLAINTEXT,"
        "SIGNED:SASL_PLAINTEXT,LIMITED:SASL_PLAINTEXT"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.unsecured.oauthbearer.sasl.jaas.config": f'{_BEARER} unsecuredLoginStringClaim_sub="broker";',
    "listener.name.scoped.oauthbearer.sasl.jaas.config": f"{_BEARER} {_SCOPES};",
    "listener.name.signed.oauthbearer.sasl.jaas.config": f'{_BEARER} unsecuredLoginStringClaim_sub="broker";',
    "listener.name.signed.oauthbearer.sasl.server.callback.handler.class": (
        f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
    ),
    "listener.name.signed.sasl.oauthbearer.jwks.endpoint.url": _JWKS,
    "listener.name.signed.sasl.oauthbearer.expected.audience": "kafka,cluster",
    "listener.name.signed.sasl.oauthbearer.expected.issuer": "issuer",
    "listener.name.limited.sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN",
    "listener.name.limited.oauthbearer.sasl.jaas.config": f'{_BEARER} unsecuredLoginStringClaim_sub="broker";',
    "listener.name.limited.plain.sasl.jaas.config": f"{_PLAIN} {_USERS};",
    "listener.name.limited.connections.max.reauth.ms": "3000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice;User:ANONYMOUS",
}

_TRANSACTIONS = {
    "auto.create.topics.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
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

_DEAD_LETTERS = {
    "auto.create.topics.enable": "false",
    "group.share.min.record.lock.duration.ms": "1000",
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
    # Its coordinators' topics do not exist before the script uses them. A real broker ignores the second property.
    "new-coordinators": {"auto.create.topics.enable": "false", "mockbroker.cold.coordinators": "true"},
    "unstable": {"unstable.api.versions.enable": "true", "unstable.feature.versions.enable": "true"},
    "defaults": {"auto.create.topics.enable": "true"},
    "limits": {
        "group.share.max.size": "10",
        "group.share.max.share.sessions": "10",
        "group.share.min.record.lock.duration.ms": "1000",
    },
    "acl": _ACL,
    # A single-use broker: the script denies 127.0.0.1 what a controller requests from its broker.
    # The recorded broker had its controller at another address of the machine.
    "acl-locked": _ACL,
    # Their scripts change the whole cluster; the other two do so permanently.
    "admin": {"auto.create.topics.enable": "false"},
    "kraft": {"auto.create.topics.enable": "false"},
    "unregistered": {"auto.create.topics.enable": "false"},
    "txn": _TRANSACTIONS,
    "two-phase": {
        **_TRANSACTIONS,
        "unstable.api.versions.enable": "true",
        "transaction.two.phase.commit.enable": "true",
        "transaction.max.timeout.ms": "60000",
    },
    "txn1": _TRANSACTIONS,
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
    "expiring": {
        "auto.create.topics.enable": "false",
        "producer.id.expiration.ms": "4000",
        "producer.id.expiration.check.interval.ms": "500",
        "transactional.id.expiration.ms": "3000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    },
    "snapshots": {"auto.create.topics.enable": "false", "share.coordinator.snapshot.update.records.per.snapshot": "5"},
    "streams": _STREAMS,
    "streams-acl": {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "auto.create.topics.enable": "false",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.streams.assignment.interval.ms": "0",
    },
    "nostreams": _STREAMS,
    "classic-only": {"auto.create.topics.enable": "false", "group.coordinator.rebalance.protocols": "classic"},
    # The recording broker had a plugin of this name that keeps descriptions in memory.
    "streams-described": {**_STREAMS, "group.streams.topology.description.plugin.class": "TopologyDescriptions"},
    # The state topic has one partition, so that the share coordinator writes at known offsets.
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
    # With dead-letter queues: share.version 2, of release 4.4.
    "dead-letters": _DEAD_LETTERS,
    "dead-letters-created": {**_DEAD_LETTERS, "errors.deadletterqueue.auto.create.topics.enable": "true"},
    "dead-letters-no-prefix": {**_DEAD_LETTERS, "errors.deadletterqueue.topic.name.prefix": ""},
    "dead-letters-no-op": {
        **_DEAD_LETTERS,
        "group.share.dlq.manager.class.name": "org.apache.kafka.server.share.dlq.NoOpShareGroupDLQManager",
    },
    "dead-letters-off": _DEAD_LETTERS,
    "dead-letters-alone": _DEAD_LETTERS,
    "dead-letters-acl": {**_DEAD_LETTERS, **_ACL},
    "dead-letters-acl-created": {
        **_DEAD_LETTERS,
        **_ACL,
        "errors.deadletterqueue.auto.create.topics.enable": "true",
    },
    # Consumer groups of one member, which take no members of the classic protocol.
    "small": {
        "auto.create.topics.enable": "false",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.max.size": "1",
        "group.consumer.migration.policy": "disabled",
    },
    # For the early access only (early_scripts).
    "few": {"auto.create.topics.enable": "false", "share.fetch.max.fetch.records": "5"},
    "noshare": {"auto.create.topics.enable": "false"},
    "sasl": _SASL,
    "oauth": _OAUTH_BROKER,
    "sasl-tokens": {**_SASL, "delegation.token.secret.key": "mysterious"},
    # For tools.oracle.fuzz: short waits, and an authorizer that allows everything until a sequence has ACLs of its own.
    "fuzz": {
        "auto.create.topics.enable": "false",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "controller.quorum.append.linger.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.coordinator.append.linger.ms": "0",
        "group.min.session.timeout.ms": "500",
        "group.share.assignment.interval.ms": "0",
        "group.streams.assignment.interval.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        "transaction.partition.verification.enable": "true",
    },
    # The recording broker had a reporter of this name that accepts pushed metrics and ignores them.
    "telemetry": {"metric.reporters": "TelemetryReceiver", "telemetry.max.bytes": "1000"},
}


#: Feature levels of the brokers that were not formatted with Kafka's own.
_FEATURES: Mapping[str, tuple[str, ...]] = {
    "noshare": ("share.version=0",),
    "nostreams": ("streams.version=0",),
    "txn1": ("transaction.version=1",),
    "dead-letters": ("share.version=2",),
    "dead-letters-created": ("share.version=2",),
    "dead-letters-no-prefix": ("share.version=2",),
    "dead-letters-no-op": ("share.version=2",),
    "dead-letters-off": ("share.version=1",),
    "dead-letters-alone": ("share.version=1",),
    "dead-letters-acl-created": ("share.version=2",),
    "dead-letters-acl": ("share.version=2",),
}


#: Additional properties of a real broker: where a script denies requests of 127.0.0.1, the controller has
#: a principal of its own, which is a super user.
_REAL_EXTRA: Mapping[str, Mapping[str, str]] = {
    "acl-locked": {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="controller" password="controller" user_controller="controller";'
        ),
        "super.users": "User:controller",
    }
}

#: Brokers on which scripts run one by one, as each changes the whole broker.
ONE_BY_ONE = frozenset({"acl", "admin", "limits"})

#: Brokers that run a single script.
SINGLE_USE = frozenset(
    {
        "acl-locked",
        "cold",
        "cold-snapshots",
        "dead-letters-alone",
        "kraft",
        "new-coordinators",
        "pruning",
        "sasl-tokens",
        "unregistered",
    }
)

#: Brokers whose coordinators have had no request before.
COLD = frozenset({"cold", "new-coordinators"})


def properties(name: str) -> dict[str, str]:
    """All properties of a broker."""
    return {**_BASE, **BROKERS[name]}


def real_properties(name: str) -> dict[str, str]:
    """All properties of a real broker of this name, in addition to those that `start-kafka` sets."""
    return {**properties(name), **_REAL_EXTRA.get(name, {})}


def features(name: str) -> tuple[str, ...]:
    """Its feature levels that differ from Kafka's defaults."""
    return _FEATURES.get(name, ())


def virtual_broker(
    name: str,
    release: str | None = None,
    *,
    now_ms: int = START_MS,
    response_timeout_ms: int = RESPONSE_TIMEOUT_MS,
    rng: random.Random | None = None,
) -> VirtualBroker:
    """A broker of this name and release, on virtual time from `now_ms`. rng: the source of its random ids."""
    return VirtualBroker(
        properties(name),
        features(name),
        release=release,
        now_ms=now_ms,
        response_timeout_ms=response_timeout_ms,
        rng=rng,
    )
