"""The configurations of quotas: windows of time, and the rates at which brokers accept connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.state.metadata.configs import ALL_BROKERS, Configs, Resource, ResourceKind
from mockbroker.state.quotas.windowed_rate import QuotaWindows

if TYPE_CHECKING:
    from mockbroker.config.broker_config import BrokerConfig

_RATE = "max.connection.creation.rate"
_MS_PER_S = 1000


def client_windows(config: BrokerConfig) -> QuotaWindows:
    """The windows of the rates of clients: `quota.window.num` and `quota.window.size.seconds`."""
    return QuotaWindows(config.integer("quota.window.num"), config.integer("quota.window.size.seconds") * _MS_PER_S)


def controller_windows(config: BrokerConfig) -> QuotaWindows:
    """The windows of mutations: `controller.quota.window.num` and `controller.quota.window.size.seconds`."""
    seconds = config.integer("controller.quota.window.size.seconds")
    return QuotaWindows(config.integer("controller.quota.window.num"), seconds * _MS_PER_S)


def has_connection_rate(configs: Configs, node_id: int) -> bool:
    """Whether a broker, or one of its listeners, limits its new connections."""
    broker = Resource(ResourceKind.BROKER, str(node_id))
    texts = (configs.static.given, configs.overrides(ALL_BROKERS), configs.overrides(broker))
    return any(name.endswith(_RATE) for given in texts for name in given)


def find_connection_rate(configs: Configs, node_id: int, listener: str | None) -> int:
    """The connections that a listener accepts by second, or all listeners of a broker for None.

    A listener without a rate of its own, `listener.name.NAME.max.connection.creation.rate`, has that of the broker.
    """
    broker = Resource(ResourceKind.BROKER, str(node_id))
    if listener is not None:
        name = f"listener.name.{listener.lower()}.{_RATE}"
        for changed in (configs.overrides(broker), configs.overrides(ALL_BROKERS)):
            if name in changed:
                return int(changed[name])
        if name in configs.static.given:
            return configs.static.for_listener(listener).integer(_RATE)
    rate = configs.broker(node_id)[_RATE]
    assert isinstance(rate, int)
    return rate


def is_protected_listener(config: BrokerConfig, listener: str, listener_names: list[str]) -> bool:
    """Whether the broker's rate does not limit a listener: the one for other brokers, if there are others."""
    inter_broker = config["inter.broker.listener.name"] or config["security.inter.broker.protocol"]
    return listener == inter_broker and len(listener_names) > 1
