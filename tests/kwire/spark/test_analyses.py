"""Analyses of share-group rows, by Spark, on rows small enough to count by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.spark import analyses
from tests.kwire.spark.frames import START_US, acked, acquired, frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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
    found = analyses.deliveries_over_time(rows, start_us=START_US, step_us=1_000_000).collect()

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


def test_poison_records_are_those_given_up_and_those_handed_out_often(spark: SparkSession) -> None:
    handed_out = [acquired(0, 4, file="a.pcap", resp_packet=3), acquired(1, 1, 3, at_s=2, file="b.pcap", resp_packet=9)]
    handed_out += [acquired(2, 2, 2, at_s=2, member_id="n"), acquired(2, 2, 2, at_s=3, member_id="m", file="c.pcap")]
    frames = frame(spark, "share_acquired", handed_out), frame(spark, "share_acks", [acked(0, 0, "reject")])

    rows = analyses.poison_records(analyses.outcomes(*frames)).collect()

    assert {row["offset"]: (row["outcome"], row["file"], row["resp_packet"]) for row in rows} == {
        0: ("rejected", "a.pcap", 3),
        1: ("open", "b.pcap", 9),
        2: ("open", "c.pcap", None),
    }
    assert {row["offset"]: (row["deliveries"], row["members"]) for row in rows} == {0: (1, 0), 1: (2, 0), 2: (3, 2)}


def test_the_delivery_limit_of_the_group_decides_what_is_exhausted(spark: SparkSession) -> None:
    frames = frame(spark, "share_acquired", [acquired(0, 0, 2)]), frame(spark, "share_acks", [])

    assert analyses.archived(*frames).collect() == []
    assert [row["offset"] for row in analyses.archived(*frames, delivery_count_limit=2).collect()] == [0]


def test_contents_are_those_that_share_consumers_were_given_and_cut(spark: SparkSession) -> None:
    def record(offset: int, direction: str, value: bytes | None) -> dict[str, object]:
        """One record of the level `records`."""
        size = None if value is None else len(value)
        about = {"topic": "t", "partition": 0, "offset": offset, "direction": direction}
        return {**about, "key": b"k", "key_size": 1, "value": value, "value_size": size}

    rows = [record(1, "share_fetch", b"x" * 300)] * 2
    rows += [record(2, "share_fetch", None), record(3, "share_fetch", b"not chosen"), record(1, "produce", b"another")]
    records = frame(spark, "records", rows)

    found = analyses.contents(records, records.filter("offset < 3")).orderBy("offset").collect()

    assert [(row["offset"], row["value"], row["value_size"]) for row in found] == [
        (1, b"x" * 200, 300),
        (2, None, None),
    ]
