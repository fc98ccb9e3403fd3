"""Requests and responses on the wire over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from kwire import Client
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.records import Record, write_batch
from mockbroker import Cluster
from tests.support.brokers.control_client import ControlClient


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(control=0, topics=["orders"]) as cluster, Client(cluster.bootstrap_servers, client_id="a") as sender:
        sender.send(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
        for value in (b"x", b"y" * 2000):
            partition = PartitionProduceData(index=0, records=write_batch([Record(timestamp=1, key=None, value=value)]))
            sender.send(
                ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[partition])]), 9
            )
        sender.send(ListGroupsRequest())
        yield cluster


@pytest.fixture
def client(kafka: Cluster) -> ControlClient:
    return ControlClient(kafka.control_url)


def test_requests_are_found_by_filters(client: ControlClient) -> None:
    found = client.get("/v1/exchanges?api=Produce&clientId=a&topic=orders&partition=0&error=NONE")
    newest = client.get("/v1/exchanges?order=desc&limit=1&bodies=false")
    later = client.get(f"/v1/exchanges?after={found['exchanges'][-1]['number']}")

    assert [exchange["api"] for exchange in found["exchanges"]] == ["Produce"] * 2
    assert found["count"] == 2
    assert (newest["exchanges"][0]["number"], newest["count"]) == (newest["lastNumber"], newest["lastNumber"])
    assert newest["exchanges"][0]["request"] is None
    assert [exchange["api"] for exchange in later["exchanges"]] == ["ListGroups"]
    assert client.get("/v1/exchanges?api=Produce&clientId=b")["count"] == 0


def test_a_condition_on_fields_is_that_of_the_command_line(kafka: Cluster, client: ControlClient) -> None:
    path = "/v1/exchanges?api=Produce&filter=acks%3D-1%20and%20timeout_ms"

    assert client.get(f"{path}%3E%3D0")["count"] == 2
    assert client.get(f"{path}%3C0")["count"] == 0
    assert len(kafka.requests("Produce", filter="acks=-1")) == 2
    with pytest.raises(ValueError, match="fields of requests need the API"):
        kafka.requests(filter="acks=-1")


@pytest.mark.parametrize(
    ("text", "apis"),
    [
        ("api=Produce and req_bytes>1kB", ["Produce"]),
        ("topic=orders and partition=0", ["Metadata", "Produce", "Produce"]),
        ("not api in (Produce, ApiVersions) and error=0 and client=a", ["Metadata", "ListGroups"]),
        ("error!=0 or fault != null or latency>1h or group=g or closed != null", []),
        ("number<3 and node=0 and connection=1 and user=ANONYMOUS and resp_bytes>0", ["ApiVersions", "Metadata"]),
    ],
)
def test_a_condition_on_exchanges_needs_no_api(client: ControlClient, text: str, apis: list[str]) -> None:
    found = client.get(f"/v1/exchanges?filter={quote(text)}")

    assert [exchange["api"] for exchange in found["exchanges"]] == apis


def test_the_bytes_of_an_exchange_are_described_by_its_fields(client: ControlClient) -> None:
    (small, _) = client.get("/v1/exchanges?api=Produce")["exchanges"]
    tree = client.get(f"/v1/exchanges/{small['number']}/bytes")
    whole = client.get(f"/v1/exchanges/{small['number']}/bytes?view=hex&payload=true")

    assert (tree["request"]["size"], tree["response"]["size"]) == (small["requestBytes"], small["responseBytes"])
    assert any(line.endswith("acks: int16 = -1") for line in tree["request"]["lines"])
    assert any(line.endswith("error_code: int16 = 0 (NONE)") for line in tree["response"]["lines"])
    assert any(".value" in line and "78" in line for line in whole["request"]["lines"])
    assert client.send("GET", "/v1/exchanges/99/bytes").problem == "not-found"


def test_bodies_have_summaries_of_records_or_all_of_them(client: ControlClient) -> None:
    (_, large) = client.get("/v1/exchanges?api=Produce")["exchanges"]
    whole = client.get(f"/v1/exchanges/{large['number']}?payload=true")
    records = large["request"]["topicData"][0]["partitionData"][0]["records"]

    assert (records["count"], records["codec"]) == (1, "none")
    assert len(whole["request"]["topicData"][0]["partitionData"][0]["records"]) > 2000
    assert large["response"]["responses"][0]["partitionResponses"][0]["errorCode"] == 0


def test_secrets_are_not_shown() -> None:
    with Cluster(control=0, sasl="PLAIN alice:secret") as cluster:
        with Client(cluster.bootstrap_servers, sasl=("alice", "secret")) as sender:
            sender.send(ListGroupsRequest())
        client = ControlClient(cluster.control_url)
        (login,) = client.get("/v1/exchanges?api=SaslAuthenticate&payload=true")["exchanges"]

        assert isinstance(cluster.requests("SaslAuthenticate")[0].request, SaslAuthenticateRequest)
        shown = [client.get(f"/v1/exchanges/{login['number']}/bytes?payload=true&view={v}") for v in ("tree", "hex")]
    assert login["request"]["authBytes"] == "***"
    for each in shown:
        text = "\n".join(each["request"]["lines"])
        assert "auth_bytes" in text
        assert "secret" not in text
        assert b"secret".hex(" ") not in text


def test_notes_about_clients_are_listed_and_rules_left_out(kafka: Cluster, client: ControlClient) -> None:
    with Client(kafka.bootstrap_servers, client_id="b") as sender:
        for _ in range(2):
            sender.send(HeartbeatRequest(group_id="g", member_id="unknown", generation_id=1))
    path = "/v1/conformance-notes?clientId=b"
    notes = client.get(path)["notes"]

    assert [(note["rule"], note["level"]) for note in notes] == [("retry-after-fatal-error", "warning")]
    assert notes[0]["exchanges"] == [exchange.number for exchange in kafka.requests("Heartbeat")]
    assert client.get(f"{path}&ignore=retry-after-fatal-error")["notes"] == []
    assert client.send("GET", f"{path}&ignore=retry").problem == "invalid-value"
