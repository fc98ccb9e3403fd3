"""Listeners as Kafka's own configurations name them."""

from __future__ import annotations

import pytest

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.net.listeners import Listener, parse_listeners


@pytest.mark.parametrize(
    "text", ["PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://:9092", "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093"]
)
def test_a_broker_stays_on_loopback_and_the_listener_of_the_controller_is_not_for_clients(text: str) -> None:
    listeners = parse_listeners(BrokerConfig({"listeners": text}))

    assert listeners == [Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)]
    assert parse_listeners(BrokerConfig(), port=9092) == listeners


def test_a_named_listener_has_the_protocol_of_the_map() -> None:
    given = {
        "listeners": "INSIDE://127.0.0.1:1,OUTSIDE://127.0.0.1:2",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL",
        "advertised.listeners": "INSIDE://localhost:1001",
    }

    assert parse_listeners(BrokerConfig(given)) == [
        Listener("INSIDE", "PLAINTEXT", "127.0.0.1", 1, "localhost", 1001),
        Listener("OUTSIDE", "SSL", "127.0.0.1", 2),
    ]


def test_the_port_option_overrides_the_first_listener() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:9092"})

    assert parse_listeners(config, port=0)[0].port == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("PLAINTEXT:127.0.0.1:9092", "is not of the form"),
        ("PLAINTEXT://127.0.0.1", "is not of the form"),
        ("PLAINTEXT://127.0.0.1:99999", "is not of the form"),
        ("SASL_PLAINTEXT://127.0.0.1:9092", "GSSAPI of the listener SASL_PLAINTEXT is not supported; PLAIN and SCRAM"),
        ("IN://127.0.0.1:9092", "has the protocol TELNET"),
    ],
)
def test_a_listener_that_is_invalid_or_not_supported_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_listeners(BrokerConfig({"listeners": text, "listener.security.protocol.map": "IN:TELNET"}))
