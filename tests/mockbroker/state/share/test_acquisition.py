"""Acquisition: the worked tables of share-semantics 1.2, 1.6, 2.4, 2.6, 2.7 and 2.10, each under its number."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from tests.support.brokers.share_partitions import ACCEPT, GAP, RELEASE, Leader, holding, settings, spans
from tests.support.raises_code import raises_code


@pytest.mark.parametrize("expires", [False, True])
def test_1_2_a_record_that_is_released_or_expires_is_archived_after_the_fifth_delivery(expires: bool) -> None:
    leader = Leader(spans("0-0"))
    deliveries = []
    for _ in range(5):
        deliveries += leader.fetch()
        if expires:
            assert (leader.advance(29_999), leader.advance(1)) == (0, 1)
            leader.complete_writes()
        else:
            assert leader.acknowledge("m1", (0, 0, [RELEASE])) == 0

    assert deliveries == ["0-0/1", "0-0/2", "0-0/3", "0-0/4", "0-0/5"]
    assert leader.fetch() == []
    assert leader.start == 1


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
    assert leader.acknowledge("m1", (0, 7, [ACCEPT])) == 0
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
    leader = holding("0-9")
    leader.acknowledge("m1", (0, 9, [RELEASE]))
    assert leader.fetch(max_records=1) == ["0-9/2"]
    leader.acknowledge("m1", (0, 9, [RELEASE]))

    assert leader.fetch(max_records=4, mode=1) == ["0-3/3"]


def test_2_4_reading_a_half_finished_record_batch_again_acquires_only_the_rest() -> None:
    leader = Leader(spans("0-9"), start=5)

    assert leader.fetch() == ["5-9/1"]
    assert leader.start == 5


def test_2_6_the_span_counts_and_is_rounded_up_to_a_record_batch() -> None:
    leader = Leader(spans("0-149", "150-249", "250-349"), config=settings(in_flight_limit=200))
    assert leader.fetch(max_records=150) == ["0-149/1"]

    assert leader.fetch() == ["150-249/1"]
    assert leader.partition.window.in_flight_count == 250
    assert not leader.partition.can_acquire()
    leader.acknowledge("m1", (20, 49, [ACCEPT]))
    assert not leader.partition.can_acquire()
    leader.acknowledge("m1", (0, 19, [ACCEPT]))
    assert leader.partition.window.in_flight_count == 200
    assert not leader.partition.can_acquire()
    leader.acknowledge("m1", (50, 50, [ACCEPT]))
    assert leader.fetch() == ["250-349/1"]


def test_2_6_records_that_came_back_are_delivered_at_the_limit_but_nothing_new() -> None:
    leader = Leader(spans("0-99", "100-199", "200-299"), config=settings(in_flight_limit=200))
    leader.fetch(max_records=200, batch_size=100)
    leader.acknowledge("m1", (150, 199, [RELEASE]))

    assert leader.fetch() == ["150-199/2"]
    assert leader.fetch() == []


def test_2_6_the_default_limit_stops_at_two_thousand() -> None:
    leader = Leader(spans(*(f"{n}-{n + 499}" for n in range(0, 4000, 500))))

    assert leader.fetch(max_records=1600) == ["0-499/1", "500-999/1", "1000-1499/1", "1500-1999/1"]
    assert leader.fetch(max_records=1600) == []
    leader.acknowledge("m1", (0, 0, [ACCEPT]))
    assert leader.fetch(max_records=1600) == ["2000-2499/1"]


def test_2_7_records_that_compaction_took_are_archived_once_the_log_skips_them() -> None:
    leader = Leader(spans("0-4", "5-9"))
    leader.fetch(batch_size=5)
    leader.acknowledge("m1", (0, 9, [RELEASE]))
    leader.log = spans("5-9")

    assert leader.fetch() == ["5-9/2"]
    assert leader.states(0, 9) == "xxxxxqqqqq"
    assert leader.complete_count == 5


def test_2_7_a_full_window_removed_by_compaction_fails_a_fetch_and_stays() -> None:
    """Pinned by the conversation share-compaction-full-window."""
    leader = holding("0-99", config=settings(in_flight_limit=100))
    leader.acknowledge("m1", (0, 99, [RELEASE]))
    leader.log = spans("100-100")

    with raises_code(ErrorCode.UNKNOWN_SERVER_ERROR):
        leader.fetch()
    assert leader.states(0, 99) == "x" * 100
    assert leader.fetch() == []
    assert leader.start == 0


def test_2_10_aborted_records_are_archived_and_left_out() -> None:
    leader = Leader(spans("0-2", "3-3", "4-6", "7-7", "8-9", "10-10"))

    assert leader.fetch(aborted=spans("4-6")) == ["0-3/1", "7-10/1"]
    assert leader.complete_count == 3
    assert leader.acknowledge("m1", (0, 3, [ACCEPT, ACCEPT, ACCEPT, GAP])) == 0
    assert leader.last_write()[:2] == (0, 7)
    assert leader.start == 7
    assert leader.acknowledge("m1", (4, 4, [ACCEPT])) == 0


def test_2_10_aborted_records_count_against_a_strict_limit() -> None:
    leader = Leader(spans("0-2", "3-3", "4-7"))

    aborted = spans("0-2")
    assert leader.fetch(mode=1, max_records=2, aborted=aborted) == []
    assert leader.fetch(mode=1, max_records=2, aborted=aborted) == ["3-3/1"]
    assert leader.fetch(mode=1, max_records=2) == ["4-5/1"]


def test_2_10_an_aborted_batch_below_the_log_start_fails_the_fetch_and_stays_acquired() -> None:
    leader = Leader(spans("0-4", "5-5"))
    leader.partition.window.move_log_start(2, now_ms=0)

    with raises_code(ErrorCode.UNKNOWN_SERVER_ERROR):
        leader.fetch(aborted=spans("0-4"))
    assert leader.fetch() == []
    assert leader.acknowledge("m1", (2, 5, [ACCEPT])) == 0


def test_a_partition_that_is_not_active_gives_nothing() -> None:
    leader = Leader(spans("0-9"))
    leader.partition.fence()

    assert leader.fetch() == []
