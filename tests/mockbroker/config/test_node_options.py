"""Properties and API versions of single nodes: their forms, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.config.node_options import parse_node_options, parse_node_settings, split_versions


def test_settings_of_the_command_are_properties_by_node() -> None:
    settings = ["1:broker.rack=b", "0:mockbroker.versions=Produce=8,Fetch=11", "1: fetch.max.bytes =5"]

    assert parse_node_settings(settings) == {
        1: {"broker.rack": "b", "fetch.max.bytes": "5"},
        0: {"mockbroker.versions": "Produce=8,Fetch=11"},
    }


@pytest.mark.parametrize(
    "setting", ["", "broker.rack=b", "x:broker.rack=b", "1:broker.rack", "1:=b", "-1:a=b", "\u0661:a=b"]
)
def test_a_setting_of_another_form_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match="has not the form NODE:KEY=VALUE"):
        parse_node_settings([setting])


def test_values_are_written_as_in_a_properties_file() -> None:
    given = {0: {"auto.create.topics.enable": False, "fetch.max.bytes": 2048}}
    options = parse_node_options(BrokerConfig(), given, {})

    assert options.properties == {0: {"auto.create.topics.enable": "false", "fetch.max.bytes": "2048"}}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"fetch.max.byte": 1}, "node 1: fetch.max.byte is no broker configuration; did you mean 'fetch.max.bytes'?"),
        ({"fetch.max.bytes": 1}, "node 1: fetch.max.bytes: "),
        ({"num.partitions": 3}, "node 1: num.partitions is the same for all nodes here"),
        ({"group.consumer.session.timeout.ms": 1}, "node 1: group.consumer.min.session.timeout.ms: 45000 must"),
        ({"listeners": "PLAINTEXT://:1"}, "node 1: listeners is the same for all nodes here"),
        ({"mockbroker.racks": "a"}, "node 1: mockbroker.racks is no broker configuration"),
        ({"mockbroker.versions": "9.9"}, "versions: '9.9' is no release"),
        ({"group.min.session.timeout.ms": 10**9}, "node 1: group.min.session.timeout.ms: 1000000000 must be at most"),
    ],
)
def test_a_property_that_a_node_cannot_have_is_refused(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_node_options(BrokerConfig(), {1: properties}, {})

    assert message in str(caught.value)


def test_a_property_without_an_effect_is_accepted_as_it_is_shown() -> None:
    options = parse_node_options(BrokerConfig(), {1: {"num.network.threads": 5}}, {})

    assert options.properties == {1: {"num.network.threads": "5"}}


def test_versions_are_of_all_nodes_or_of_single_ones() -> None:
    plain = BrokerConfig()

    assert split_versions(None, plain) == (None, {})
    assert split_versions("2.8", plain) == ("2.8", {})
    assert split_versions({"Produce": 8}, plain) == ({"Produce": 8}, {})
    by_node: dict[int, str | dict[str, int]] = {0: "2.8", 2: {"Produce": 8}}
    assert split_versions(by_node, plain) == (None, by_node)
    assert split_versions(None, BrokerConfig({"mockbroker.versions": "2.8"})) == ("2.8", {})


def test_versions_that_are_given_twice_are_refused() -> None:
    with pytest.raises(ConfigError, match="has ids of nodes and names of APIs"):
        split_versions({0: "2.8", "Produce": 8}, BrokerConfig())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"versions: given beside mockbroker\.versions"):
        split_versions("2.8", BrokerConfig({"mockbroker.versions": "2.8"}))
    with pytest.raises(ConfigError, match="node 0: versions are given twice"):
        parse_node_options(BrokerConfig(), {0: {"mockbroker.versions": "2.8"}}, {0: "2.8"})
