"""Configurations whose value names a class: each is refused, warned of or noted, and none is taken silently."""

from __future__ import annotations

import logging
import re

import pytest

from mockbroker import Cluster
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.config.keys import ConfigType, Scope, config_keys
from mockbroker.config.plugins import CONSUMER_ASSIGNORS, PLUGIN_KEYS, Treatment
from mockbroker.state.group.consumer_assignors import ASSIGNORS

FOREIGN = "com.example.Plugin"
_ASSIGNOR = "org.apache.kafka.coordinator.group.assignor"
_NAMES_A_CLASS = re.compile(
    r"\.(class|class\.name|assignors|reporters|providers?|persister|implementation)$|(key|trust)manager\.algorithm$"
)


def test_every_configuration_that_names_a_class_is_in_the_table() -> None:
    keys = config_keys(Scope.BROKER)
    classes = {name for name, key in keys.items() if key.type is ConfigType.CLASS or _NAMES_A_CLASS.search(name)}

    assert classes - PLUGIN_KEYS.keys() == set()
    assert PLUGIN_KEYS.keys() - keys.keys() == set()
    assert len(classes) == 29


@pytest.mark.parametrize("name", sorted(PLUGIN_KEYS))
def test_a_class_that_is_not_supported_is_never_taken_silently(name: str) -> None:
    key = PLUGIN_KEYS[name]
    given = f"listener.name.x.plain.{name}" if key.of_mechanism else name
    value = "true" if name.endswith(".enable") else FOREIGN

    if key.treatment is Treatment.REFUSED:
        with pytest.raises(ConfigError, match=f"{name}: '{value}' is not supported; supported: {key.supported[-1]}|or"):
            BrokerConfig({given: value})
    else:
        config = BrokerConfig({given: value})
        assert [(one.name, one.value) for one in config.unsupported_plugins] == [(given, value)]
        assert (config.ignored, config.unknown) == ([], [])


@pytest.mark.parametrize("name", sorted(PLUGIN_KEYS))
def test_classes_of_kafka_with_their_effect_are_accepted(name: str) -> None:
    for value in PLUGIN_KEYS[name].supported:
        assert BrokerConfig({name: value}).unsupported_plugins == []


@pytest.mark.parametrize("kind", ["consumer", "share"])
@pytest.mark.parametrize("value", ["foo", "simpel", "", "Range", "SIMPLE", FOREIGN, "range,foo", "simple,uniform"])
def test_an_assignor_that_does_not_exist_is_refused_at_the_start(kind: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"group.{kind}.assignors"):
        Cluster(properties={f"group.{kind}.assignors": value})


def test_an_assignor_of_kafka_counts_by_its_class_too() -> None:
    config = BrokerConfig({"group.consumer.assignors": f"{_ASSIGNOR}.RangeAssignor, uniform"})

    assert config.consumer_assignors == ["range", "uniform"]
    assert set(CONSUMER_ASSIGNORS.values()) == ASSIGNORS.keys()
    BrokerConfig({"group.share.assignors": f"{_ASSIGNOR}.SimpleAssignor"})


def test_a_handler_without_the_prefix_of_a_mechanism_has_no_effect_as_in_kafka() -> None:
    name = "sasl.server.callback.handler.class"

    assert BrokerConfig({name: FOREIGN}).ignored == [name]
    assert BrokerConfig({f"listener.name.x.{name}": FOREIGN}).unsupported_plugins == []


def test_a_key_that_the_release_does_not_have_is_unknown_and_not_refused() -> None:
    config = BrokerConfig({"group.streams.assignors": FOREIGN}, release="4.3")

    assert (config.unknown, config.unsupported_plugins) == (["group.streams.assignors"], [])


def test_the_log_warns_where_answers_change_and_notes_the_others(caplog: pytest.LogCaptureFixture) -> None:
    properties = {
        "create.topic.policy.class.name": FOREIGN,
        "listener.name.plaintext.principal.builder.class": FOREIGN,
        "security.providers": FOREIGN,
        "kafka.metrics.reporters": f"{FOREIGN}, com.example.Other",
    }

    with caplog.at_level(logging.INFO, "mockbroker"), Cluster(properties=properties):
        pass

    lines = {record.getMessage(): record.levelname for record in caplog.records if "is not supported" in record.msg}
    assert lines == {
        f"create.topic.policy.class.name={FOREIGN} is not supported: no policy: topics are created": "WARNING",
        f"listener.name.plaintext.principal.builder.class={FOREIGN} is not supported: principals as by Kafka's default "
        "builder": "WARNING",
        f"security.providers={FOREIGN} is not supported: not loaded: there is no Java here": "INFO",
        f"kafka.metrics.reporters={FOREIGN} is not supported: not loaded: the broker reports no metrics": "INFO",
        "kafka.metrics.reporters=com.example.Other is not supported: not loaded: the broker reports no metrics": "INFO",
    }
