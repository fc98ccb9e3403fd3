"""Analyses of share-group deliveries: delivery counts, redeliveries, outcomes, and contents of records."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from kwire.spark import analyses
from tests.support.spark.data_frames import START_US, Row, acked, acquired, frame

pytestmark = pytest.mark.spark


def test_a_record_in_two_acquired_ranges_was_delivered_twice(spark: SparkSession) -> None:
    rows = frame(spark, "share_acquired", [acquired(0, 3), acquired(2, 4, 2, at_s=1)])

    counts = analyses.delivery_counts(rows).select("offset", "deliveries", "delivery_count_max")

    assert set(counts.collect()) == {(0, 1, 1), (1, 1, 1), (2, 2, 2), (3, 2, 2), (4, 1, 2)}


def test_a_range_of_hostile_length_is_excluded(spark: SparkSession) -> None:
    rows = [acquired(0, 2**63 - 1), acquired(-(2**63), 2**63 - 1), acquired(9, 3), acquired(5, 6)]
    results = frame(spark, "share_acquired", rows)

    assert sorted(row["offset"] for row in analyses.delivery_counts(results).collect()) == [5, 6]
    assert [row["records"] for row in analyses.deliveries_by_count(results).collect()] == [2]


def test_deliveries_are_counted_by_group_topic_or_id_and_partition(spark: SparkSession) -> None:
    others: tuple[Row, ...] = ({}, {"group_id": "h"}, {"partition": 1}, {"topic": None, "topic_id": "AAA"})
    rows = [acquired(0, 0) | columns for columns in others]

    counts = analyses.delivery_counts(frame(spark, "share_acquired", rows))

    found = counts.select("group_id", "topic", "partition", "deliveries").collect()
    assert set(found) == {("g", "t", 0, 1), ("h", "t", 0, 1), ("g", "t", 1, 1), ("g", "AAA", 0, 1)}


def test_deliveries_over_time_are_separated_by_delivery_count(spark: SparkSession) -> None:
    rows = [acquired(0, 4), acquired(5, 6, at_s=0.9), acquired(1, 3, 2, at_s=2), acquired(1, 1, 3, at_s=2)]
    deliveries = frame(spark, "share_acquired", rows)

    counts = analyses.deliveries_over_time(deliveries, start_us=START_US, step_us=1_000_000)

    assert set(counts.select("name", "bin", "count").collect()) == {("1", 0, 7), ("2", 2, 3), ("3", 2, 1)}


def test_redeliveries_sum_up_the_records_of_a_partition(spark: SparkSession) -> None:
    rows = [acquired(0, 9), acquired(3, 4, 2), acquired(3, 3, 3)]
    counts = analyses.delivery_counts(frame(spark, "share_acquired", rows))

    row = analyses.redeliveries(counts).collect()[0]

    assert (row["acquisitions"], row["records"], row["redelivered"], row["delivery_count_max"]) == (13, 10, 2, 3)


def test_the_outcome_of_a_record_is_the_last_acknowledgement_of_its_last_delivery(spark: SparkSession) -> None:
    handed_out = [acquired(0, 9, at_s=0), acquired(1, 2, 2, at_s=2), acquired(3, 3, 5, at_s=2)]
    acks = [
        *(acked(0, 0, "accept"), acked(1, 3, "release"), acked(2, 2, "accept", at_s=3), acked(4, 4, "reject")),
        *(acked(5, 5, "release"), acked(6, 6, "gap"), acked(7, 7, "accept", error=121)),
        *(acked(8, 8, "accept"), acked(8, 8, "renew", at_s=4)),
    ]
    frames = frame(spark, "share_acquired", handed_out), frame(spark, "share_acks", acks)

    results = {row["offset"]: row["outcome"] for row in analyses.outcomes(*frames).collect()}
    given_up = {row["offset"] for row in analyses.archived(*frames).collect()}

    assert results == {
        0: "accepted",
        1: "open",  # Released once, then acquired again and not acknowledged.
        2: "accepted",
        3: "exhausted",  # Its fifth delivery is the last one.
        4: "rejected",
        5: "released",
        6: "gap",
        7: "open",  # The broker refused the acceptance.
        8: "accepted",
        9: "open",
    }
    assert given_up == {3, 4}


def test_poison_records_are_archived_or_delivered_often(spark: SparkSession) -> None:
    handed_out = [acquired(0, 4, file="a.pcap", resp_packet=3), acquired(1, 1, 3, at_s=2, file="b.pcap", resp_packet=9)]
    handed_out += [acquired(2, 2, 2, at_s=2, member_id="n"), acquired(2, 2, 2, at_s=3, member_id="m", file="c.pcap")]
    frames = frame(spark, "share_acquired", handed_out), frame(spark, "share_acks", [acked(0, 0, "reject")])

    rows = analyses.poison_records(analyses.outcomes(*frames)).orderBy("offset")

    assert rows.select("offset", "outcome", "file", "resp_packet", "deliveries", "members").collect() == [
        (0, "rejected", "a.pcap", 3, 1, 0),
        (1, "open", "b.pcap", 9, 2, 0),
        (2, "open", "c.pcap", None, 3, 2),
    ]


def test_the_delivery_limit_of_the_group_decides_what_is_exhausted(spark: SparkSession) -> None:
    frames = frame(spark, "share_acquired", [acquired(0, 0, 2)]), frame(spark, "share_acks", [])

    assert analyses.archived(*frames).collect() == []
    assert [row["offset"] for row in analyses.archived(*frames, delivery_count_limit=2).collect()] == [0]


def test_dead_letters_count_each_record_once(spark: SparkSession) -> None:
    def dead_letter(offset: int, direction: str, reason: str = "rejected") -> dict[str, object]:
        about = {"dlq_group_id": "g", "dlq_topic": "t", "dlq_partition": 0, "dlq_offset": offset, "dlq_reason": reason}
        return {"topic": "dlq.t", "direction": direction, "dlq_delivery_count": offset, **about}

    rows = [
        dead_letter(3, "produce"),
        dead_letter(3, "fetch"),
        dead_letter(5, "fetch"),
        dead_letter(4, "fetch", "limit"),
    ]
    rows.append({"topic": "t", "direction": "fetch"})

    counted = analyses.dead_letters(frame(spark, "records", rows)).orderBy("reason")

    assert counted.select("group_id", "topic", "queue", "reason", "records", "last_offset").collect() == [
        ("g", "t", "dlq.t", "limit", 1, 4),
        ("g", "t", "dlq.t", "rejected", 2, 5),
    ]


def test_contents_are_those_fetched_by_share_consumers_and_cut(spark: SparkSession) -> None:
    def record(offset: int, direction: str, value: bytes | None) -> dict[str, object]:
        """One record of the level `records`."""
        size = None if value is None else len(value)
        about = {"topic": "t", "partition": 0, "offset": offset, "direction": direction}
        return {**about, "key": b"k", "key_size": 1, "value": value, "value_size": size}

    rows = [record(1, "share_fetch", b"x" * 300)] * 2
    rows += [record(2, "share_fetch", None), record(3, "share_fetch", b"not chosen"), record(1, "produce", b"another")]
    records = frame(spark, "records", rows)

    found = analyses.contents(records, records.filter("offset < 3")).orderBy("offset")

    assert found.select("offset", "value", "value_size").collect() == [(1, b"x" * 200, 300), (2, None, None)]
