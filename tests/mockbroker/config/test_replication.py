"""`mockbroker.replication`, `mockbroker.racks`, and the names of Kafka that have an effect with them."""

from __future__ import annotations

import pytest

from mockbroker.config.broker_config import BrokerConfig, ConfigError

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def test_followers_do_not_fetch_unless_it_is_set() -> None:
    assert not BrokerConfig().replication.is_real
    assert not BrokerConfig({"mockbroker.replication": "immediate"}).replication.is_real
    assert BrokerConfig({"mockbroker.replication": "real"}).replication.is_real


def test_another_mode_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"mockbroker.replication: 'yes' is neither real nor immediate"):
        BrokerConfig({"mockbroker.replication": "yes"})


def test_names_of_followers_have_an_effect_where_followers_fetch() -> None:
    names = {"replica.lag.time.max.ms": "20000", "replica.fetch.wait.max.ms": "100", "num.replica.fetchers": "2"}

    without = BrokerConfig(names)
    with_fetches = BrokerConfig({**names, "mockbroker.replication": "real"})

    assert without.ignored == list(names)
    assert (with_fetches.ignored, with_fetches.unknown) == ([], [])


def test_a_follower_that_waits_for_longer_than_it_may_lag_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"replica.fetch.wait.max.ms: 900 must be at most replica.lag.time.max.ms, 800"
    ):
        BrokerConfig({"replica.fetch.wait.max.ms": "900", "replica.lag.time.max.ms": "800"})


def test_each_node_has_its_rack_and_further_ones_that_of_all() -> None:
    replication = BrokerConfig({"mockbroker.racks": "a, b"}).replication

    assert [replication.find_rack(number, "c") for number in range(3)] == ["a", "b", "c"]
    assert BrokerConfig().replication.find_rack(0, None) is None


def test_a_rack_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"mockbroker.racks: 'a,,b' has an empty name"):
        BrokerConfig({"mockbroker.racks": "a,,b"})


def test_only_kafkas_rack_aware_selector_has_an_effect() -> None:
    rack_aware = BrokerConfig({"replica.selector.class": RACK_AWARE})
    other = BrokerConfig({"replica.selector.class": "com.example.Selector"})

    assert (rack_aware.replication.selects_replicas, rack_aware.ignored) == (True, [])
    assert not other.replication.selects_replicas
    assert [plugin.name for plugin in other.unsupported_plugins] == ["replica.selector.class"]
