"""JAAS configurations in one property are parsed as by Kafka."""

from __future__ import annotations

import pytest

from mockbroker.config.broker_config import ConfigError
from mockbroker.security.jaas import parse_jaas

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
        ('a.B required x="hidden;', "unterminated quoted value"),
        ('; a.B required x="hidden";', "begins with ';'"),
    ],
)
def test_an_error_does_not_show_values(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        parse_jaas(KEY, text)

    assert str(refused.value).startswith(KEY)
    assert "hidden" not in str(refused.value)


def test_passwords_are_not_in_what_python_shows() -> None:
    assert "secret" not in repr(parse_jaas(KEY, 'a.B required user_alice="secret";'))
