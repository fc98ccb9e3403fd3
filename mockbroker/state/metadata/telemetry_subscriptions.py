"""Subscriptions to metrics of clients, as the configuration has them now."""

from __future__ import annotations

from collections.abc import Iterator

from mockbroker.state.metadata.client_metrics import INTERVAL, MATCH, METRICS, parse_match
from mockbroker.state.metadata.configs import Configs, ResourceKind
from mockbroker.state.metadata.telemetry import MetricsSubscription
from mockbroker.state.settings import read_int

_KIND = ResourceKind.CLIENT_METRICS


def subscriptions_of(configs: Configs) -> tuple[int, Iterator[MetricsSubscription]]:
    """The number of the last change of any subscription, and those there are."""
    return configs.changes[_KIND], (_subscription(configs, name) for name in configs.configured_names(_KIND))


def _subscription(configs: Configs, name: str) -> MetricsSubscription:
    values = configs.client_metrics(name)
    metrics, match = values[METRICS], values[MATCH]
    assert isinstance(metrics, list)
    assert isinstance(match, list)
    return MetricsSubscription(tuple(metrics), read_int(values, INTERVAL), parse_match(match))
