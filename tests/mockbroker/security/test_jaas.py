"""JAAS configurations in one property, read as Kafka reads them."""

from __future__ import annotations

import pytest

from mockbroker.config import BrokerConfig, ConfigError
from mockbroker.security.jaas import parse_jaas
from mockbroker.security.sasl_config import parse_scram_user, sasl_listener
from tests.mockbroker.security.sasl_kit import CONFIG, PLAIN_MODULE

KEY = "listener.name.in.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.B required;", {}),
        ("a.B required x=\"1\" y='2' z=three-3_$.x;", {"x": "1", "y": "2", "z": "three-3_$.x"}),
        ('a.B REQUIRED // so it is\n x="a;b=\\"c\\"\\t\\101" /* and\nso */ ;', {"x": 'a;b="c"\tA'}),
        ('a.B optional x="1" x="2";', {"x": "2"}),
    ],
)
def test_a_login_module_has_options(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(KEY, text)

    assert module.name == "a.B"
    assert module.options == options


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 login modules"),
        ("a.B required; c.D required;", "has 2 login modules"),
        ("a.B", "is not followed by one of required"),
        ("a.B perhaps;", "is not followed by one of required"),
        ("a.B required", "does not end with a semicolon"),
        ('a.B required x="hidden"', "does not end with a semicolon"),
        ("a.B required x;", "option 'x' has no value"),
        ("a.B required x=;", "option 'x' has no value"),
        ("a.B required x=12hidden;", "option 'x' has no value"),
        ('a.B required x="hidden;', "a quoted value does not end"),
        ('; a.B required x="hidden";', "begins with ';'"),
    ],
)
def test_what_is_wrong_is_told_without_a_value(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        parse_jaas(KEY, text)

    assert str(refused.value).startswith(KEY)
    assert "hidden" not in str(refused.value)


def test_a_mechanism_without_a_login_module_is_refused_by_the_name_of_its_property() -> None:
    given = {name: value for name, value in CONFIG.items() if name != KEY}

    with pytest.raises(ConfigError, match=f"{KEY}: is missing"):
        sasl_listener(BrokerConfig(given), "IN")


def test_a_login_module_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a\.B is not supported"):
        sasl_listener(BrokerConfig({**CONFIG, KEY: "a.B required;"}), "IN")


def test_a_listener_has_a_mechanism() -> None:
    with pytest.raises(ConfigError, match="speaks SASL and has no mechanism"):
        sasl_listener(BrokerConfig({**CONFIG, "listener.name.in.sasl.enabled.mechanisms": ""}), "IN")


def test_a_wrong_value_of_a_listener_is_told_with_its_whole_name() -> None:
    given = {**CONFIG, "listener.name.in.connections.max.reauth.ms": "soon"}

    with pytest.raises(ConfigError, match=r"listener\.name\.in\.connections\.max\.reauth\.ms: 'soon'"):
        sasl_listener(BrokerConfig(given), "IN")


def test_names_of_a_listener_are_known_to_kafka() -> None:
    config = BrokerConfig({**CONFIG, "listener.name.in.nonsense": "1", "listener.name.in.plain.nonsense": "1"})

    assert config.unknown == ["listener.name.in.nonsense", "listener.name.in.plain.nonsense"]


def test_passwords_are_not_in_what_python_shows() -> None:
    config = BrokerConfig(CONFIG)

    assert "secret" not in repr(sasl_listener(config, "IN"))
    assert "secret" not in repr(parse_jaas(KEY, f'{PLAIN_MODULE} required user_alice="secret";'))
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
def test_a_user_that_cannot_be_made_is_told_without_the_password(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        parse_scram_user(text)

    assert "hidden" not in str(refused.value)
