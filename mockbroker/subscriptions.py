"""Subscriptions to metrics of clients, as the configuration has them now."""

from __future__ import annotations

from collections.abc import Iterator

from mockbroker.state.client_metrics import INTERVAL, MATCH, METRICS, parse_match
from mockbroker.state.configs import Configs, ResourceKind
from mockbroker.state.telemetry import Subscription

_KIND = ResourceKind.CLIENT_METRICS


def subscriptions_of(configs: Configs) -> tuple[int, Iterator[Subscription]]:
    """The number of the last change of any subscription, and those there are."""
    return configs.changes[_KIND], (_subscription(configs, name) for name in configs.names(_KIND))


def _subscription(configs: Configs, name: str) -> Subscription:
    values = configs.client_metrics(name)
    metrics, interval_ms, match = values[METRICS], values[INTERVAL], values[MATCH]
    assert isinstance(metrics, list)
    assert isinstance(interval_ms, int)
    assert isinstance(match, list)
    return Subscription(tuple(metrics), interval_ms, parse_match(match))
