"""Analyses of clients: software, request rates, versions, and sizes of requests."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from kwire.spark import analyses
from tests.support.spark.data_frames import Row, at, frame, message

pytestmark = pytest.mark.spark


def test_clients_are_grouped_by_id_and_software_with_their_rate(spark: SparkSession) -> None:
    java = {"software_name": "apache-kafka-java", "software_version": "4.3.0", "req_bytes": 100, "resp_bytes": 1_000}
    rows = [
        message("Produce", 0, 0.0, **java),
        message("Produce", 0, 2.0, **java, conn_id="d>b", error_code=7),
        message("Fetch", 1, 0.0, client_id="other"),
        message("Fetch", 1, 0.0, client_id="other", in_flight=None),  # A response without a request.
    ]

    results = {row["client_id"]: row for row in analyses.clients(frame(spark, "messages", rows)).collect()}

    me = results["me"]
    assert (me["software"], me["requests"], me["connections"]) == ("apache-kafka-java 4.3.0", 2, 2)
    assert (me["errors"], me["req_bytes"], me["resp_bytes"], me["requests_per_s"]) == (1, 200, 2_000, 1.0)
    other = results["other"]
    assert (other["requests"], other["software"], other["requests_per_s"]) == (1, "", None)


def test_the_versions_of_each_api_are_listed_by_client(spark: SparkSession) -> None:
    rows = [message("Produce", 0, api_version=version) for version in (9, 13, 9)]
    rows += [message("Fetch", 1, api_version=17, client_id="other")]

    results = analyses.client_versions(frame(spark, "messages", rows)).collect()

    assert {(row["client_id"], row["api_name"]): (row["versions"], row["requests"]) for row in results} == {
        ("me", "Produce"): ([9, 13], 3),
        ("other", "Fetch"): ([17], 1),
    }


def test_the_size_of_a_produce_request_is_the_sum_of_its_partitions(spark: SparkSession) -> None:
    def produce_row(correlation_id: int, size: int, records: int, partition: int = 0) -> Row:
        """One partition of a Produce request."""
        key = {"file": "a.pcap", "conn_id": "c>b", "stream_epoch": 0, "client_id": "me", "api_name": "Produce"}
        columns = {"correlation_id": correlation_id, "req_packet": correlation_id * 10, "ts": at(correlation_id)}
        return {**key, **columns, "partition": partition, "batch_bytes": size, "records": records, "codec": "lz4"}

    rows = [produce_row(1, 700, 5), produce_row(1, 700, 5, 1), produce_row(2, 100, 1)]
    rows += [produce_row(3, 80, 1), produce_row(4, 9_000, 90)]
    fetched = [{**produce_row(5, size, size), "api_name": "Fetch", "correlation_id": size} for size in (0, 50)]

    results = analyses.batch_sizes(analyses.request_sizes(frame(spark, "partitions", [*rows, *fetched]))).collect()
    fetch, row = sorted(results, key=lambda row: row["api_name"])

    # A response without records does not count as tiny.
    assert (fetch["requests"], fetch["tiny"], fetch["p50_bytes"]) == (1, 1, 50)
    assert (row["requests"], row["tiny"], row["records"], row["batch_bytes"]) == (4, 2, 102, 10_580)
    assert (row["p50_bytes"], row["p50_records"], row["codecs"], row["req_packet"]) == (100, 1, ["lz4"], 20)


def test_codecs_by_client_and_api_are_those_of_the_requests(spark: SparkSession) -> None:
    """Also of a client without an id, and of a request with several codecs."""
    key = {
        "file": "a.pcap",
        "conn_id": "c>b",
        "stream_epoch": 0,
        "api_name": "Produce",
        "batch_bytes": 10,
        "records": 1,
    }
    rows = [
        {
            **key,
            "client_id": client_id,
            "codec": codec,
            "correlation_id": number,
            "req_packet": number,
            "ts": at(number),
        }
        for number, (client_id, codec) in enumerate(
            [("me", "lz4"), ("me", "gzip"), ("me", "gzip,lz4"), (None, "zstd"), ("other", None)]
        )
    ]
    partitions = frame(spark, "partitions", [*rows, {**rows[0], "partition": 1, "codec": "snappy"}])
    sizes = analyses.request_sizes(partitions)

    collected = analyses.batch_sizes(sizes, tiny_bytes=15)
    joined = analyses.batch_sizes(sizes, tiny_bytes=15, codecs=analyses.codecs_used(partitions))

    assert sorted(map(str, joined.collect())) == sorted(map(str, collected.collect()))
    codecs = {row["client_id"]: row["codecs"] for row in joined.collect()}
    assert codecs == {"me": ["gzip", "gzip,lz4", "lz4", "snappy"], None: ["zstd"], "other": []}
