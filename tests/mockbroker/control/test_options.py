"""The address and the token of the control over HTTP."""

from __future__ import annotations

import pytest

from mockbroker import ConfigError
from mockbroker.control.options import TOKEN_VARIABLE, ControlOptions, parse_control


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (0, ControlOptions("127.0.0.1", 0)),
        ("9090", ControlOptions("127.0.0.1", 9090)),
        ("localhost:9090", ControlOptions("localhost", 9090)),
        ("[::1]:0", ControlOptions("::1", 0)),
    ],
)
def test_a_port_or_a_loopback_address_needs_no_token(address: int | str, expected: ControlOptions) -> None:
    assert parse_control(address) == expected


@pytest.mark.parametrize("address", ["", "nine", "-1", "65536", "a:b", "host:", "http://localhost:1", True, "::1:0"])
def test_a_wrong_address_is_refused(address: int | str) -> None:
    with pytest.raises(ConfigError, match=r"control: .* expected PORT or HOST:PORT"):
        parse_control(address)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:9090", "build.example.com:9090"])
def test_an_address_that_others_reach_needs_a_token(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="set a token by --control-token or the variable MOCKBROKER_CONTROL_TOKEN"):
        parse_control(address)
    monkeypatch.setenv(TOKEN_VARIABLE, "from-environment")

    assert parse_control(address).token == "from-environment"
    assert parse_control(address, "given").token == "given"
    assert "given" not in repr(parse_control(address, "given"))


@pytest.mark.parametrize("token", ["", "two words", "a\nb", "ä"])
def test_a_token_that_no_header_can_have_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="control-token: expected"):
        parse_control(0, token)
