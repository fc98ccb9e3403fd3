"""librdkafka pushes its metrics (KIP-714) to a broker with a metrics receiver."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

import kwire
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mockbroker import Cluster

pytestmark = pytest.mark.client

PATIENCE_S = 40.0
_CLIENT_METRICS = 16


def test_librdkafka_pushes_the_metrics_of_a_subscription() -> None:
    with Cluster(topics={"orders": 1}, properties={"metric.reporters": "some.Receiver"}) as cluster:
        _subscribe(cluster, metrics="*", match="client_id=measured", **{"interval.ms": "100"})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "measured", "log_level": 0})
        producer.produce("orders", b"v")
        assert producer.flush(PATIENCE_S) == 0
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and len(cluster.exchanges("PushTelemetry")) < 2:
            producer.poll(0.05)
        subscription: Any = cluster.exchanges("GetTelemetrySubscriptions")[0].response
        pushes: list[Any] = [(push.request, push.response) for push in cluster.exchanges("PushTelemetry")[:2]]

        assert subscription.requested_metrics == ("*",)
        assert [response.error_code for _, response in pushes] == [0, 0]
        assert pushes[0][0].metrics


def test_without_a_receiver_no_client_requests_subscriptions() -> None:
    with Cluster(topics={"orders": 1}) as cluster:
        _subscribe(cluster, metrics="*", **{"interval.ms": "100"})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        producer.produce("orders", b"v")
        assert producer.flush(PATIENCE_S) == 0

        assert cluster.exchanges("GetTelemetrySubscriptions") == []


def _subscribe(cluster: Cluster, **configs: str) -> None:
    rows = [AlterableConfig(name, 0, value) for name, value in configs.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(_CLIENT_METRICS, "all", rows)])
    with kwire.Client(cluster.bootstrap_servers) as client:
        assert client.send(request).responses[0].error_code == 0
