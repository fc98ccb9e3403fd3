"""Clients with quotas: throttled producers and consumers go on, and admin clients try again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import kafka
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kwire import Client
from mockbroker import Cluster
from tests.clients.java_tools import run_program
from tests.clients.librdkafka import PATIENCE_S, QUIET
from tests.support.client_quotas import quota_change
from tests.support.go_programs import run_go_program

pytestmark = [pytest.mark.client, pytest.mark.timeout(300)]

_CLIENT = {"client-id": "shop"}
_JAVA_PROGRAM = Path(__file__).parents[1] / "java" / "QuotaScenarios.java"
_GO_PROGRAM = Path(__file__).parents[1] / "go" / "quotas"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    properties = {"controller.quota.window.num": 1}
    with Cluster(topics={"orders": 1}, properties=properties) as running:
        yield running


def _limit(cluster: Cluster, key: str, value: float, entity: Mapping[str, str | None] = _CLIENT) -> None:
    with Client(cluster.bootstrap_servers) as client:
        assert client.send(quota_change(entity, key, value)).entries[0].error_code == 0


def _settings(cluster: Cluster) -> dict[str, str | int | float | bool]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "shop", **QUIET}


def _responses(cluster: Cluster, api: str) -> list[Any]:
    return [exchange.response for exchange in cluster.exchanges(api) if exchange.response is not None]


def _throttle_times(cluster: Cluster, api: str) -> list[int]:
    return [response.throttle_time_ms for response in _responses(cluster, api)]


def test_the_requests_of_a_throttled_librdkafka_producer_wait_for_the_clock(cluster: Cluster) -> None:
    cluster.clock.freeze()
    _limit(cluster, "producer_byte_rate", 10_000)
    producer = Producer({**_settings(cluster), "linger.ms": 0})
    producer.produce("orders", bytes(120_000))
    assert producer.flush(PATIENCE_S) == 0
    first = cluster.exchanges("Produce")[0]
    producer.produce("orders", b"second")
    cluster.wait_until(lambda: cluster.run(lambda server: server.core.backlog(first.connection_id)) == 1)
    seen = [exchange.is_unread for exchange in cluster.exchanges("Produce")]
    (throttle_ms,) = _throttle_times(cluster, "Produce")
    cluster.clock.advance(throttle_ms)

    assert producer.flush(PATIENCE_S) == 0
    second = cluster.exchanges("Produce")[1]
    assert seen == [False, True]
    assert throttle_ms > 2_000
    assert second.arrived_ms == first.arrived_ms
    assert second.answered_ms == first.arrived_ms + throttle_ms


def test_a_throttled_librdkafka_consumer_gets_all_records_later(cluster: Cluster) -> None:
    producer = Producer({**_settings(cluster), "linger.ms": 0})
    for _ in range(10):
        producer.produce("orders", bytes(30_000))
        assert producer.flush(PATIENCE_S) == 0
    _limit(cluster, "consumer_byte_rate", 10_000)
    cluster.clock.auto()
    started_ms = cluster.clock.now_ms()
    group = {"group.id": "g", "auto.offset.reset": "earliest"}
    with closing(Consumer({**_settings(cluster), **group})) as consumer:
        consumer.subscribe(["orders"])
        count = 0
        while count < 10:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            count += 1

    throttled = [response for response in _responses(cluster, "Fetch") if response.throttle_time_ms]
    assert throttled
    assert not any(topic for response in throttled for topic in response.responses)
    # 300,000 bytes at 10,000 by second, less the windows of 10 seconds that the quota is measured over.
    assert cluster.clock.now_ms() - started_ms >= 19_000


def test_kafka_python_goes_on_after_its_throttle_time(cluster: Cluster) -> None:
    cluster.clock.auto()
    _limit(cluster, "producer_byte_rate", 100_000)
    with closing(kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, client_id="shop")) as producer:
        offsets = []
        # 1,010,000 bytes are throttled for about a tenth of a second.
        for size in (510_000, 500_000, 10):
            offsets.append(producer.send("orders", bytes(size)).get(timeout=PATIENCE_S).offset)

    assert offsets == [0, 1, 2]
    assert _throttle_times(cluster, "Produce")[1] > 0


def test_the_older_requests_of_librdkafkas_admin_client_are_throttled_instead_of_refused(cluster: Cluster) -> None:
    cluster.clock.freeze()
    _limit(cluster, "controller_mutation_rate", 10)
    admin = AdminClient(_settings(cluster))
    admin.create_topics([NewTopic("many", 15, 1)])["many"].result(PATIENCE_S)
    first = cluster.exchanges("CreateTopics")[0]
    second = admin.create_topics([NewTopic("late", 1, 1)])["late"]
    cluster.wait_until(lambda: cluster.run(lambda server: server.core.backlog(first.connection_id)) == 1)
    waits = not second.done()
    cluster.clock.advance(500)
    second.result(PATIENCE_S)

    assert waits
    # 15 partitions are 5 more than a second allows, and the later one is over it as well.
    assert _throttle_times(cluster, "CreateTopics") == [500, 100]


def test_the_java_clients_wait_and_try_again(cluster: Cluster) -> None:
    cluster.clock.auto()
    _limit(cluster, "controller_mutation_rate", 20)
    _limit(cluster, "producer_byte_rate", 100_000)
    written = dict(line.split(": ", 1) for line in run_program(_JAVA_PROGRAM, cluster.bootstrap_servers).splitlines())

    assert written == {
        "refused": "ThrottlingQuotaExceededException",
        "retried": "created",
        "produced": "[0, 1, 2] throttled true",
    }
    assert len(_throttle_times(cluster, "CreateTopics")) >= 4


def test_franz_go_waits_for_its_throttle_time(cluster: Cluster) -> None:
    cluster.clock.auto()
    _limit(cluster, "producer_byte_rate", 100_000)
    written = run_go_program(_GO_PROGRAM, cluster.bootstrap_servers)

    assert written == "produced: [0 1 2] throttled: true\n"
