"""Deliveries and the words that end them: time held, locks, renewals, lives of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.spark import analyses
from tests.kwire.spark.frames import Row, acked, acquired, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def given(first: int, last: int, count: int = 1, *, at_s: float = 0.0, member: str = "m") -> Row:
    """Records handed out with a lock of ten seconds."""
    return acquired(
        first, last, count, at_s=at_s, member_id=member, lock_timeout_ms=10_000, file="a.pcap", resp_packet=7
    )


def tried(spark: SparkSession, given_out: list[Row], words: list[Row]) -> DataFrame:
    return analyses.attempts(frame(spark, "share_acquired", given_out), frame(spark, "share_acks", words))


def test_a_delivery_is_ended_by_the_first_final_word_of_its_own_member(spark: SparkSession) -> None:
    words = [
        acked(0, 0, "release", at_s=4),
        acked(0, 0, "accept", at_s=8, member_id="n"),
        acked(0, 0, "accept", at_s=9, error=121, error_name="INVALID_RECORD_STATE"),
    ]

    rows = tried(spark, [given(0, 1), given(0, 0, 2, at_s=5, member="n")], words).orderBy("offset", "acquired_ts")

    assert [
        (row["offset"], row["member_id"], row["delivery_count"], row["ack_name"], row["ack_error"], row["held_us"])
        for row in rows.collect()
    ] == [
        # The release counts, not the acceptance that the broker refused later.
        (0, "m", 1, "release", None, 4_000_000),
        (0, "n", 2, "accept", None, 3_000_000),
        (1, "m", 1, None, None, None),
    ]


def test_a_lock_of_hours_is_no_overflow(spark: SparkSession) -> None:
    hours = given(0, 0) | {"lock_timeout_ms": 3_600_000}
    longest = given(1, 1) | {"lock_timeout_ms": 2**31 - 1}

    rows = tried(spark, [hours, longest], [acked(0, 1, "accept", at_s=36)]).orderBy("offset").collect()

    assert [row["lock_share"] for row in rows] == [0.01, pytest.approx(36 / 2147483.647)]


def test_a_renewal_restarts_the_lock_and_a_refused_one_does_not(spark: SparkSession) -> None:
    words = [
        acked(0, 0, "renew", at_s=8),
        acked(0, 0, "accept", at_s=13),
        acked(1, 1, "renew", at_s=8, error=121),
        acked(1, 1, "accept", at_s=13),
    ]

    rows = tried(spark, [given(0, 1)], words).orderBy("offset").collect()

    assert [(row["renewals"], row["lock_share"], row["held_us"]) for row in rows] == [
        (1, 0.5, 13_000_000),
        (0, 1.3, 13_000_000),
    ]


def test_a_word_on_a_delivery_before_the_capture_has_no_time_held(spark: SparkSession) -> None:
    row = tried(spark, [], [acked(5, 5, "accept", at_s=3)]).collect()[0]

    assert (row["offset"], row["acquired_ts"], row["ack_name"], row["held_us"]) == (5, None, "accept", None)


def test_lock_times_are_told_for_runs_and_summed_up_by_member(spark: SparkSession) -> None:
    words = [acked(0, 5, "accept", at_s=2), acked(6, 9, "accept", at_s=12), acked(20, 29, "reject", member_id="n")]

    runs = analyses.lock_times(tried(spark, [given(0, 9), given(20, 29, member="n")], words))
    found = [(row["first_offset"], row["last_offset"], row["records"], row["held_us"]) for row in runs.collect()]
    use = {row["member_id"]: row for row in analyses.lock_use(runs).collect()}

    assert sorted(found) == [(0, 5, 6, 2_000_000), (6, 9, 4, 12_000_000), (20, 29, 10, 1_000_000)]
    assert (use["m"]["records"], use["m"]["late"], use["m"]["max_us"]) == (10, 4, 12_000_000)
    assert (use["n"]["records"], use["n"]["late"], use["n"]["lock_timeout_ms"]) == (10, 0, 10_000)


def test_the_life_of_a_record_has_a_line_for_each_delivery(spark: SparkSession) -> None:
    handed_out = [given(0, 9), given(4, 4, 2, at_s=5, member="n"), given(4, 4, 3, at_s=9)]
    attempts = tried(spark, handed_out, [acked(4, 4, "release", at_s=3)])
    chosen = frame(spark, "records", [{"topic": "t", "partition": 0, "offset": 4}]).selectExpr(
        "'g' AS group_id", "topic", "partition", "offset"
    )

    rows = analyses.life_lines(attempts, chosen).orderBy("acquired_ts").collect()

    assert [(row["member_id"], row["delivery_count"], row["ack_name"]) for row in rows] == [
        ("m", 1, "release"),
        ("n", 2, None),
        ("m", 3, None),
    ]


def test_a_late_word_breaks_a_rule_and_says_how_late_it_was(spark: SparkSession) -> None:
    words = [acked(0, 4, "accept", at_s=13, file="w.pcap", req_packet=41), acked(5, 9, "accept", at_s=9.9)]

    rows = analyses.late_acknowledgements(tried(spark, [given(0, 9)], words)).collect()

    assert [(row["rule"], row["file"], row["req_packet"], row["detail"]) for row in rows] == [
        (
            "late acknowledgement",
            "w.pcap",
            41,
            "5 of t-0 from offset 0 on, held for 13000 ms with a lock of 10000 ms",
        )
    ]
