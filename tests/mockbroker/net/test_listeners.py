"""Listeners as Kafka's own configurations name them."""

from __future__ import annotations

import pytest

from mockbroker.config import BrokerConfig, ConfigError
from mockbroker.net.listeners import Listener, listeners_of


def test_without_listeners_a_broker_stays_on_loopback() -> None:
    assert listeners_of(BrokerConfig(), port=9092) == [Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)]


def test_a_listener_without_a_host_stays_on_loopback() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://:9092"})

    assert [(listener.host, listener.port) for listener in listeners_of(config)] == [("127.0.0.1", 9092)]


def test_the_controllers_listener_is_none_for_clients() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"})

    assert [listener.name for listener in listeners_of(config)] == ["PLAINTEXT"]


def test_a_named_listener_speaks_what_the_map_says() -> None:
    config = BrokerConfig(
        {
            "listeners": "INSIDE://127.0.0.1:1,OUTSIDE://127.0.0.1:2",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL",
            "advertised.listeners": "INSIDE://localhost:1001",
        }
    )

    assert listeners_of(config) == [
        Listener("INSIDE", "PLAINTEXT", "127.0.0.1", 1, "localhost", 1001),
        Listener("OUTSIDE", "SSL", "127.0.0.1", 2),
    ]


def test_the_port_option_wins_over_the_first_listener() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:9092"})

    assert listeners_of(config, port=0)[0].port == 0


@pytest.mark.parametrize("text", ["PLAINTEXT:127.0.0.1:9092", "PLAINTEXT://127.0.0.1", "PLAINTEXT://127.0.0.1:99999"])
def test_a_listener_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form"):
        listeners_of(BrokerConfig({"listeners": text}))


def test_a_mechanism_of_sasl_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="GSSAPI of the listener SASL_PLAINTEXT is not supported; PLAIN and SCRAM"):
        listeners_of(BrokerConfig({"listeners": "SASL_PLAINTEXT://127.0.0.1:9092"}))


def test_a_protocol_that_there_is_not_is_refused_by_name() -> None:
    given = {"listeners": "IN://127.0.0.1:9092", "listener.security.protocol.map": "IN:TELNET"}

    with pytest.raises(ConfigError, match="speaks TELNET"):
        listeners_of(BrokerConfig(given))
