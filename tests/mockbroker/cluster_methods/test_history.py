"""Questions and assertions about what real clients sent, and their types."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from mypy import api as mypy_api

import kwire
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import ProduceRequest
from mockbroker import Cluster

TYPED = """
from kwire.messages.share_fetch import ShareFetchRequest
from mockbroker import Cluster, Exchange

with Cluster() as cluster:
    for exchange in cluster.requests(ShareFetchRequest, client_id="a").where(max_records=500).answered():
        reveal_type(exchange.request)
        reveal_type(exchange.response)
    reveal_type(cluster.requests("ShareFetch")[0].request)
    cluster.requests(ShareFetchRequest).where(lambda request: request.max_records > 5)
    reveal_type(cluster.wait_for_request(ShareFetchRequest, answered=True, group="g")[0].response)
    untyped: list[Exchange] = cluster.exchanges()
    reveal_type(untyped[0].request)
    exchange.request.max_record  # error: attr-defined
    exchange.response.error_code  # error: union-attr
    cluster.requests(ShareFetchRequest).where(lambda request: request.max_record > 5)  # error: attr-defined
    cluster.requests(ShareFetchRequest, client=5)  # error: call-overload
    cluster.requests(ShareFetchRequest, node="0")  # error: call-overload
"""


@pytest.mark.slow
def test_a_type_checker_follows_from_the_class_of_requests_to_their_fields(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(TYPED, encoding="utf-8")
    options = ["--config-file", "", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    printed, errors, code = mypy_api.run([*options, str(path)])
    messages = re.findall(r"module.py:(\d+): (error|note): (.*)", printed)

    assert (errors, code) == ("", 1)
    assert [text.split('"')[1] for _, _, text in messages if text.startswith("Revealed type")] == [
        "kwire.messages.share_fetch.ShareFetchRequest",
        "kwire.messages.share_fetch.ShareFetchResponse | None",
        "Any",
        "kwire.messages.share_fetch.ShareFetchResponse | None",
        "msgspec.Struct | None",
    ]
    refused = {(int(line), text.rpartition("[")[2].rstrip("]")) for line, kind, text in messages if kind == "error"}
    lines = enumerate(TYPED.splitlines(), 1)
    assert refused == {(number, line.split("# error: ")[1]) for number, line in lines if "# error: " in line}


def _produce(cluster: Cluster, count: int, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "shop", **settings})
    for number in range(count):
        producer.produce("orders", b"%d" % number, partition=0)
        assert producer.flush(30) == 0


@pytest.mark.client
def test_what_a_client_sent_is_found_by_its_topic_client_and_fields() -> None:
    with Cluster(topics={"orders": 2}, profile="quick") as kafka:
        _produce(kafka, 3, acks="all", **{"enable.idempotence": True})

        produced = kafka.requests(ProduceRequest, client_id="shop", topic="orders", partition=0).where(acks=-1)
        assert len(produced) == 3
        assert [exchange.request.acks for exchange in produced] == [-1, -1, -1]
        assert all(exchange.response is not None for exchange in produced)
        assert len(kafka.requests("Produce", topic="orders", partition=1)) == 0
        assert len(kafka.requests(ProduceRequest, after=produced[1])) == 1
        kafka.assert_sent("Produce", where={"acks": -1})
        kafka.assert_count("Produce", 3, client_id="shop")
        kafka.assert_never("Fetch")
        kafka.assert_order("ApiVersions", "InitProducerId", ProduceRequest)
        kafka.assert_order(kafka.requests("InitProducerId"), kafka.requests("Produce").where(acks=-1))
        with pytest.raises(AssertionError, match="acks -1"):
            kafka.assert_sent("Produce", where={"acks": 1})
        with pytest.raises(AssertionError, match="expected no Produce request, but 3 were sent"):
            kafka.assert_never("Produce")
        with pytest.raises(AssertionError, match="expected this order: Produce request; InitProducerId request"):
            kafka.assert_order("Produce", "InitProducerId")


@pytest.mark.client
def test_fetches_of_a_session_are_found_by_the_topic_of_their_response_and_its_id() -> None:
    with Cluster(topics={"orders": 1}, profile="quick") as kafka:
        _produce(kafka, 1)
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"0"
        consumer.close()

        kafka.assert_sent("Fetch", topic="orders", partition=0)
        kafka.assert_sent("JoinGroup", group="g")
        kafka.assert_order("FindCoordinator", "JoinGroup", "SyncGroup", "LeaveGroup")
        with pytest.raises(AssertionError, match="topics orders"):
            kafka.assert_sent("Fetch", topic="bills")


def test_questions_are_answered_after_the_cluster_has_stopped() -> None:
    with Cluster(topics=["orders"]) as kafka, kwire.Client(kafka.bootstrap_servers, client_id="me") as client:
        client.send(MetadataRequest(topics=None))
        during = kafka.requests("Metadata")

    assert list(kafka.requests(MetadataRequest, client_id="me")) == list(during)
    kafka.assert_count("Metadata", 1)
    with pytest.raises(ValueError, match="did you mean 'Metadata'"):
        kafka.assert_never("metadata")


def test_the_names_of_deleted_topics_still_select_requests() -> None:
    with Cluster(topics=["orders"]) as kafka, kwire.Client(kafka.bootstrap_servers) as client:
        topic_id = client.send(MetadataRequest(topics=None)).topics[0].topic_id
        client.send(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)]))
        client.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1_000))
        client.send(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)]))

        assert len(kafka.requests("Metadata", topic="orders")) == 3
