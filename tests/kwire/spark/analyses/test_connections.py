"""Analyses of connections: TCP issues, lifetimes, and requests in flight."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from kwire.spark import analyses
from tests.support.spark.data_frames import START_US, Row, at, frame, message

pytestmark = pytest.mark.spark


def flow(conn_id: str, first_s: float, last_s: float, ended: str, **more: object) -> Row:
    """One connection whose handshake took 30 microseconds."""
    place = {"file": "a.pcap", "conn_id": conn_id, "stream_epoch": 0, "kind": "kafka", "tls": False, "rtt_us": 30}
    names = ("packets", "bytes", "retransmits", "lost_bytes", "zero_windows")
    counts = {f"{name}_{side}": 1 for name in names for side in ("client", "broker")}
    return {**place, **counts, "first_ts": at(first_s), "last_ts": at(last_s), "ended": ended, **more}


def test_a_connection_has_the_tcp_issues_of_both_sides_and_its_latency(spark: SparkSession) -> None:
    flows = [flow("c>b", 0, 90, "fin", retransmits_client=3), flow("x>b", 1, 2, "rst")]
    messages = [
        message("Produce", 0, 1.0, latency_us=400, in_flight=2),
        message("Produce", 0, 2.0, latency_us=900, throttle_ms=50),
        message("Fetch", 1, 9.0, latency_us=500_000, resp_ts=at(10), error_code=3),
    ]

    results = analyses.connections(frame(spark, "flows", flows), frame(spark, "messages", messages)).collect()
    busy, silent = sorted(results, key=lambda row: row["conn_id"])

    assert (busy["retransmits"], busy["zero_windows"], busy["packets"]) == (4, 2, 2)
    assert (busy["requests"], busy["errors"], busy["p50_us"], busy["max_us"]) == (3, 1, 400, 900)
    assert busy["answered"] == 2
    assert (busy["in_flight_max"], busy["throttle_ms_max"], busy["idle_us"]) == (2, 50, 80_000_000)
    assert (silent["requests"], silent["p50_us"], silent["idle_us"], silent["ended"]) == (0, None, None, "rst")


def test_tcp_issues_of_all_connections_are_summed(spark: SparkSession) -> None:
    flows = [
        flow("c>b", 0, 90, "fin", retransmits_client=3, zero_windows_client=0, zero_windows_broker=0),
        flow("x>b", 1, 2, "rst", retransmits_client=0, retransmits_broker=0),
        flow("y>b", 1, 2, "rst", kind="not_kafka"),
    ]
    messages = frame(spark, "messages", [message("Produce", 0, 1.0)])

    row = analyses.connection_problems(analyses.connections(frame(spark, "flows", flows), messages)).collect()[0]

    assert (row["with_retransmits"], row["retransmits"]) == (2, 6)
    assert (row["with_zero_windows"], row["zero_windows"]) == (2, 4)
    assert (row["resets"], row["idle_closes"]) == (1, 1)


def test_opened_and_closed_connections_are_counted_by_time_bin(spark: SparkSession) -> None:
    flows = [
        flow("c>b", 0, 2.5, "fin"),
        flow("d>b", 0.9, 9, "end"),
        flow("e>b", 1, 2, "rst", rtt_us=None),  # Its handshake is not in the capture.
    ]

    results = analyses.connection_churn(frame(spark, "flows", flows), start_us=START_US, step_us=1_000_000).collect()

    assert {(row["name"], row["bin"]): row["count"] for row in results} == {("opened", 0): 2, ("closed", 2): 2}


def test_connections_far_from_all_time_bins_are_not_counted(spark: SparkSession) -> None:
    """A capture without messages has one time bin of one microsecond, at 1970."""
    flows = frame(spark, "flows", [flow("a", 0, 1, "fin")])

    results = analyses.connection_churn(flows, start_us=0, step_us=1).collect()

    assert {row["bin"] for row in results} == {None}


def test_a_request_itself_counts_as_in_flight(spark: SparkSession) -> None:
    rows = [
        message("Produce", 0, 0.0, in_flight=0),
        message("Produce", 0, 0.5, in_flight=4, throttle_ms=200),
        message("Produce", 0, 1.5, in_flight=1, throttle_ms=None),
    ]

    results = analyses.requests_in_flight(frame(spark, "messages", rows), start_us=START_US, step_us=1_000_000)

    bins = results.select("bin", "requests", "in_flight_max", "throttle_ms_max").collect()
    assert set(bins) == {(0, 2, 5, 200), (1, 1, 2, 0)}
