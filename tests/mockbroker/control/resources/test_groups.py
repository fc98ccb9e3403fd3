"""Groups, share partitions and coordinators over HTTP, with clients that are in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from mockbroker import Cluster
from tests.clients.librdkafka import PATIENCE_S, share_consumer
from tests.support.brokers.control_client import ControlClient


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    properties = {"offsets.topic.replication.factor": 2, "default.replication.factor": 2}
    with Cluster(control=0, nodes=2, topics=["orders"], profile="quick", properties=properties) as cluster:
        yield cluster


@pytest.fixture
def client(kafka: Cluster) -> ControlClient:
    return ControlClient(kafka.control_url)


@pytest.mark.client
def test_a_group_has_members_and_lag_and_is_deleted_when_it_is_empty(kafka: Cluster, client: ControlClient) -> None:
    kafka.produce("orders", "1")
    kafka.produce("orders", "2")
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "a/b", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "client.id": "shop", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    kafka.wait_until(lambda: consumer.poll(0.1), timeout_s=PATIENCE_S)
    consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    group = client.get("/v1/groups/a%2Fb")
    refused = client.send("DELETE", "/v1/groups/a%2Fb")
    consumer.close()

    assert [member["clientId"] for member in group["members"]] == ["shop"]
    assert group["offsets"] == [{"topic": "orders", "partition": 0, "offset": 1, "endOffset": 2, "lag": 1}]
    assert client.get("/v1/groups?kind=share") == {"groups": []}
    assert (refused.status, refused.body["kafkaError"]) == (409, "NON_EMPTY_GROUP")
    client.ask("POST", "/v1/waits/group", {"groupId": "a/b", "state": "Empty"})
    client.ask("DELETE", "/v1/groups/a%2Fb", status=204)
    assert client.get("/v1/groups") == {"groups": []}
    assert client.send("DELETE", "/v1/groups/a%2Fb").body["kafkaError"] == "GROUP_ID_NOT_FOUND"


@pytest.mark.client
def test_a_share_partition_has_its_records_in_flight_and_the_group_is_deleted_with_it(
    kafka: Cluster, client: ControlClient
) -> None:
    kafka.produce("orders", "1")
    consumer = share_consumer(kafka, "workers", explicit=True)
    kafka.wait_until(lambda: consumer.poll(timeout=0.1), timeout_s=PATIENCE_S)
    client.ask("POST", "/v1/clock/freeze")
    client.ask("POST", "/v1/clock/advance", {"durationMs": 1000})
    (listed,) = client.get("/v1/groups/workers/share-partitions")["sharePartitions"]
    shown = client.get("/v1/groups/workers/share-partitions/orders/0?history=true")
    client.ask("POST", "/v1/clock/resume")
    consumer.close()

    (flight,) = listed["inFlight"]
    assert (flight["firstOffset"], flight["lastOffset"], flight["state"]) == (0, 0, "ACQUIRED")
    assert (flight["deliveryCount"], flight["memberId"]) == (1, kafka.requests("ShareFetch")[0].request.member_id)
    assert flight["lockRemainingMs"] == flight["lockDeadlineMs"] - listed["nowMs"]
    assert 0 < flight["lockRemainingMs"] <= 29_000
    assert listed["history"] is None
    assert [entry["event"] for entry in shown["history"]][-1:] == ["acquired"]
    assert client.send("GET", "/v1/groups/other/share-partitions/orders/0").problem == "not-found"
    assert client.send("GET", "/v1/groups/workers/share-partitions/orders/7").status == 404
    client.ask("POST", "/v1/waits/group", {"groupId": "workers", "state": "Empty"})
    client.ask("DELETE", "/v1/groups/workers", status=204)
    assert client.get("/v1/groups/workers/share-partitions") == {"sharePartitions": []}
    assert kafka.groups() == []


def test_a_coordinator_moves(client: ControlClient) -> None:
    before = client.get("/v1/coordinators/group/g")["node"]
    moved = client.ask("POST", "/v1/coordinators/group/g/move", {"to": 1 - before})

    assert moved == {"kind": "group", "key": "g", "node": 1 - before}
    assert client.get("/v1/coordinators/group/g") == moved
    assert client.send("POST", "/v1/coordinators/group/g/move", {"to": 1 - before}).status == 409
