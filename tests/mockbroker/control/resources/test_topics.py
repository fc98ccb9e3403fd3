"""Topics and records over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from mockbroker import Cluster
from tests.support.brokers.control_client import ControlClient

RECORDS = "/v1/topics/orders/records"


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(control=0, nodes=2, topics={"orders": 2}, properties={"default.replication.factor": 2}) as cluster:
        yield cluster


@pytest.fixture
def client(kafka: Cluster) -> ControlClient:
    return ControlClient(kafka.control_url)


def test_a_topic_is_created_with_configurations_and_deleted(kafka: Cluster, client: ControlClient) -> None:
    body = {"name": "audit", "partitions": 3, "configs": {"retention.ms": 1000, "unclean.leader.election.enable": True}}
    created = client.send("POST", "/v1/topics", body)

    assert (created.status, created.headers["location"]) == (201, "/v1/topics/audit")
    assert created.body["configs"] == {"retention.ms": "1000", "unclean.leader.election.enable": "true"}
    assert kafka.topics() == {"orders": 2, "audit": 3}
    assert client.send("POST", "/v1/topics", body).body["kafkaError"] == "TOPIC_ALREADY_EXISTS"
    client.ask("DELETE", "/v1/topics/audit", status=204)
    assert client.send("GET", "/v1/topics/audit").body["kafkaError"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_records_are_text_or_base64_in_both_directions(kafka: Cluster, client: ControlClient) -> None:
    given = {"key": "tisch ä", "valueBase64": "/wA=", "headers": [{"name": "n"}, {"name": "b", "valueBase64": "/w=="}]}
    sent = client.ask("POST", RECORDS, {"records": [{**given, "timestampMs": 5, "partition": 1}]}, status=201)
    (record,) = kafka.read("orders")

    assert (record.key, record.value) == ("tisch ä".encode(), b"\xff\x00")
    assert record.headers == (("n", None), ("b", b"\xff"))
    assert (record.partition, record.timestamp_ms) == (1, 5)
    assert client.get(RECORDS)["records"] == sent["records"]
    assert (sent["records"][0]["value"], sent["records"][0]["valueBase64"]) == (None, "/wA=")


def test_old_messages_are_appended_to_a_partition_and_what_they_cannot_have_is_refused(
    kafka: Cluster, client: ControlClient
) -> None:
    path = "/v1/topics/orders/partitions/1/old-messages"
    body = {
        "records": [{"key": "k", "value": "a"}, {"value": "b"}],
        "magic": 1,
        "compression": "gzip",
        "offsets": [0, 2],
    }
    sent = client.ask("POST", path, {**body, "appendTimeMs": 5}, status=201)
    with_header = {"records": [{"value": "a", "headers": [{"name": "n"}]}], "magic": 0}

    assert [(record["offset"], record["timestampMs"], record["value"]) for record in sent["records"]] == [
        (0, 5, "a"),
        (2, 5, "b"),
    ]
    assert client.get(RECORDS)["records"] == sent["records"]
    assert client.send("POST", path, with_header).body["type"].endswith("invalid-value")
    assert client.send("POST", path, {**body, "offsets": [2, 1]}).body["type"].endswith("invalid-value")
    assert len(kafka.read("orders")) == 2


@pytest.mark.client
def test_what_a_producer_wrote_is_read_in_parts(kafka: Cluster, client: ControlClient) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(5):
        producer.produce("orders", str(number), partition=0)
    assert producer.flush(30) == 0
    first = client.get(f"{RECORDS}?partition=0&limit=3")
    rest = client.get(f"{RECORDS}?partition=0&offset=3&limit=3")

    assert [record["value"] for record in first["records"]] == ["0", "1", "2"]
    assert [record["value"] for record in rest["records"]] == ["3", "4"]
    assert (first["isTruncated"], rest["isTruncated"]) == (True, False)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"value": "x", "valueBase64": "eA=="}, "invalid-value"),
        ({"valueBase64": "?"}, "invalid-value"),
        ({"value": "x", "partition": 9}, "kafka-error"),
        ({"value": "x", "partition": -1}, "invalid-request"),
        ({"value": 1}, "invalid-request"),
    ],
)
def test_a_wrong_record_is_refused(client: ControlClient, record: dict[str, object], problem: str) -> None:
    assert client.send("POST", RECORDS, {"records": [record]}).problem == problem
    assert client.send("POST", RECORDS, {"records": []}).problem == "invalid-request"
    assert client.get(RECORDS)["records"] == []


def test_records_are_appended_together_or_not_at_all(kafka: Cluster, client: ControlClient) -> None:
    kafka.create_topic("small", configs={"max.message.bytes": 200})
    records = [{"value": "fits"}, {"value": "x" * 300}]
    refused = client.send("POST", "/v1/topics/small/records", {"records": records})

    assert (refused.status, refused.body["kafkaError"]) == (422, "MESSAGE_TOO_LARGE")
    assert kafka.read("small") == []
    sent = client.ask("POST", "/v1/topics/small/records", {"records": records[:1] * 3}, status=201)
    assert [record["offset"] for record in sent["records"]] == [0, 1, 2]


def test_a_leader_moves(client: ControlClient) -> None:
    path = "/v1/topics/orders/partitions/0/move-leader"
    before = client.get("/v1/topics/orders")["partitions"][0]
    moved = client.ask("POST", path, {"to": 1 - before["leader"]})["partitions"][0]

    assert (moved["leader"], moved["leaderEpoch"]) == (1 - before["leader"], before["leaderEpoch"] + 1)
    assert client.ask("POST", path)["partitions"][0]["leader"] == before["leader"]
    assert client.send("POST", path, {"to": 7}).body["kafkaError"] == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
