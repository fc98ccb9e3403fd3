"""Listeners as Kafka's own configurations name them."""

from __future__ import annotations

import pytest

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.net.listeners import Listener, parse_advertised, parse_listeners, place_listeners


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
        ("SASL_PLAINTEXT://127.0.0.1:9092", "GSSAPI of the listener SASL_PLAINTEXT is not supported; PLAIN, SCRAM"),
        ("IN://127.0.0.1:9092", "has the protocol TELNET"),
    ],
)
def test_a_listener_that_is_invalid_or_not_supported_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_listeners(BrokerConfig({"listeners": text, "listener.security.protocol.map": "IN:TELNET"}))


def _place(*names: str, host: str | None = None, advertised: str | None = None, nodes: int = 1) -> list[Listener]:
    listeners = [Listener(name, "PLAINTEXT", "127.0.0.1", 0) for name in names or ("PLAINTEXT",)]
    return place_listeners(listeners, host=host, advertised=advertised, node_count=nodes)


def test_listeners_are_placed_elsewhere_with_the_address_for_clients() -> None:
    (listener,) = _place(host="::1", advertised="kafka:9092", nodes=3)
    both = _place("IN", "OUT", advertised="kafka")

    assert (listener.host, listener.advertised_host, listener.advertised_port) == ("::1", "kafka", 9092)
    assert [(row.advertised_host, row.advertised_port) for row in both] == [("kafka", None)] * 2
    assert _place() == [Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0)]


@pytest.mark.parametrize(
    ("text", "parsed"), [("kafka", ("kafka", None)), ("a.b-c:1", ("a.b-c", 1)), ("[::1]:9092", ("::1", 9092))]
)
def test_an_advertised_address_has_a_host_and_perhaps_a_port(text: str, parsed: tuple[str, int | None]) -> None:
    assert parse_advertised(text) == parsed


@pytest.mark.parametrize("text", ["", ":9092", "kafka:", "kafka:0", "kafka:65536", "PLAINTEXT://kafka:1", "a b", "::1"])
def test_an_advertised_address_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not of the form HOST or HOST:PORT"):
        parse_advertised(text)


def test_addresses_that_nodes_cannot_have_are_refused() -> None:
    with pytest.raises(ConfigError, match="port: node 2 of 3 would listen on 65537"):
        _place(advertised="kafka:65535", nodes=3)
    with pytest.raises(ConfigError, match="of 2 listeners each has its own"):
        _place("IN", "OUT", advertised="kafka:9092")
    with pytest.raises(ConfigError, match="host: ' ' is no host name or address"):
        _place(host=" ")


@pytest.mark.parametrize(
    ("host", "is_loopback"), [("127.0.0.9", True), ("::1", True), ("localhost", True), ("::", False), ("kafka", False)]
)
def test_a_listener_that_other_machines_may_reach_is_known(host: str, is_loopback: bool) -> None:
    assert _place(host=host)[0].is_loopback == is_loopback
