"""Acquiring: the worked tables of share-semantics 1.2, 1.5, 1.6, 2.5, 2.6 and 2.10, each under its number."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from tests.mockbroker.state.share_kit import ACCEPT, GAP, RELEASE, Leader, settings, spans, stored


def test_1_2_a_record_released_each_time_is_archived_after_the_fifth_delivery() -> None:
    leader = Leader(spans("0-0"))
    deliveries = []
    for _ in range(5):
        deliveries += leader.fetch()
        assert leader.ack("m1", (0, 0, [RELEASE])) == 0

    assert deliveries == ["0-0/1", "0-0/2", "0-0/3", "0-0/4", "0-0/5"]
    assert leader.fetch() == []
    assert leader.start == 1


def test_1_2_lock_expiry_counts_like_release() -> None:
    leader = Leader(spans("0-0"))
    deliveries = []
    for _ in range(5):
        deliveries += leader.fetch()
        assert leader.advance(29_999) == 0
        assert leader.advance(1) == 1
        leader.finish()

    assert deliveries == ["0-0/1", "0-0/2", "0-0/3", "0-0/4", "0-0/5"]
    assert leader.start == 1


def _released_after_each_delivery(leader: Leader, fetches: int) -> list[str]:
    result = []
    for _ in range(fetches):
        acquired = leader.fetch()
        result.append(" ".join(acquired))
        for run in acquired:
            first, last = (int(part) for part in run.partition("/")[0].split("-"))
            assert leader.ack("m1", (first, last, [RELEASE])) == 0
    return result


def test_1_5_the_fifteen_fetches_with_a_limit_of_five() -> None:
    leader = Leader(spans("0-9"))

    assert _released_after_each_delivery(leader, 16) == [
        *("0-9/1", "0-9/2", "0-9/3", "0-4/4"),
        *("0-0/5", "1-1/5", "2-2/5", "3-3/5", "4-4/5"),
        "5-9/4",
        *("5-5/5", "6-6/5", "7-7/5", "8-8/5", "9-9/5"),
        "",
    ]
    assert leader.start == 10


def test_1_5_a_second_fetch_gets_the_throttled_rest() -> None:
    leader = Leader(spans("0-9"))
    _released_after_each_delivery(leader, 3)

    assert leader.fetch("m1") == ["0-4/4"]
    assert leader.fetch("m2") == ["5-9/4"]


def test_1_5_a_limit_of_two_never_throttles() -> None:
    leader = Leader(spans("0-9"), config=settings(delivery_limit=2))

    assert _released_after_each_delivery(leader, 3) == ["0-9/1", "0-9/2", ""]
    assert leader.start == 10


def test_1_5_a_limit_of_three_isolates_the_last_attempt() -> None:
    leader = Leader(spans("0-3"), config=settings(delivery_limit=3))

    assert _released_after_each_delivery(leader, 7) == ["0-3/1", "0-3/2", "0-0/3", "1-1/3", "2-2/3", "3-3/3", ""]


def test_1_5_a_limit_of_four_halves_before_it_isolates() -> None:
    leader = Leader(spans("0-9"), config=settings(delivery_limit=4))

    assert _released_after_each_delivery(leader, 5) == ["0-9/1", "0-9/2", "0-4/3", "0-0/4", "1-1/4"]


def test_1_5_a_limit_of_ten_gives_caps_of_250_125_62_31_then_alone() -> None:
    leader = Leader(spans("0-499"), config=settings(delivery_limit=10))

    assert _released_after_each_delivery(leader, 10) == [
        *(f"0-499/{count}" for count in range(1, 6)),
        "0-249/6",
        "0-124/7",
        "0-61/8",
        "0-30/9",
        "0-0/10",
    ]


def test_1_5_the_acquisition_stops_before_a_throttled_second_batch() -> None:
    leader = Leader(spans("0-4", "5-9"))
    leader.fetch(batch_size=5, max_records=10)
    for _ in range(2):
        leader.ack("m1", (5, 9, [RELEASE]))
        assert leader.fetch()[0].startswith("5-9")
    leader.ack("m1", (0, 4, [RELEASE]), (5, 9, [RELEASE]))

    assert leader.fetch() == ["0-4/2"]
    assert leader.fetch() == ["5-6/4"]


TABLE_1_6 = [
    (0, 15, 10, "0-9/1 10-19/1"),
    (0, 15, 5, "0-9/1 10-19/1"),
    (0, 15, 12, "0-19/1"),
    (0, 1, 500, "0-9/1"),
    (0, 500, 500, "0-29/1"),
    (1, 15, 1, "0-14/1"),
    (1, 10, 500, "0-9/1"),
    (1, 30, 500, "0-29/1"),
]


@pytest.mark.parametrize(("mode", "max_records", "batch_size", "acquired"), TABLE_1_6)
def test_1_6_modes_and_limits(mode: int, max_records: int, batch_size: int, acquired: str) -> None:
    leader = Leader(spans("0-9", "10-19", "20-29"))

    assert " ".join(leader.fetch(mode=mode, max_records=max_records, batch_size=batch_size)) == acquired


def test_1_6_a_strict_limit_leaves_the_tail_available_with_count_zero() -> None:
    leader = Leader(spans("0-9", "10-19", "20-29"))
    leader.fetch(mode=1, max_records=15)

    assert leader.states(14, 20) == "qvvvvvv"
    assert leader.partition.end_offset == 19
    assert leader.fetch("m2", mode=1, max_records=15) == ["15-19/1", "20-29/1"]


def test_1_6_a_batch_size_of_zero_gives_the_empty_piece_in_front() -> None:
    leader = Leader(spans("0-3", "4-7"))

    assert leader.fetch(batch_size=0) == ["0--1/1", "0-3/1", "4-7/1"]
    assert leader.ack("m1", (0, 7, [ACCEPT])) == 0
    assert leader.start == 8


def test_1_6_a_batch_size_of_zero_means_nothing_to_a_strict_limit() -> None:
    leader = Leader(spans("0-3"))

    assert leader.fetch(mode=1, batch_size=0, max_records=2) == ["0-1/1"]
    assert leader.fetch(mode=1, batch_size=-1, max_records=2) == ["2-3/1"]


@pytest.mark.parametrize("max_records", [0, -1])
def test_1_6_no_records_wanted_acquires_none(max_records: int) -> None:
    leader = Leader(spans("0-3"))

    assert leader.fetch(max_records=max_records) == []
    assert leader.states(0, 3) == "vvvv"


def test_1_6_a_cached_batch_is_acquired_whole_beyond_the_soft_limit_and_cut_by_the_strict_one() -> None:
    leader = Leader(spans("0-9"))
    leader.fetch()
    leader.ack("m1", (0, 9, [RELEASE]))
    assert leader.fetch(max_records=1) == ["0-9/2"]
    leader.ack("m1", (0, 9, [RELEASE]))

    assert leader.fetch(max_records=4, mode=1) == ["0-3/3"]


def test_2_2_the_next_fetch_begins_at_the_lowest_record_that_came_back() -> None:
    leader = Leader(spans("0-9", "10-19"))
    leader.fetch(batch_size=10)
    assert leader.partition.next_fetch_offset() == 20
    leader.ack("m1", (12, 12, [RELEASE]))
    assert leader.partition.next_fetch_offset() == 12
    leader.ack("m1", (3, 3, [RELEASE]))

    assert leader.partition.next_fetch_offset() == 3
    assert leader.fetch("m2") == ["3-3/2", "12-12/2"]
    assert leader.partition.next_fetch_offset() == 20


def test_2_4_reading_a_half_finished_record_batch_again_acquires_only_the_rest() -> None:
    leader = Leader(spans("0-9"), start=5)

    assert leader.fetch() == ["5-9/1"]
    assert leader.start == 5


def test_2_5_the_gap_window_is_fetched_and_the_start_waits_for_it() -> None:
    leader = Leader(spans("10-20", "21-30", "31-40"), start=10, batches=stored("21-30:2/1"))

    assert leader.partition.next_fetch_offset() == 10
    assert leader.fetch() == ["10-20/1", "31-40/1"]
    assert leader.start == 10
    assert leader.ack("m1", (10, 20, [ACCEPT])) == 0
    assert leader.start == 31


def test_2_5_a_hole_between_stored_batches_is_fetched_in_record_limit_mode_too() -> None:
    leader = Leader(
        spans("10-14", "15-19", "20-24", "25-29"), start=10, batches=stored("10-14:2/1", "18-19:0/2", "25-29:2/1")
    )

    assert leader.start == 15
    assert leader.fetch(mode=1, max_records=2) == ["15-16/1"]
    assert leader.fetch(mode=1, max_records=2) == ["17-17/1", "18-18/3"]


def test_2_5_the_gap_window_closes_when_the_end_moves() -> None:
    leader = Leader(spans("0-9", "10-19", "20-29"), batches=stored("10-19:0/1"))
    assert leader.fetch() == ["0-9/1", "10-19/2", "20-29/1"]

    assert not leader.partition.gap_is_open
    assert leader.partition.next_fetch_offset() == 30


def test_2_6_the_span_counts_and_is_rounded_up_to_a_record_batch() -> None:
    leader = Leader(spans("0-149", "150-249", "250-349"), config=settings(in_flight_limit=200))
    assert leader.fetch(max_records=150) == ["0-149/1"]

    assert leader.fetch() == ["150-249/1"]
    assert leader.partition.in_flight_count == 250
    assert not leader.partition.can_acquire()
    leader.ack("m1", (20, 49, [ACCEPT]))
    assert not leader.partition.can_acquire()
    leader.ack("m1", (0, 19, [ACCEPT]))
    assert leader.partition.in_flight_count == 200
    assert not leader.partition.can_acquire()
    leader.ack("m1", (50, 50, [ACCEPT]))
    assert leader.fetch() == ["250-349/1"]


def test_2_6_records_that_came_back_are_delivered_at_the_limit_but_nothing_new() -> None:
    leader = Leader(spans("0-99", "100-199", "200-299"), config=settings(in_flight_limit=200))
    leader.fetch(max_records=200, batch_size=100)
    leader.ack("m1", (150, 199, [RELEASE]))

    assert leader.fetch() == ["150-199/2"]
    assert leader.fetch() == []


def test_2_6_the_default_limit_stops_at_two_thousand() -> None:
    leader = Leader(spans(*(f"{n}-{n + 499}" for n in range(0, 4000, 500))))

    assert leader.fetch(max_records=1600) == ["0-499/1", "500-999/1", "1000-1499/1", "1500-1999/1"]
    assert leader.fetch(max_records=1600) == []
    leader.ack("m1", (0, 0, [ACCEPT]))
    assert leader.fetch(max_records=1600) == ["2000-2499/1"]


def test_2_7_records_that_compaction_took_are_archived_once_the_log_skips_them() -> None:
    leader = Leader(spans("0-4", "5-9"))
    leader.fetch(batch_size=5)
    leader.ack("m1", (0, 9, [RELEASE]))
    leader.log = spans("5-9")

    assert leader.fetch() == ["5-9/2"]
    assert leader.states(0, 9) == "xxxxxqqqqq"
    assert leader.complete_count == 5


def test_2_7_a_full_window_that_compaction_took_whole_fails_a_fetch_and_stays_where_it_is() -> None:
    """Pinned by the conversation share-compaction-full-window."""
    leader = Leader(spans("0-99"), config=settings(in_flight_limit=100))
    leader.fetch()
    leader.ack("m1", (0, 99, [RELEASE]))
    leader.log = spans("100-100")

    with pytest.raises(KafkaError) as refused:
        leader.fetch()

    assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert leader.states(0, 99) == "x" * 100
    assert leader.fetch() == []
    assert leader.start == 0


def test_2_10_aborted_records_are_archived_and_left_out() -> None:
    leader = Leader(spans("0-2", "3-3", "4-6", "7-7", "8-9", "10-10"))

    assert leader.fetch(aborted=spans("4-6")) == ["0-3/1", "7-10/1"]
    assert leader.complete_count == 3
    assert leader.ack("m1", (0, 3, [ACCEPT, ACCEPT, ACCEPT, GAP])) == 0
    assert leader.last_write()[:2] == (0, 7)
    assert leader.start == 7
    assert leader.ack("m1", (4, 4, [ACCEPT])) == 0


def test_2_10_aborted_records_count_against_a_strict_limit() -> None:
    leader = Leader(spans("0-2", "3-3", "4-7"))

    aborted = spans("0-2")
    assert leader.fetch(mode=1, max_records=2, aborted=aborted) == []
    assert leader.fetch(mode=1, max_records=2, aborted=aborted) == ["3-3/1"]
    assert leader.fetch(mode=1, max_records=2) == ["4-5/1"]


def test_2_10_an_aborted_batch_that_begins_below_the_log_start_breaks_the_fetch_and_stays_acquired() -> None:
    leader = Leader(spans("0-4", "5-5"))
    leader.partition.move_log_start(2, now_ms=0)

    with pytest.raises(KafkaError) as refused:
        leader.fetch(aborted=spans("0-4"))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert leader.fetch() == []
    assert leader.ack("m1", (2, 5, [ACCEPT])) == 0


def test_a_partition_that_is_not_active_gives_nothing() -> None:
    leader = Leader(spans("0-9"))
    leader.partition.fence()

    assert leader.fetch() == []
