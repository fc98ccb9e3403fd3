"""Analyses of acquisition locks: deliveries and their acknowledgements, held times, renewals."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.spark import analyses
from tests.support.spark.data_frames import Row, acked, acquired, frame

pytestmark = pytest.mark.spark


def acquired_row(first: int, last: int, count: int = 1, *, at_s: float = 0.0, member: str = "m") -> Row:
    """Records acquired with a lock of ten seconds."""
    delivery = {"member_id": member, "lock_timeout_ms": 10_000, "file": "a.pcap", "resp_packet": 7}
    return acquired(first, last, count, at_s=at_s, **delivery)


def run_attempts(spark: SparkSession, given_out: list[Row], words: list[Row]) -> DataFrame:
    return analyses.attempts(frame(spark, "share_acquired", given_out), frame(spark, "share_acks", words))


def test_a_delivery_is_ended_by_the_first_final_acknowledgement_of_its_member(spark: SparkSession) -> None:
    words = [
        acked(0, 0, "release", at_s=4),
        acked(0, 0, "accept", at_s=8, member_id="n"),
        acked(0, 0, "accept", at_s=9, error=121, error_name="INVALID_RECORD_STATE"),
    ]

    rows = run_attempts(spark, [acquired_row(0, 1), acquired_row(0, 0, 2, at_s=5, member="n")], words)

    columns = ("offset", "member_id", "delivery_count", "ack_name", "ack_error", "held_us")
    assert rows.orderBy("offset", "acquired_ts").select(*columns).collect() == [
        # The release counts, not the acceptance that the broker refused later.
        (0, "m", 1, "release", None, 4_000_000),
        (0, "n", 2, "accept", None, 3_000_000),
        (1, "m", 1, None, None, None),
    ]


def test_a_lock_of_hours_is_no_overflow(spark: SparkSession) -> None:
    hours = acquired_row(0, 0) | {"lock_timeout_ms": 3_600_000}
    longest = acquired_row(1, 1) | {"lock_timeout_ms": 2**31 - 1}

    rows = run_attempts(spark, [hours, longest], [acked(0, 1, "accept", at_s=36)]).orderBy("offset").collect()

    assert [row["lock_share"] for row in rows] == [0.01, pytest.approx(36 / 2147483.647)]


def test_a_renewal_restarts_the_lock_and_a_refused_one_does_not(spark: SparkSession) -> None:
    words = [
        acked(0, 0, "renew", at_s=8),
        acked(0, 0, "accept", at_s=13),
        acked(1, 1, "renew", at_s=8, error=121),
        acked(1, 1, "accept", at_s=13),
    ]

    rows = run_attempts(spark, [acquired_row(0, 1)], words).orderBy("offset")

    expected = [(1, 0.5, 13_000_000), (0, 1.3, 13_000_000)]
    assert rows.select("renewals", "lock_share", "held_us").collect() == expected


def test_an_acknowledgement_of_a_delivery_before_the_capture_has_no_held_time(spark: SparkSession) -> None:
    rows = run_attempts(spark, [], [acked(5, 5, "accept", at_s=3)])

    assert rows.select("offset", "acquired_ts", "ack_name", "held_us").collect() == [(5, None, "accept", None)]


def test_lock_times_are_computed_for_ranges_and_summed_by_member(spark: SparkSession) -> None:
    words = [acked(0, 5, "accept", at_s=2), acked(6, 9, "accept", at_s=12), acked(20, 29, "reject", member_id="n")]

    runs = analyses.lock_times(run_attempts(spark, [acquired_row(0, 9), acquired_row(20, 29, member="n")], words))
    results = [(row["first_offset"], row["last_offset"], row["records"], row["held_us"]) for row in runs.collect()]
    use = {row["member_id"]: row for row in analyses.lock_use(runs).collect()}

    assert sorted(results) == [(0, 5, 6, 2_000_000), (6, 9, 4, 12_000_000), (20, 29, 10, 1_000_000)]
    assert (use["m"]["records"], use["m"]["late"], use["m"]["max_us"]) == (10, 4, 12_000_000)
    assert (use["m"]["ranges"], use["n"]["ranges"]) == (2, 1)
    assert (use["n"]["records"], use["n"]["late"], use["n"]["lock_timeout_ms"]) == (10, 0, 10_000)


def test_a_record_has_a_row_for_each_delivery(spark: SparkSession) -> None:
    handed_out = [acquired_row(0, 9), acquired_row(4, 4, 2, at_s=5, member="n"), acquired_row(4, 4, 3, at_s=9)]
    attempts = run_attempts(spark, handed_out, [acked(4, 4, "release", at_s=3)])
    chosen = frame(spark, "records", [{"topic": "t", "partition": 0, "offset": 4}]).selectExpr("'g' AS group_id", "*")

    rows = analyses.delivery_histories(attempts, chosen).orderBy("acquired_ts")

    expected = [("m", 1, "release"), ("n", 2, None), ("m", 3, None)]
    assert rows.select("member_id", "delivery_count", "ack_name").collect() == expected


def test_a_late_acknowledgement_is_a_breach_with_its_times(spark: SparkSession) -> None:
    words = [acked(0, 4, "accept", at_s=13, file="w.pcap", req_packet=41), acked(5, 9, "accept", at_s=9.9)]

    rows = analyses.late_acknowledgements(run_attempts(spark, [acquired_row(0, 9)], words))

    assert rows.select("rule", "file", "req_packet", "detail").collect() == [
        ("share-ack-lock-expired", "w.pcap", 41, "5 of t-0 from offset 0 on, held for 13000 ms with a lock of 10000 ms")
    ]


def test_acknowledgements_are_counted_in_records_with_refused_ones_separate(spark: SparkSession) -> None:
    acks = [acked(0, 4, "accept"), acked(5, 5, "accept"), acked(6, 7, "reject"), acked(8, 9, "accept", error=121)]

    counts = analyses.acknowledgements(frame(spark, "share_acks", acks)).select("ack_name", "refused", "records")

    assert set(counts.collect()) == {("accept", False, 6), ("reject", False, 2), ("accept", True, 2)}
