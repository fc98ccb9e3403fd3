"""The in-flight window: share-semantics 2.2, 2.5, 2.8 and 2.9, each example under its number."""

from __future__ import annotations

from tests.support.brokers.share_partitions import ACCEPT, RELEASE, Leader, holding, spans, stored_batches


def test_2_2_the_next_fetch_starts_at_the_lowest_released_record() -> None:
    leader = Leader(spans("0-9", "10-19"))
    leader.fetch(batch_size=10)
    assert leader.partition.next_fetch_offset() == 20
    leader.acknowledge("m1", (12, 12, [RELEASE]))
    assert leader.partition.next_fetch_offset() == 12
    leader.acknowledge("m1", (3, 3, [RELEASE]))

    assert leader.partition.next_fetch_offset() == 3
    assert leader.fetch("m2") == ["3-3/2", "12-12/2"]
    assert leader.partition.next_fetch_offset() == 20


def test_2_5_the_gap_window_is_fetched_and_the_start_waits_for_it() -> None:
    leader = Leader(spans("10-20", "21-30", "31-40"), start=10, batches=stored_batches("21-30:2/1"))

    assert leader.partition.next_fetch_offset() == 10
    assert leader.fetch() == ["10-20/1", "31-40/1"]
    assert leader.start == 10
    assert leader.acknowledge("m1", (10, 20, [ACCEPT])) == 0
    assert leader.start == 31


def test_2_5_a_gap_between_stored_batches_is_fetched_in_record_limit_mode_too() -> None:
    batches = stored_batches("10-14:2/1", "18-19:0/2", "25-29:2/1")
    leader = Leader(spans("10-14", "15-19", "20-24", "25-29"), start=10, batches=batches)

    assert leader.start == 15
    assert leader.fetch(mode=1, max_records=2) == ["15-16/1"]
    assert leader.fetch(mode=1, max_records=2) == ["17-17/1", "18-18/3"]


def test_2_5_the_gap_window_closes_when_the_end_moves() -> None:
    leader = Leader(spans("0-9", "10-19", "20-29"), batches=stored_batches("10-19:0/1"))
    assert leader.fetch() == ["0-9/1", "10-19/2", "20-29/1"]

    assert not leader.partition.window.gap_is_open
    assert leader.partition.next_fetch_offset() == 30


def test_2_8_the_start_moves_past_all_final_records() -> None:
    leader = Leader(spans("0-9", "10-19"))
    leader.fetch(batch_size=10)
    leader.acknowledge("m1", (10, 19, [ACCEPT]))
    assert (leader.start, leader.complete_count) == (0, 10)
    leader.acknowledge("m1", (0, 4, [ACCEPT]))
    assert (leader.start, leader.complete_count) == (5, 10)
    leader.acknowledge("m1", (5, 9, [RELEASE]))
    assert leader.start == 5
    assert leader.partition.next_fetch_offset() == 5
    assert leader.fetch() == ["5-9/2"]
    leader.acknowledge("m1", (5, 9, [ACCEPT]))

    assert (leader.start, leader.partition.end_offset, len(leader.partition.window)) == (20, 20, 0)


def test_2_8_gaps_of_the_log_are_skipped() -> None:
    leader = Leader(spans("0-4", "8-9"))
    leader.fetch(read=1)
    leader.fetch()
    assert leader.acknowledge("m1", (0, 4, [ACCEPT])) == 0

    assert leader.start == 8


def test_2_9_the_log_start_archives_available_records() -> None:
    leader = Leader(spans("0-9", "10-19"))
    leader.fetch(batch_size=10)
    leader.acknowledge("m1", (0, 9, [RELEASE]))
    leader.acknowledge("m1", (10, 12, [ACCEPT]))
    leader.partition.window.move_log_start(12, now_ms=0)

    assert leader.start == 12
    assert leader.complete_count == 1
    assert leader.acknowledge("m1", (13, 19, [ACCEPT])) == 0
    assert (leader.start, leader.partition.end_offset) == (20, 20)


def test_2_9_an_empty_window_starts_at_the_log_start() -> None:
    leader = Leader(spans("0-9", "10-19"))
    leader.partition.window.move_log_start(7, now_ms=0)

    assert (leader.start, leader.partition.end_offset) == (7, 7)
    assert leader.fetch() == ["7-19/1"]


def test_2_9_a_log_start_behind_ours_changes_nothing() -> None:
    leader = Leader(spans("0-9"), start=5)
    leader.partition.window.move_log_start(5, now_ms=0)

    assert (leader.start, leader.partition.end_offset) == (5, 5)


def test_2_9_records_held_below_the_start_are_archived_when_their_lock_ends() -> None:
    leader = holding("0-9")
    leader.partition.window.move_log_start(4, now_ms=0)
    assert leader.advance(30_000) == 10
    leader.complete_writes()

    assert leader.complete_count == 0
    assert leader.last_write()[2][3:5] == ["3-3:4/1", "4-4:0/1"]


def test_2_9_acquisition_starts_below_the_log_start_while_an_older_batch_is_cached() -> None:
    leader = Leader(spans("0-4", "5-9", "10-19"))
    leader.fetch(read=1)
    leader.partition.window.move_log_start(8, now_ms=0)
    assert leader.acknowledge("m1", (0, 4, [ACCEPT])) == 0

    assert leader.fetch(read=1) == ["5-9/1"]
