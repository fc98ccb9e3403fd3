"""Analyses of share-group rows, by Spark, on rows small enough to count by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kwire.capture import arrow
from kwire.spark import analyses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START = datetime(2026, 11, 21, 10, 42, 3, tzinfo=UTC)


def frame(spark: SparkSession, level: str, rows: Sequence[dict[str, object]]) -> DataFrame:
    """A DataFrame of the level; what a row does not say is null."""
    schema = arrow.schema(level)
    return spark.createDataFrame(
        pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    )


def acquired(first: int, last: int, count: int = 1, *, at_s: float = 0.0, **more: object) -> dict[str, object]:
    """One acquired range."""
    row = {"group_id": "g", "topic": "t", "partition": 0, "first_offset": first, "last_offset": last}
    return {**row, "delivery_count": count, "ts": START + timedelta(seconds=at_s), **more}


def acked(first: int, last: int, name: str, *, at_s: float = 1.0, error: int = 0, **more: object) -> dict[str, object]:
    """One acknowledged range."""
    row = {"group_id": "g", "topic": "t", "partition": 0, "first_offset": first, "last_offset": last, "ack_name": name}
    key = {"member_id": "m", "client_id": "c", "correlation_id": int(at_s * 10)}
    return {**row, **key, "error_code": error, "ts": START + timedelta(seconds=at_s), **more}


def test_a_record_in_two_acquired_ranges_was_delivered_twice(spark: SparkSession) -> None:
    rows = frame(spark, "share_acquired", [acquired(0, 3), acquired(2, 4, 2, at_s=1)])

    counts = {
        row["offset"]: (row["deliveries"], row["delivery_count_max"])
        for row in analyses.delivery_counts(rows).collect()
    }

    assert counts == {0: (1, 1), 1: (1, 1), 2: (2, 2), 3: (2, 2), 4: (1, 2)}


def test_a_range_of_hostile_length_is_left_out_and_the_others_are_counted(spark: SparkSession) -> None:
    rows = [acquired(0, 2**63 - 1), acquired(-(2**63), 2**63 - 1), acquired(9, 3), acquired(5, 6)]
    found = frame(spark, "share_acquired", rows)

    assert sorted(row["offset"] for row in analyses.delivery_counts(found).collect()) == [5, 6]
    assert [row["records"] for row in analyses.deliveries_by_count(found).collect()] == [2]


def test_groups_topics_and_partitions_are_counted_apart_and_an_unnamed_topic_by_its_id(spark: SparkSession) -> None:
    rows = [
        acquired(0, 0),
        acquired(0, 0, group_id="h"),
        acquired(0, 0, partition=1),
        acquired(0, 0, topic=None, topic_id="AAA"),
    ]

    counts = analyses.delivery_counts(frame(spark, "share_acquired", rows)).collect()

    assert {(row["group_id"], row["topic"], row["partition"], row["deliveries"]) for row in counts} == {
        ("g", "t", 0, 1),
        ("h", "t", 0, 1),
        ("g", "t", 1, 1),
        ("g", "AAA", 0, 1),
    }


def test_deliveries_over_time_tell_the_first_from_those_again(spark: SparkSession) -> None:
    rows = frame(
        spark,
        "share_acquired",
        [acquired(0, 4), acquired(5, 6, at_s=0.9), acquired(1, 3, 2, at_s=2), acquired(1, 1, 3, at_s=2)],
    )
    start_us = int(START.timestamp()) * 1_000_000

    found = analyses.deliveries_over_time(rows, start_us=start_us, step_us=1_000_000).collect()

    assert {(row["name"], row["bin"]): row["count"] for row in found} == {("first time", 0): 7, ("again", 2): 4}


def test_redeliveries_sum_up_the_records_of_a_partition(spark: SparkSession) -> None:
    counts = analyses.delivery_counts(
        frame(spark, "share_acquired", [acquired(0, 9), acquired(3, 4, 2), acquired(3, 3, 3)])
    )

    row = analyses.redeliveries(counts).collect()[0]

    assert (row["acquisitions"], row["records"], row["redelivered"], row["delivery_count_max"]) == (13, 10, 2, 3)


def test_acknowledgements_are_counted_in_records_and_refused_ones_apart(spark: SparkSession) -> None:
    acks = [acked(0, 4, "accept"), acked(5, 5, "accept"), acked(6, 7, "reject"), acked(8, 9, "accept", error=121)]

    found = analyses.acknowledgements(frame(spark, "share_acks", acks)).collect()

    assert {(row["ack_name"], row["refused"]): row["records"] for row in found} == {
        ("accept", False): 6,
        ("reject", False): 2,
        ("accept", True): 2,
    }


def test_the_outcome_of_a_record_is_the_last_word_on_its_last_delivery(spark: SparkSession) -> None:
    handed_out = [acquired(0, 9, at_s=0), acquired(1, 2, 2, at_s=2), acquired(3, 3, 5, at_s=2)]
    acks = [
        acked(0, 0, "accept"),
        acked(1, 3, "release"),
        acked(2, 2, "accept", at_s=3),
        acked(4, 4, "reject"),
        acked(5, 5, "release"),
        acked(6, 6, "gap"),
        acked(7, 7, "accept", error=121),
        acked(8, 8, "accept"),
        acked(8, 8, "renew", at_s=4),
    ]
    frames = frame(spark, "share_acquired", handed_out), frame(spark, "share_acks", acks)

    found = {row["offset"]: row["outcome"] for row in analyses.outcomes(*frames).collect()}
    given_up = {row["offset"] for row in analyses.archived(*frames).collect()}

    assert found == {
        0: "accepted",
        1: "open",  # Released once, then handed out again and not answered.
        2: "accepted",
        3: "exhausted",  # Its fifth delivery is the last.
        4: "rejected",
        5: "released",
        6: "gap",
        7: "open",  # The broker refused the acceptance.
        8: "accepted",
        9: "open",
    }
    assert given_up == {3, 4}


def test_the_delivery_limit_of_the_group_decides_what_is_exhausted(spark: SparkSession) -> None:
    frames = frame(spark, "share_acquired", [acquired(0, 0, 2)]), frame(spark, "share_acks", [])

    assert analyses.archived(*frames).collect() == []
    assert [row["offset"] for row in analyses.archived(*frames, delivery_count_limit=2).collect()] == [0]


def test_latency_has_the_percentiles_of_the_answered_requests(spark: SparkSession) -> None:
    rows = [{"api_name": "Produce", "api_version": 11 + index % 2, "latency_us": index} for index in range(1, 101)]
    rows += [{"api_name": "Produce", "api_version": 13, "latency_us": None}]

    found = analyses.latency(frame(spark, "messages", rows)).collect()

    assert [row.asDict() for row in found] == [
        {
            "api_name": "Produce",
            "versions": [11, 12],
            "requests": 100,
            "p50_us": 50,
            "p95_us": 95,
            "p99_us": 99,
            "max_us": 100,
        }
    ]


def test_errors_are_counted_by_api_and_in_their_span_of_time(spark: SparkSession) -> None:
    def message(second: float, code: int | None) -> dict[str, object]:
        moment = START + timedelta(seconds=second)
        return {"api_name": "Produce", "resp_ts": moment, "error_code": code, "error_name": f"E{code}"}

    rows = frame(
        spark,
        "messages",
        [message(0, 7), message(0.9, 7), message(1, 7), message(2, 3), message(2, 0), message(2, None)],
    )
    start_us = int(START.timestamp()) * 1_000_000

    binned = analyses.errors_over_time(rows, start_us=start_us, step_us=1_000_000).collect()
    table = {row["error_name"]: row["responses"] for row in analyses.errors(rows).collect()}

    assert {(row["name"], row["bin"]): row["count"] for row in binned} == {("E7", 0): 2, ("E7", 1): 1, ("E3", 2): 1}
    assert table == {"E7": 3, "E3": 1}
