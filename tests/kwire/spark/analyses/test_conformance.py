"""The rules of the protocol, each broken once, and similar cases that are no breach."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.capture.rows.record_batches import make_record_batch
from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from kwire.spark import analyses
from tests.support.captures.capture_files import CapturedConnection
from tests.support.spark.data_frames import Row, at, frame, message

pytestmark = pytest.mark.spark

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18


def test_a_response_out_of_order_is_a_breach(spark: SparkSession) -> None:
    broken = message("Fetch", FETCH, order_ok=False, correlation_id=7, resp_packet=70)
    rows = [broken, message("Fetch", FETCH), message("Fetch", FETCH, order_ok=None)]

    found = analyses.response_order(frame(spark, "messages", rows)).select("rule", "correlation_id", "resp_packet")

    assert found.collect() == [("response out of order", 7, 70)]


def test_a_version_is_checked_against_the_offer_of_its_own_broker(spark: SparkSession) -> None:
    offered = json.dumps({"errorCode": 0, "apiKeys": [{"apiKey": 0, "minVersion": 3, "maxVersion": 11}]})
    rows = [
        message("ApiVersions", API_VERSIONS, body_response=offered, api_version=99),
        message("Produce", PRODUCE, api_version=11),
        message("Produce", PRODUCE, api_version=12, correlation_id=12),
        message("Fetch", FETCH, api_version=4, correlation_id=4),
        # No client sent ApiVersions to this broker.
        message("Produce", PRODUCE, api_version=12, broker_port=9093),
    ]
    messages = frame(spark, "messages", rows)

    found = analyses.versions_not_offered(messages, messages).select("correlation_id", "detail")

    details = {12: "version 12, offered are 3 to 11", 4: "version 4, of an API that is not offered"}
    assert set(found.collect()) == {*details.items()}


def test_a_refused_apiversions_request_offers_no_versions_of_other_apis(spark: SparkSession) -> None:
    refused = json.dumps({"errorCode": 35, "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 4}]})
    rows = [message("ApiVersions", API_VERSIONS, body_response=refused), message("Produce", PRODUCE, api_version=11)]
    messages = frame(spark, "messages", rows)

    assert analyses.versions_not_offered(messages, messages).collect() == []


def batch_row(seconds: float, sequence: int, records: int, **more: object) -> Row:
    """One batch of producer 9."""
    place = {"file": "a.pcap", "conn_id": "c>b", "api_name": "Produce", "topic": "t", "partition": 0, "epoch": 0}
    return {**place, "ts": at(seconds), "producer_id": 9, "sequence": sequence, "records": records, **more}


def test_a_higher_sequence_is_a_gap_and_a_retry_is_none(spark: SparkSession) -> None:
    rows = [
        batch_row(0, 100, 5),
        batch_row(1, 105, 5),
        batch_row(2, 100, 5),  # A retry.
        batch_row(3, 110, 1),
        batch_row(4, 115, 1, req_packet=44),
        batch_row(5, 40, 1, partition=1),
        batch_row(6, 0, 1, epoch=1),
        batch_row(7, -1, 1, producer_id=None),
    ]

    gaps = analyses.sequence_gaps(frame(spark, "partitions", rows)).select("rule", "req_packet", "detail")

    assert gaps.collect() == [("produce-sequence-gap", 44, "producer 9, t-0: sequence 115, expected 111")]


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


def test_issues_that_are_breaches_are_listed_and_packet_losses_are_not(spark: SparkSession) -> None:
    nothing = frame(spark, "share_acquired", []), frame(spark, "share_acks", [])
    messages = issues(spark)

    no_partitions = frame(spark, "partitions", [])
    results = analyses.conformance(messages, messages, no_partitions, analyses.attempts(*nothing)).persist()
    rules = {row["rule"]: (row["breaches"], row["connections"]) for row in analyses.breaches(results).collect()}

    assert rules == {
        "duplicate correlation id": (1, 1),
        "CRC of a batch is wrong": (1, 1),
        "damaged records": (1, 1),
        "TLS meets plaintext": (1, 1),
    }
    assert "batch: the CRC is 1, not 2" in {row["detail"] for row in results.collect()}


def connection_with_breaches() -> CapturedConnection:
    """The rows of a connection on which both sides break rules."""
    offered = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4), ApiVersion(3, 0, 12)])
    batch = bytearray(write_batch([Record(0, 5, b"k", b"v")]))
    batch[-1] ^= 1
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(batch))])]
    topic = MetadataRequestTopic(name="t", unknown_tagged_fields=((9, b"abc"),))

    def encode_metadata_request(number: int) -> bytes:
        """A request for metadata."""
        return encode_request(MetadataRequest([topic] if number == 2 else None), 12, number, "me")

    def encode_metadata_response(number: int) -> bytes:
        """Its response."""
        return encode_response(MetadataResponse(), 12, number)

    talk = CapturedConnection().open().send_requests(encode_request(ApiVersionsRequest("me", "1"), 3, 1, "me"))
    talk.send_responses(encode_response(offered, 3, 1)).send_requests(
        encode_metadata_request(2), encode_metadata_request(3)
    ).send_responses(encode_metadata_response(3), encode_metadata_response(2))
    talk.send_requests(encode_metadata_request(4), encode_metadata_request(4)).send_responses(
        encode_metadata_response(4), encode_metadata_response(4)
    )
    talk.send_requests(encode_request(ProduceRequest(acks=0, timeout_ms=9, topic_data=topics), 9, 5, "me"))
    # A TLS alert, from a port that uses TLS.
    return talk.send_server_bytes(b"\x15\x03\x03\x00\x02\x02\x46").close()


def test_issues_of_the_capture_reader_are_classified_by_kind(spark: SparkSession) -> None:
    def level(name: str) -> DataFrame:
        """The rows of the connection."""
        batch = make_record_batch(connection_with_breaches().read_rows(name), name)
        return spark.createDataFrame(pa.Table.from_batches([batch]))

    messages, nothing = level("messages"), (frame(spark, "share_acquired", []), frame(spark, "share_acks", []))

    results = analyses.conformance(messages, messages, level("partitions"), analyses.attempts(*nothing)).collect()

    assert sorted((row["rule"], row["correlation_id"]) for row in results if row["rule"] != "TLS meets plaintext") == [
        ("CRC of a batch is wrong", 5),
        ("api-version-not-offered", 5),
        ("duplicate correlation id", 4),
        ("response out of order", 2),
        ("unknown tagged field", 2),
    ]
    assert [row["rule"] for row in results].count("TLS meets plaintext") == 1
    packets = {row["rule"]: (row["req_packet"], row["resp_packet"]) for row in results}
    assert None not in packets["response out of order"]
    assert packets["CRC of a batch is wrong"][0] > packets["unknown tagged field"][0]
