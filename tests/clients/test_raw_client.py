"""The raw client against a running cluster: records of every codec, pipelining, and the command."""

from __future__ import annotations

import json

import pytest

import kwire
from kwire.cli.main import main
from kwire.error_codes import ErrorCode
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Codec, Record, read_batches, write_batch
from mockbroker import Cluster
from tests.support.brokers.sasl_clients import CONFIG as SASL


def records(count: int, size: int = 100) -> list[Record]:
    return [
        Record(number, 1_700_000_000_000 + number, b"%d" % number, b"v" * size, (("n", b"%d" % number),))
        for number in range(count)
    ]


def produce(client: kwire.Client, topic_id: bytes, batch: bytes) -> tuple[int, int]:
    """Produce a batch to partition 0; the error code and the base offset."""
    rows = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=rows)]
    )
    answer = client.send(request).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


def fetch(client: kwire.Client, topic_id: bytes) -> list[Record]:
    """All records of partition 0."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 24)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 24, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])]
    )
    answer = client.send(request).responses[0].partitions[0]
    assert answer.error_code == 0
    return [record for batch in read_batches(answer.records, partial_ok=True) for record in batch.records()]


def topic_id(client: kwire.Client, name: str) -> bytes:
    found: bytes = client.send(MetadataRequest(topics=[MetadataRequestTopic(name=name)])).topics[0].topic_id
    return found


def test_batches_of_every_codec_come_back_as_they_were_sent(kafka: Cluster) -> None:
    kafka.create_topic("t")
    sent = records(20)
    with kwire.Client(kafka.bootstrap_servers) as client:
        topic = topic_id(client, "t")
        outcomes = [produce(client, topic, write_batch(sent, codec=codec)) for codec in Codec]
        got = fetch(client, topic)

    assert outcomes == [(0, 20 * number) for number in range(len(Codec))]
    assert [record.offset for record in got] == list(range(20 * len(Codec)))
    assert [record.headers for record in got] == [record.headers for record in sent] * len(Codec)
    assert [record.value for record in got] == [record.value for record in sent] * len(Codec)


def test_a_broken_batch_is_refused_by_number_and_the_next_one_is_taken(kafka: Cluster) -> None:
    kafka.create_topic("t")
    broken = bytearray(write_batch(records(3)))
    broken[-1] ^= 1
    with kwire.Client(kafka.bootstrap_servers) as client:
        topic = topic_id(client, "t")
        assert produce(client, topic, bytes(broken))[0] == ErrorCode.CORRUPT_MESSAGE
        assert produce(client, topic, write_batch(records(3)))[0] == 0


def test_a_hundred_requests_in_a_row_are_answered_in_a_row(kafka: Cluster) -> None:
    with kwire.Client(kafka.bootstrap_servers) as client:
        pending = [client.submit(MetadataRequest(topics=None)) for _ in range(100)]
        answers = [one.result() for one in pending]

    assert len({answer.cluster_id for answer in answers}) == 1


def test_a_version_that_is_too_new_closes_the_connection_but_not_for_api_versions(kafka: Cluster) -> None:
    with kwire.Client(kafka.bootstrap_servers) as client:
        answer = client.send_raw(18, 99, b"")
        assert answer[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
        with pytest.raises(kwire.ConnectionClosed):
            client.send_raw(3, 99, b"")


def test_the_command_sends_a_request_to_a_running_cluster(kafka: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    kafka.create_topic("orders", partitions=3)

    code = main(["request", "--bootstrap", kafka.bootstrap_servers, "Metadata", '{"topics": null}'])

    topics = json.loads(capsys.readouterr().out)["topics"]
    assert code == 0
    assert [(topic["name"], len(topic["partitions"])) for topic in topics] == [("orders", 3)]


def test_the_command_logs_in_by_scram_and_shows_no_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {**SASL, "listeners": "IN://127.0.0.1:0", "delegation.token.secret.key": "mysterious"}
    monkeypatch.setenv("BROKER_PASSWORD", "sesame")
    login = ["--user", "bob", "--password-env", "BROKER_PASSWORD", "--sasl-mechanism", "SCRAM-SHA-512"]
    with Cluster(properties=properties, add_scram=["SCRAM-SHA-512=[name=bob,password=sesame]"]) as cluster:
        request = ["CreateDelegationToken", '{"renewers": [], "maxLifetimeMs": -1}']
        code = main(["request", "--bootstrap", cluster.bootstrap_servers, *login, *request])

    token = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (token["principalName"], token["hmac"]) == ("bob", "***")
