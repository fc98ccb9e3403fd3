"""Configurations that Kafka does not know are named, with the ones that were meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from mockbroker import Cluster, ConfigError
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.log.config_log import log_ineffective, suggest_known


def test_a_cluster_with_an_unknown_property_warns_its_caller() -> None:
    with pytest.warns(UserWarning, match=r"ignored: message.max.byte \(did you mean message.max.bytes\?\)") as caught:
        Cluster(properties={"message.max.byte": 5})

    assert caught[0].filename == __file__


@pytest.mark.parametrize("given", [{"settings": ["message.max.byte=5"]}, {"properties": "server.properties"}])
def test_settings_and_files_warn_too(given: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("server.properties").write_text("message.max.byte = 5")

    with pytest.warns(UserWarning, match="did you mean message.max.bytes"):
        Cluster(**given)  # type: ignore[arg-type]


def test_known_properties_warn_nobody(recwarn: pytest.WarningsRecorder) -> None:
    Cluster(properties={"message.max.bytes": 5, "listener.name.plaintext.max.connections": 7, "mockbroker.racks": "a"})

    assert list(recwarn) == []


def test_the_line_of_the_log_has_the_suggestions_too(caplog: pytest.LogCaptureFixture) -> None:
    log_ineffective(BrokerConfig({"listener.name.a.ssl.keystore.locaton": "x", "my.plugin": "1"}))

    suggested = "listener.name.a.ssl.keystore.locaton (did you mean listener.name.a.ssl.keystore.location?), my.plugin"
    assert f"configurations unknown to Kafka 4.4, ignored: {suggested}" in caplog.text


def test_a_name_that_is_like_none_gets_no_suggestion() -> None:
    assert suggest_known(BrokerConfig({"confluent.metrics.reporter.bootstrap.servers": "x"})) == [
        "confluent.metrics.reporter.bootstrap.servers"
    ]


def test_values_have_the_form_of_a_file() -> None:
    values = {"sasl.enabled.mechanisms": ["PLAIN", "SCRAM-SHA-256"], "auto.create.topics.enable": False, "node.id": 3}
    config = Cluster(properties=values)._options.config

    assert config.strings("sasl.enabled.mechanisms") == ["PLAIN", "SCRAM-SHA-256"]
    assert (config.boolean("auto.create.topics.enable"), config.integer("node.id")) == (False, 3)


@pytest.mark.parametrize("value", [None, {"a": 1}, b"bytes", [None]])
def test_a_value_without_such_a_form_is_refused_without_it(value: object) -> None:
    with pytest.raises(ConfigError, match=r"ssl.keystore.password: a value of the type \w+; ") as refused:
        Cluster(properties={"ssl.keystore.password": value})

    assert "bytes'" not in str(refused.value)
