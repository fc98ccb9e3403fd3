"""Configurations whose value names a class or a plug-in: which ones mockbroker has, and what becomes of others.

A class in Java cannot be run. Where the answers would depend on what it decides, the value is refused or a warning
names it; where they would not, it is noted.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from enum import Enum

import msgspec

from mockbroker.config.keys import ConfigError, Value

_ASSIGNORS = "org.apache.kafka.coordinator.group.assignor"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_SECURITY = "org.apache.kafka.common.security"
_REMOTE_METADATA = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
JMX_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"
#: The assignors of groups by the names that configurations give them.
CONSUMER_ASSIGNORS: Mapping[str, str] = {
    "uniform": "uniform",
    "range": "range",
    f"{_ASSIGNORS}.UniformAssignor": "uniform",
    f"{_ASSIGNORS}.RangeAssignor": "range",
}
#: The only assignor of streams groups.
STREAMS_ASSIGNOR = "sticky"
#: The values of group.share.persister.class.name; an empty one has the effect of the second.
DEFAULT_PERSISTER = "org.apache.kafka.server.share.persister.DefaultStatePersister"
NO_OP_PERSISTER = "org.apache.kafka.server.share.persister.NoOpStatePersister"
#: The values of group.share.dlq.manager.class.name; an empty one has the effect of the second.
DEFAULT_DEAD_LETTER_MANAGER = "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager"
NO_OP_DEAD_LETTER_MANAGER = "org.apache.kafka.server.share.dlq.NoOpShareGroupDLQManager"
#: The only replica selector that sends consumers to followers; the other one is what Kafka does without any.
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"


class Treatment(Enum):
    """What happens at the start with a value that is not supported."""

    REFUSED = "refused at the start"
    WARNED = "a warning at the start"
    NOTED = "a line at the start"


class PluginKey(msgspec.Struct, frozen=True):
    """One configuration. supported: the values with their effect in Kafka. effect: what others mean here.

    of_mechanism: it has an effect only with the prefix of a listener and of a SASL mechanism.
    """

    name: str
    supported: tuple[str, ...]
    treatment: Treatment
    effect: str
    of_mechanism: bool = False

    def supports(self, value: str) -> bool:
        """Whether a class, or a boolean in any case, has its effect."""
        return value in self.supported or (value.lower() == "false" and "false" in self.supported)


_REFUSED, _WARNED, _NOTED = Treatment.REFUSED, Treatment.WARNED, Treatment.NOTED
PLUGIN_KEYS: Mapping[str, PluginKey] = {
    key.name: key
    for key in (
        PluginKey("alter.config.policy.class.name", (), _WARNED, "no policy: changes of configurations are accepted"),
        PluginKey("authorizer.class.name", ("", STANDARD_AUTHORIZER), _WARNED, "no authorizer: everything is allowed"),
        PluginKey("client.quota.callback.class", (), _WARNED, "quotas as by Kafka's default callback"),
        PluginKey("config.providers", (), _WARNED, "references like ${provider:path:key} are taken literally"),
        PluginKey("create.topic.policy.class.name", (), _WARNED, "no policy: topics are created"),
        PluginKey("group.consumer.assignors", tuple(CONSUMER_ASSIGNORS), _REFUSED, "no other assignor"),
        PluginKey("group.share.assignors", ("simple", f"{_ASSIGNORS}.SimpleAssignor"), _REFUSED, "no other assignor"),
        PluginKey(
            "group.share.dlq.manager.class.name",
            ("", DEFAULT_DEAD_LETTER_MANAGER, NO_OP_DEAD_LETTER_MANAGER),
            _REFUSED,
            "no other manager of dead letters",
        ),
        PluginKey(
            "group.share.persister.class.name",
            ("", DEFAULT_PERSISTER, NO_OP_PERSISTER),
            _REFUSED,
            "no other persister",
        ),
        PluginKey(
            "group.streams.assignors",
            (STREAMS_ASSIGNOR, "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"),
            _REFUSED,
            "no other assignor",
        ),
        PluginKey(
            "group.streams.topology.description.plugin.class",
            (),
            _NOTED,
            "any class: descriptions are kept in memory",
        ),
        PluginKey("kafka.metrics.reporters", (), _NOTED, "not loaded: the broker reports no metrics"),
        PluginKey("metric.reporters", (JMX_REPORTER,), _NOTED, "not loaded, but clients may push their metrics to it"),
        PluginKey(
            "principal.builder.class",
            (f"{_SECURITY}.authenticator.DefaultKafkaPrincipalBuilder",),
            _WARNED,
            "principals as by Kafka's default builder",
        ),
        PluginKey(
            "remote.log.metadata.manager.class.name", (_REMOTE_METADATA,), _NOTED, "no tiered storage, so not loaded"
        ),
        PluginKey("remote.log.storage.manager.class.name", (), _NOTED, "no tiered storage, so not loaded"),
        PluginKey("remote.log.storage.system.enable", ("false",), _WARNED, "no tiered storage: all segments are local"),
        PluginKey(
            "replica.selector.class",
            ("", RACK_AWARE_SELECTOR, _LEADER_SELECTOR),
            _WARNED,
            "consumers fetch from leaders",
        ),
        PluginKey("sasl.client.callback.handler.class", (), _NOTED, "not loaded: brokers do not log in to each other"),
        PluginKey("sasl.login.callback.handler.class", (), _NOTED, "not loaded: brokers do not log in to each other"),
        PluginKey("sasl.login.class", (), _NOTED, "not loaded: brokers do not log in to each other"),
        PluginKey(
            "sasl.oauthbearer.jwt.retriever.class",
            (f"{_OAUTH}.DefaultJwtRetriever",),
            _NOTED,
            "not loaded: brokers do not log in to each other",
        ),
        PluginKey(
            "sasl.oauthbearer.jwt.validator.class",
            (f"{_OAUTH}.DefaultJwtValidator", f"{_OAUTH}.BrokerJwtValidator"),
            _REFUSED,
            "no other validator",
        ),
        PluginKey(
            "sasl.server.callback.handler.class",
            (
                f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
                f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
                f"{_SECURITY}.plain.internals.PlainServerCallbackHandler",
                f"{_SECURITY}.scram.internals.ScramServerCallbackHandler",
            ),
            _REFUSED,
            "no other handler",
            of_mechanism=True,
        ),
        PluginKey("security.providers", (), _NOTED, "not loaded: there is no Java here"),
        PluginKey(
            "ssl.engine.factory.class",
            (f"{_SECURITY}.ssl.DefaultSslEngineFactory",),
            _WARNED,
            "TLS from the key stores and trust stores of the listener",
        ),
        PluginKey("ssl.keymanager.algorithm", ("SunX509",), _NOTED, "no effect: there is no Java here"),
        PluginKey("ssl.provider", (), _NOTED, "no effect: there is no Java here"),
        PluginKey("ssl.secure.random.implementation", (), _NOTED, "no effect: there is no Java here"),
        PluginKey("ssl.trustmanager.algorithm", ("PKIX",), _NOTED, "no effect: there is no Java here"),
    )
}
#: Of which one must be named, of the first one at least one. Source: Kafka's GroupCoordinatorConfig.
_ASSIGNOR_LISTS = ("group.consumer.assignors", "group.share.assignors", "group.streams.assignors")
#: The prefix of a SASL mechanism of a listener.
_MECHANISM = re.compile(r"listener\.name\.[^.]+\.[^.]+\.")


class UnsupportedPlugin(msgspec.Struct, frozen=True):
    """A value that is set and not supported. name: as it was set, with the prefix of a listener."""

    name: str
    value: str
    key: PluginKey


def find_unsupported(given: Mapping[str, str], known: Container[str]) -> Iterator[UnsupportedPlugin]:
    """The classes among the values that are set that mockbroker does not have; an empty value names none.

    known: the configurations that the release has.
    """
    for name, text in given.items():
        key, prefix = _split_name(name)
        if key is not None and key.name in known and (not key.of_mechanism or _MECHANISM.fullmatch(prefix)):
            for part in text.split(","):
                value = part.strip().removeprefix("class ")
                if value and not key.supports(value):
                    yield UnsupportedPlugin(name, value, key)


def check_plugins(given: Mapping[str, str], known: Container[str]) -> None:
    """Refuse classes without which the answers would be others. known: as above.

    Raises: ConfigError with the key, the value, and the values that are supported.
    """
    for found in find_unsupported(given, known):
        if found.key.treatment is Treatment.REFUSED:
            supported = " or ".join(name for name in found.key.supported if name)
            raise ConfigError(f"{found.name}: {found.value!r} is not supported; supported: {supported}")


def check_assignors(values: Mapping[str, Value]) -> None:
    """Refuse lists of assignors that Kafka refuses. Raises: ConfigError."""
    for name in _ASSIGNOR_LISTS:
        listed = values.get(name, [STREAMS_ASSIGNOR])  # Some are of newer releases.
        if not isinstance(listed, list) or not listed:
            raise ConfigError(f"{name}: {listed!r} must name an assignor")
        if len(listed) > 1 and name != _ASSIGNOR_LISTS[0]:
            raise ConfigError(f"{name}: {listed!r} must name exactly one assignor")


def _split_name(name: str) -> tuple[PluginKey | None, str]:
    """The key that a name ends with, and the prefix of a listener, and possibly of a mechanism, before it."""
    if name in PLUGIN_KEYS:
        return PLUGIN_KEYS[name], ""
    if name.startswith("listener.name."):
        for key in PLUGIN_KEYS.values():
            if name.endswith(f".{key.name}"):
                return key, name.removesuffix(key.name)
    return None, ""
