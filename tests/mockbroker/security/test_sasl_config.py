"""The settings of SASL listeners, and initial users in the format of `kafka-storage.sh`."""

from __future__ import annotations

import pytest

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.security.sasl_config import parse_scram_user, sasl_listener
from tests.support.brokers.sasl_clients import CONFIG

KEY = "listener.name.in.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (KEY, None, f"{KEY}: missing"),
        (KEY, "a.B required;", r"a\.B is not supported"),
        ("listener.name.in.sasl.enabled.mechanisms", "", "has no mechanism"),
        ("listener.name.in.connections.max.reauth.ms", "soon", r"listener\.name\.in\.connections\.max\.reauth\.ms: 's"),
    ],
)
def test_a_wrong_configuration_of_a_listener_is_refused(name: str, value: str | None, why: str) -> None:
    given = {key: text for key, text in {**CONFIG, name: value}.items() if text is not None}

    with pytest.raises(ConfigError, match=why):
        sasl_listener(BrokerConfig(given), "IN")


def test_names_of_a_listener_are_known_to_kafka() -> None:
    config = BrokerConfig({**CONFIG, "listener.name.in.nonsense": "1", "listener.name.in.plain.nonsense": "1"})

    assert config.unknown == ["listener.name.in.nonsense", "listener.name.in.plain.nonsense"]


def test_passwords_of_listeners_and_users_are_not_in_what_python_shows() -> None:
    assert "secret" not in repr(sasl_listener(BrokerConfig(CONFIG), "IN"))
    assert "secret" not in repr(parse_scram_user("SCRAM-SHA-256=[name=alice,password=secret]"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("alice", "has the form"),
        ("SCRAM-SHA-256=[name=alice]", "has the form"),
        ("SCRAM-SHA-256=[name=alice,password=hidden,age=3]", "has the form"),
        ("SCRAM-MD5=[name=alice,password=hidden]", "SCRAM-MD5 is neither"),
        ("SCRAM-SHA-256=[name=alice,password=hidden,iterations=4095]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=alice,password=hidden,salt=?]", "is not base64"),
    ],
)
def test_an_error_of_a_user_does_not_show_the_password(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        parse_scram_user(text)

    assert "hidden" not in str(refused.value)
