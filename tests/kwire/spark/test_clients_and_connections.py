"""Clients, their batches and versions, and their connections, on rows small enough to count by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.spark import analyses
from tests.kwire.spark.frames import START_US, Row, at, frame, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_clients_are_told_by_id_and_software_with_their_rate(spark: SparkSession) -> None:
    java = {"software_name": "apache-kafka-java", "software_version": "4.3.0", "req_bytes": 100, "resp_bytes": 1_000}
    rows = [
        message("Produce", 0, 0.0, **java),
        message("Produce", 0, 2.0, **java, conn_id="d>b", error_code=7),
        message("Fetch", 1, 0.0, client_id="other"),
        message("Fetch", 1, 0.0, client_id="other", in_flight=None),  # No request: an answer alone.
    ]

    found = {row["client_id"]: row for row in analyses.clients(frame(spark, "messages", rows)).collect()}

    me = found["me"]
    assert (me["software"], me["requests"], me["connections"]) == ("apache-kafka-java 4.3.0", 2, 2)
    assert (me["errors"], me["req_bytes"], me["resp_bytes"], me["requests_per_s"]) == (1, 200, 2_000, 1.0)
    assert (found["other"]["requests"], found["other"]["software"], found["other"]["requests_per_s"]) == (1, "", None)


def test_the_versions_of_each_api_are_told_by_client(spark: SparkSession) -> None:
    rows = [message("Produce", 0, api_version=version) for version in (9, 13, 9)]
    rows += [message("Fetch", 1, api_version=17, client_id="other")]

    found = analyses.client_versions(frame(spark, "messages", rows)).collect()

    assert {(row["client_id"], row["api_name"]): (row["versions"], row["requests"]) for row in found} == {
        ("me", "Produce"): ([9, 13], 3),
        ("other", "Fetch"): ([17], 1),
    }


def test_a_tiny_produce_request_is_one_whose_partitions_together_hold_little(spark: SparkSession) -> None:
    def sent(correlation_id: int, size: int, records: int, partition: int = 0) -> Row:
        """One partition of a Produce request."""
        key = {"file": "a.pcap", "conn_id": "c>b", "stream_epoch": 0, "client_id": "me", "api_name": "Produce"}
        about = {"correlation_id": correlation_id, "req_packet": correlation_id * 10, "ts": at(correlation_id)}
        return {**key, **about, "partition": partition, "batch_bytes": size, "records": records, "codec": "lz4"}

    rows = [sent(1, 700, 5), sent(1, 700, 5, 1), sent(2, 100, 1), sent(3, 80, 1), sent(4, 9_000, 90)]
    fetched = [{**sent(5, size, size), "api_name": "Fetch", "correlation_id": size} for size in (0, 50)]

    found = analyses.batch_sizes(analyses.request_sizes(frame(spark, "partitions", [*rows, *fetched]))).collect()
    fetch, row = sorted(found, key=lambda row: row["api_name"])

    # An answer without records is none that carries little.
    assert (fetch["requests"], fetch["tiny"], fetch["p50_bytes"]) == (1, 1, 50)
    assert (row["requests"], row["tiny"], row["records"], row["batch_bytes"]) == (4, 2, 102, 10_580)
    assert (row["p50_bytes"], row["p50_records"], row["codecs"], row["req_packet"]) == (100, 1, ["lz4"], 20)


def flow(conn_id: str, first_s: float, last_s: float, ended: str, **more: object) -> Row:
    """One connection whose handshake took 30 microseconds."""
    place = {"file": "a.pcap", "conn_id": conn_id, "stream_epoch": 0, "kind": "kafka", "tls": False, "rtt_us": 30}
    counts = {
        f"{name}_{side}": 1
        for name in ("packets", "bytes", "retransmits", "lost_bytes", "zero_windows")
        for side in ("client", "broker")
    }
    return {**place, **counts, "first_ts": at(first_s), "last_ts": at(last_s), "ended": ended, **more}


def test_a_connection_has_the_troubles_of_both_sides_and_the_latency_of_its_requests(spark: SparkSession) -> None:
    flows = [flow("c>b", 0, 90, "fin", retransmits_client=3), flow("x>b", 1, 2, "rst")]
    messages = [
        message("Produce", 0, 1.0, latency_us=400, in_flight=2),
        message("Produce", 0, 2.0, latency_us=900, throttle_ms=50),
        message("Fetch", 1, 9.0, latency_us=500_000, resp_ts=at(10), error_code=3),
    ]

    found = analyses.connections(frame(spark, "flows", flows), frame(spark, "messages", messages)).collect()
    busy, silent = sorted(found, key=lambda row: row["conn_id"])

    assert (busy["retransmits"], busy["zero_windows"], busy["packets"]) == (4, 2, 2)
    assert (busy["requests"], busy["errors"], busy["p50_us"], busy["max_us"]) == (3, 1, 400, 900)
    assert (busy["in_flight_max"], busy["throttle_ms_max"], busy["idle_us"]) == (2, 50, 80_000_000)
    assert (silent["requests"], silent["p50_us"], silent["idle_us"], silent["ended"]) == (0, None, None, "rst")


def test_troubles_of_all_connections_are_summed_up(spark: SparkSession) -> None:
    flows = [
        flow("c>b", 0, 90, "fin", retransmits_client=3, zero_windows_client=0, zero_windows_broker=0),
        flow("x>b", 1, 2, "rst", retransmits_client=0, retransmits_broker=0),
        flow("y>b", 1, 2, "rst", kind="not_kafka"),
    ]
    messages = frame(spark, "messages", [message("Produce", 0, 1.0)])

    row = analyses.troubles(analyses.connections(frame(spark, "flows", flows), messages)).collect()[0]

    assert (row["with_retransmits"], row["retransmits"]) == (2, 6)
    assert (row["with_zero_windows"], row["zero_windows"]) == (2, 4)
    assert (row["resets"], row["idle_closes"]) == (1, 1)


def test_connections_come_and_go_in_their_span_of_time(spark: SparkSession) -> None:
    flows = [
        flow("c>b", 0, 2.5, "fin"),
        flow("d>b", 0.9, 9, "end"),
        flow("e>b", 1, 2, "rst", rtt_us=None),  # Its beginning is not in the capture.
    ]

    found = analyses.churn(frame(spark, "flows", flows), start_us=START_US, step_us=1_000_000).collect()

    assert {(row["name"], row["bin"]): row["count"] for row in found} == {("opened", 0): 2, ("closed", 2): 2}


def test_connections_far_from_every_span_are_in_none(spark: SparkSession) -> None:
    """A capture without messages has a span of one microsecond, at 1970."""
    flows = frame(spark, "flows", [flow("a", 0, 1, "fin")])

    found = analyses.churn(flows, start_us=0, step_us=1).collect()

    assert {row["bin"] for row in found} == {None}


def test_depth_counts_a_request_itself_as_in_flight(spark: SparkSession) -> None:
    rows = [
        message("Produce", 0, 0.0, in_flight=0),
        message("Produce", 0, 0.5, in_flight=4, throttle_ms=200),
        message("Produce", 0, 1.5, in_flight=1, throttle_ms=None),
    ]

    found = analyses.depth(frame(spark, "messages", rows), start_us=START_US, step_us=1_000_000).collect()

    assert {row["bin"]: (row["requests"], row["in_flight_max"], row["throttle_ms_max"]) for row in found} == {
        0: (2, 5, 200),
        1: (1, 2, 0),
    }
