"""What a leader knows of one follower."""

from __future__ import annotations

from mockbroker.state.replication.follower_progress import UNKNOWN_OFFSET, FollowerProgress


def test_a_follower_that_reads_what_was_there_at_its_previous_fetch_was_caught_up_then() -> None:
    progress = FollowerProgress()

    progress.record_fetch(0, log_start_offset=0, leader_end_offset=10, now_ms=100)
    progress.record_fetch(10, log_start_offset=0, leader_end_offset=20, now_ms=200)

    assert progress.caught_up_ms == 100
    assert progress.end_offset == 10


def test_a_follower_that_falls_behind_keeps_its_time() -> None:
    progress = FollowerProgress()

    progress.record_fetch(10, log_start_offset=0, leader_end_offset=10, now_ms=100)
    progress.record_fetch(11, log_start_offset=3, leader_end_offset=30, now_ms=200)
    progress.record_fetch(12, log_start_offset=3, leader_end_offset=40, now_ms=300)

    assert progress.caught_up_ms == 200 - 100
    assert progress.log_start_offset == 3
    assert not progress.is_caught_up(40, now_ms=1_101, lag_max_ms=1_000)


def test_a_follower_with_all_records_is_caught_up_however_long_it_has_not_fetched() -> None:
    progress = FollowerProgress(end_offset=5)

    assert progress.is_caught_up(5, now_ms=10**9, lag_max_ms=1)


def test_an_epoch_of_the_same_leader_keeps_the_end_and_one_of_a_new_leader_forgets_it() -> None:
    progress = FollowerProgress(log_start_offset=1, end_offset=5, caught_up_ms=7, fetched_ms=8, leader_end_offset=6)

    progress.start_epoch(9, is_in_sync=True, is_new_leader=False, now_ms=50)
    kept = (progress.end_offset, progress.leader_end_offset, progress.fetched_ms, progress.caught_up_ms)
    progress.start_epoch(9, is_in_sync=False, is_new_leader=True, now_ms=60)
    forgotten = (progress.end_offset, progress.leader_end_offset, progress.fetched_ms, progress.caught_up_ms)

    assert kept == (5, 9, 50, 50)
    assert forgotten == (UNKNOWN_OFFSET, UNKNOWN_OFFSET, 0, 0)
