"""The rules of the protocol, each broken once, and what only looks like a breach."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kwire.capture import arrow
from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from kwire.spark import analyses
from tests.kwire.capture.wire import Talk
from tests.kwire.spark.frames import Row, at, frame, message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18


def test_an_answer_that_overtook_another_is_a_breach(spark: SparkSession) -> None:
    rows = [
        message("Fetch", FETCH, order_ok=False, correlation_id=7, resp_packet=70),
        message("Fetch", FETCH),
        message("Fetch", FETCH, order_ok=None),
    ]

    found = analyses.response_order(frame(spark, "messages", rows)).collect()

    assert [(row["rule"], row["correlation_id"], row["resp_packet"]) for row in found] == [
        ("response out of order", 7, 70)
    ]


def test_a_version_is_judged_by_what_its_own_broker_offers(spark: SparkSession) -> None:
    offered = json.dumps({"errorCode": 0, "apiKeys": [{"apiKey": 0, "minVersion": 3, "maxVersion": 11}]})
    rows = [
        message("ApiVersions", API_VERSIONS, body_response=offered, api_version=99),
        message("Produce", PRODUCE, api_version=11),
        message("Produce", PRODUCE, api_version=12, correlation_id=12),
        message("Fetch", FETCH, api_version=4, correlation_id=4),
        # Nobody asked this broker.
        message("Produce", PRODUCE, api_version=12, broker_port=9093),
    ]
    messages = frame(spark, "messages", rows)

    found = analyses.versions_not_offered(messages, messages).collect()

    assert {(row["correlation_id"], row["detail"]) for row in found} == {
        (12, "version 12, offered are 3 to 11"),
        (4, "version 4, of an API that is not offered"),
    }


def test_a_broker_that_refused_the_version_of_the_question_has_said_nothing_of_other_apis(spark: SparkSession) -> None:
    refused = json.dumps({"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]})
    rows = [message("ApiVersions", API_VERSIONS, body_response=refused), message("Produce", PRODUCE, api_version=11)]
    messages = frame(spark, "messages", rows)

    assert analyses.versions_not_offered(messages, messages).collect() == []


def sent(seconds: float, sequence: int, records: int, **more: object) -> Row:
    """One batch of producer 9."""
    place = {"file": "a.pcap", "conn_id": "c>b", "api_name": "Produce", "topic": "t", "partition": 0, "epoch": 0}
    return {**place, "ts": at(seconds), "producer_id": 9, "sequence": sequence, "records": records, **more}


def test_a_sequence_that_goes_on_behind_the_expected_one_is_a_gap_and_a_retry_is_none(spark: SparkSession) -> None:
    rows = [
        sent(0, 100, 5),
        sent(1, 105, 5),
        sent(2, 100, 5),  # Sent again.
        sent(3, 110, 1),
        sent(4, 115, 1, req_packet=44),
        sent(5, 40, 1, partition=1),
        sent(6, 0, 1, epoch=1),
        sent(7, -1, 1, producer_id=None),
    ]

    found = analyses.sequence_gaps(frame(spark, "partitions", rows)).collect()

    assert [(row["rule"], row["req_packet"], row["detail"]) for row in found] == [
        ("gap in a producer's sequence", 44, "producer 9, t-0: sequence 115, expected 111")
    ]


def issues(spark: SparkSession) -> DataFrame:
    """Rows with one issue each."""

    def issue(kind: str, detail: str, path: str = "") -> list[Row]:
        """The issues of a row."""
        return [{"kind": kind, "side": "request", "path": path, "at": None, "detail": detail}]

    rows = [
        message("Fetch", FETCH, issues=issue("duplicate_correlation", "correlation id 3 is still waiting")),
        message("Produce", PRODUCE, issues=issue("records", "the CRC is 1, not 2", "batch")),
        message("Produce", PRODUCE, issues=issue("records", "a batch of magic 9")),
        message("Produce", PRODUCE, issues=issue("no_response", "the capture ends before an answer")),
        message("Produce", PRODUCE, issues=issue("tls", "the connection speaks TLS; its content cannot be read")),
        message("Produce", PRODUCE, issues=issue("tls", "the answer is a TLS record: the port speaks TLS, and so on")),
    ]
    return frame(spark, "messages", rows)


def test_issues_that_are_breaches_are_named_and_losses_are_not(spark: SparkSession) -> None:
    nothing = frame(spark, "share_acquired", []), frame(spark, "share_acks", [])
    messages = issues(spark)

    found = analyses.conformance(
        messages, messages, frame(spark, "partitions", []), analyses.attempts(*nothing)
    ).persist()
    rules = {row["rule"]: (row["breaches"], row["connections"]) for row in analyses.breaches(found).collect()}

    assert rules == {
        "duplicate correlation id": (1, 1),
        "CRC of a batch is wrong": (1, 1),
        "damaged records": (1, 1),
        "TLS meets plaintext": (1, 1),
    }
    assert "batch: the CRC is 1, not 2" in {row["detail"] for row in found.collect()}


def broken() -> Talk:
    """A talk in which both sides break rules, as the reader of captures tells it."""
    offered = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4), ApiVersion(3, 0, 12)])
    batch = bytearray(write_batch([Record(0, 5, b"k", b"v")]))
    batch[-1] ^= 1
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(batch))])]
    topic = MetadataRequestTopic(name="t", unknown_tagged_fields=((9, b"abc"),))

    def ask(number: int) -> bytes:
        """A request for metadata."""
        return encode_request(MetadataRequest([topic] if number == 2 else None), 12, number, "me")

    def answer(number: int) -> bytes:
        """Its answer."""
        return encode_response(MetadataResponse(), 12, number)

    talk = Talk().open().asks(encode_request(ApiVersionsRequest("me", "1"), 3, 1, "me"))
    talk.answers(encode_response(offered, 3, 1)).asks(ask(2), ask(3)).answers(answer(3), answer(2))
    talk.asks(ask(4), ask(4)).answers(answer(4), answer(4))
    talk.asks(encode_request(ProduceRequest(acks=0, timeout_ms=9, topic_data=topics), 9, 5, "me"))
    # An alert of TLS, from a port that speaks it.
    return talk.server_bytes(b"\x15\x03\x03\x00\x02\x02\x46").close()


def test_what_the_reader_of_captures_notes_is_judged_by_its_kind(spark: SparkSession) -> None:
    def level(name: str) -> DataFrame:
        """The rows of the talk."""
        batch = arrow.record_batch(broken().rows(name), name)
        return spark.createDataFrame(pa.Table.from_batches([batch]))

    messages, nothing = level("messages"), (frame(spark, "share_acquired", []), frame(spark, "share_acks", []))

    found = analyses.conformance(messages, messages, level("partitions"), analyses.attempts(*nothing)).collect()

    assert sorted((row["rule"], row["correlation_id"]) for row in found if row["rule"] != "TLS meets plaintext") == [
        ("CRC of a batch is wrong", 5),
        ("duplicate correlation id", 4),
        ("response out of order", 2),
        ("unknown tagged field", 2),
        ("version not offered", 5),
    ]
    assert [row["rule"] for row in found].count("TLS meets plaintext") == 1
    packets = {row["rule"]: (row["req_packet"], row["resp_packet"]) for row in found}
    assert None not in packets["response out of order"]
    assert packets["CRC of a batch is wrong"][0] > packets["unknown tagged field"][0]
