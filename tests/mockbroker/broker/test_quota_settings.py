"""Configurations of quotas: windows, and the rates of brokers and listeners, changed while they run."""

from __future__ import annotations

import pytest

from mockbroker.broker import quota_settings
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.net.listeners import parse_listeners
from mockbroker.state.metadata.configs import ALL_BROKERS, Configs, Resource, ResourceKind
from mockbroker.state.quotas.windowed_rate import QuotaWindows

_RATE = "max.connection.creation.rate"
_OF_LISTENER = f"listener.name.plaintext.{_RATE}"
_BROKER = Resource(ResourceKind.BROKER, "0")


def test_windows_are_configured_for_clients_and_for_the_controller() -> None:
    config = BrokerConfig(
        {
            "quota.window.num": "5",
            "quota.window.size.seconds": "2",
            "controller.quota.window.num": "3",
            "controller.quota.window.size.seconds": "4",
        }
    )

    assert quota_settings.client_windows(config) == QuotaWindows(5, 2_000)
    assert quota_settings.controller_windows(config) == QuotaWindows(3, 4_000)
    assert config.ignored == []
    assert quota_settings.client_windows(BrokerConfig()) == QuotaWindows(11, 1_000)


def test_a_listener_has_its_own_rate_or_that_of_the_broker() -> None:
    configs = Configs(BrokerConfig({_RATE: "7", _OF_LISTENER: "3"}))

    assert quota_settings.find_connection_rate(configs, 0, None) == 7
    assert quota_settings.find_connection_rate(configs, 0, "PLAINTEXT") == 3
    assert quota_settings.find_connection_rate(configs, 0, "OTHER") == 7


@pytest.mark.parametrize(("resource", "rates"), [(ALL_BROKERS, (9, 9)), (_BROKER, (9, 7))])
def test_a_rate_can_change_for_all_brokers_or_for_one(resource: Resource, rates: tuple[int, int]) -> None:
    configs = Configs(BrokerConfig({_RATE: "7", _OF_LISTENER: "7"}))
    configs.set_overrides(resource, {_RATE: "9", _OF_LISTENER: "9"})
    found = [quota_settings.find_connection_rate(configs, node_id, "PLAINTEXT") for node_id in (0, 1)]

    assert tuple(found) == rates


def test_without_a_rate_nothing_is_limited() -> None:
    configs = Configs(BrokerConfig())
    before = quota_settings.has_connection_rate(configs, 0)
    configs.set_overrides(_BROKER, {_OF_LISTENER: "9"})

    assert not before
    assert quota_settings.has_connection_rate(configs, 0)
    assert not quota_settings.has_connection_rate(configs, 1)


def test_a_wrong_rate_of_a_listener_is_an_error_before_it_listens() -> None:
    with pytest.raises(ConfigError, match=_RATE):
        parse_listeners(BrokerConfig({_OF_LISTENER: "many"}))


@pytest.mark.parametrize(
    ("settings", "protected"),
    [
        ({}, "PLAINTEXT"),
        ({"inter.broker.listener.name": "INTERNAL"}, "INTERNAL"),
        ({"security.inter.broker.protocol": "SSL"}, "SSL"),
    ],
)
def test_the_listener_of_other_brokers_is_protected_if_there_are_others(
    settings: dict[str, str], protected: str
) -> None:
    config = BrokerConfig(settings)

    assert quota_settings.is_protected_listener(config, protected, ["A", "B"])
    assert not quota_settings.is_protected_listener(config, "A", ["A", "B"])
    assert not quota_settings.is_protected_listener(config, protected, [protected])
