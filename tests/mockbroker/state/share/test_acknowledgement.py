"""Acknowledgement: share-semantics 1.3, 1.4, 2.1, 2.12, 3 and 4.6, each table and example under its number."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.share.acknowledgement import (
    AcknowledgementBatch,
    AcknowledgementResult,
    BrokenRequestError,
    check_structure,
)
from mockbroker.state.share.share_partition import PartitionStatus
from tests.support.brokers.share_partitions import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Leader,
    holding,
    settings,
    spans,
    stored_batches,
)


def test_1_3_a_split_batch_keeps_the_time_that_is_left() -> None:
    leader = holding("0-4")
    leader.advance(10_000)
    leader.acknowledge("m1", (0, 0, [ACCEPT]))

    assert leader.advance(19_999) == 0
    assert leader.advance(1) == 4


def test_1_3_expiry_wakes_and_is_written_even_if_the_write_fails() -> None:
    leader = holding("0-4")
    leader.advance(30_000)

    assert leader.wakes == 1
    assert leader.last_write() == (0, 0, ["0-4:0/1"])
    leader.complete_writes(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert leader.states(0, 4) == "vvvvv"


def test_1_3_a_changed_duration_holds_for_new_locks_only() -> None:
    config = settings()
    leader = Leader(spans("0-4", "5-9"), config=config)
    leader.fetch(max_records=5)
    config["share.record.lock.duration.ms"] = 1_000
    leader.fetch(max_records=5)

    assert leader.advance(1_000) == 5
    assert leader.states(0, 9) == "qqqqqvvvvv"


def test_1_3_a_lock_that_ran_out_during_a_failed_write_leaves_the_record_available() -> None:
    leader = holding("0-4")
    leader.start_acknowledgement("m1", (0, 4, [ACCEPT]))
    assert leader.advance(30_000) == 0
    leader.complete_writes(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    assert leader.states(0, 4) == "vvvvv"
    assert leader.complete_count == 0
    assert leader.fetch("m2") == ["0-4/2"]


def test_1_3_a_lock_that_ran_out_during_a_failed_write_archives_at_the_limit() -> None:
    leader = holding("0-0", config=settings(delivery_limit=2))
    leader.acknowledge("m1", (0, 0, [RELEASE]))
    leader.fetch()
    leader.start_acknowledgement("m1", (0, 0, [ACCEPT]))
    leader.advance(30_000)
    leader.complete_writes(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    assert leader.states(0, 0) == "x"


def test_1_4_renewal_restarts_the_lock_and_writes_nothing() -> None:
    leader = holding("0-4")
    leader.advance(20_000)
    settlement = leader.start_acknowledgement("m1", (0, 4, [RENEW]))

    assert settlement == AcknowledgementResult()
    assert leader.advance(29_999) == 0
    assert leader.advance(1) == 5


def test_1_4_types_may_be_mixed_with_renewal() -> None:
    leader = holding("0-2")
    leader.advance(20_000)
    assert leader.acknowledge("m1", (0, 2, [ACCEPT, RENEW, RELEASE])) == 0

    assert leader.states(1, 2) == "qv"
    assert leader.advance(10_000) == 0
    assert leader.advance(20_000) == 1


def test_1_4_renewal_can_be_forbidden() -> None:
    config = settings()
    leader = holding("0-2", config=config)
    config["share.renew.acknowledge.enable"] = False

    assert leader.acknowledge("m1", (0, 2, [RENEW])) == 121


def test_1_4_a_renewal_already_done_stays_when_a_later_batch_fails() -> None:
    leader = Leader(spans("0-2", "3-5"))
    leader.fetch(batch_size=3)
    leader.advance(20_000)
    assert leader.acknowledge("m1", (0, 2, [RENEW]), (3, 9, [ACCEPT])) == 42

    assert leader.advance(10_000) == 3
    assert leader.states(0, 5) == "qqqvvv"


def test_2_12_writes_carry_the_start_before_the_change() -> None:
    leader = Leader(spans("0-9", "10-14"))
    leader.fetch(max_records=10)
    leader.acknowledge("m1", (0, 9, [ACCEPT]))
    assert leader.last_write() == (0, 10, ["0-9:2/1"])
    assert leader.start == 10
    leader.fetch()
    leader.acknowledge("m1", (10, 14, [ACCEPT]))

    assert leader.last_write() == (10, 5, ["10-14:2/1"])


def test_2_12_a_reload_after_the_first_write_moves_on_at_once() -> None:
    leader = Leader(start=0, batches=stored_batches("0-9:2/1"))

    assert (leader.start, leader.partition.end_offset, leader.complete_count) == (10, 10, 0)


@pytest.mark.parametrize(
    "batches", [stored_batches("3-9:2/1"), stored_batches("9-7:0/1"), stored_batches("5-4611686018427387904:0/1")]
)
def test_2_1_stored_batches_that_make_no_sense_fail_the_load(batches: list[Any]) -> None:
    leader = Leader(start=5, batches=batches)

    assert leader.partition.status is PartitionStatus.FAILED
    assert leader.partition.load_error is ErrorCode.UNKNOWN_SERVER_ERROR


STRUCTURE = [
    ([(5, 4, [1])], 2, False, 42),
    ([(0, 4, [1]), (3, 6, [1])], 2, False, 42),
    ([(0, 4, [1]), (4, 6, [1])], 2, False, None),
    ([(0, 4, [])], 2, False, 42),
    ([(0, 4, [1, 1])], 2, False, 42),
    ([(0, 0, [-1])], 2, False, 42),
    ([(0, 0, [4])], 1, True, 42),
    ([(0, 0, [5])], 2, True, 42),
    ([(0, 0, [4])], 2, False, 42),
    ([(0, 0, [4])], 2, True, None),
    ([(-1, -1, [1])], 2, False, None),
    ([(-2, -1, [1])], 2, False, 42),
]


@pytest.mark.parametrize(("batches", "version", "is_renewal", "code"), STRUCTURE)
def test_3_1_structure(batches: list[Any], version: int, is_renewal: bool, code: int | None) -> None:
    given = [AcknowledgementBatch(*batch) for batch in batches]

    assert check_structure(given, version=version, is_renewal=is_renewal) == code


def _with_states() -> Leader:
    """0-9 final and below the start, 10-14 held by m1, 15-19 split (15 accepted, the rest held), 20-24 held by m2."""
    leader = Leader(spans("0-9", "10-14", "15-19", "20-24", "30-34"))
    leader.fetch("m1", max_records=20, batch_size=5)
    leader.fetch("m2", read=1)
    leader.acknowledge("m1", (0, 9, [ACCEPT]))
    leader.acknowledge("m1", (15, 15, [ACCEPT]))
    return leader


@pytest.mark.parametrize(
    ("member", "first", "last", "code"),
    [
        ("m1", 0, 9, 0),
        ("m1", 5, 14, 0),
        ("m1", 25, 27, 42),
        ("m1", 16, 29, 42),
        ("m2", 10, 14, 121),
        ("m1", 15, 15, 121),
        ("m2", 16, 16, 121),
        ("m1", 20, 24, 121),
        ("m1", 10, 14, 0),
        ("m1", 11, 12, 0),
    ],
)
def test_3_2_state_rows(member: str, first: int, last: int, code: int) -> None:
    leader = _with_states()

    assert leader.acknowledge(member, (first, last, [ACCEPT])) == code


def test_3_2_nothing_at_or_below_the_first_offset() -> None:
    leader = Leader(spans("5-9"), start=5)
    leader.fetch()
    leader.partition.window.start_offset = 3

    assert leader.acknowledge("m1", (4, 6, [ACCEPT])) == 121


def test_3_2_an_empty_window_fails_the_whole_request() -> None:
    leader = Leader(start=10)

    with pytest.raises(BrokenRequestError):
        leader.acknowledge("m1", (5, 15, [ACCEPT]))


def test_3_2_records_that_came_back_cannot_be_acknowledged() -> None:
    leader = holding("0-9")
    leader.acknowledge("m1", (0, 9, [RELEASE]))

    assert leader.acknowledge("m1", (0, 9, [ACCEPT])) == 121


def test_3_2_gaps_of_the_log_inside_the_range_do_not_matter() -> None:
    leader = Leader(spans("0-4", "8-9"))
    leader.fetch(read=1)
    leader.fetch()

    assert leader.acknowledge("m1", (0, 9, [ACCEPT])) == 0
    assert leader.start == 10


def test_3_2_touching_batches_roll_back() -> None:
    leader = holding("0-9")

    assert leader.acknowledge("m1", (0, 4, [ACCEPT]), (4, 6, [ACCEPT])) == 121
    assert leader.states(0, 9) == "q" * 10
    assert leader.acknowledge("m1", (0, 9, [ACCEPT])) == 0


def test_3_3_records_have_no_holder_while_the_write_is_under_way() -> None:
    leader = holding("0-9")
    leader.start_acknowledgement("m1", (0, 4, [RELEASE]), (5, 9, [ACCEPT]))

    assert leader.fetch("m2") == []
    assert leader.acknowledge("m1", (0, 9, [ACCEPT])) == 121
    assert leader.start == 0


def test_3_3_a_failed_write_gives_the_records_back_to_their_holder() -> None:
    leader = holding("0-9")
    leader.start_acknowledgement("m1", (0, 9, [ACCEPT]))
    assert leader.complete_count == 10
    leader.complete_writes(ErrorCode.UNKNOWN_SERVER_ERROR)

    assert leader.complete_count == 0
    assert leader.acknowledge("m2", (0, 9, [ACCEPT])) == 121
    assert leader.acknowledge("m1", (0, 9, [ACCEPT])) == 0


def test_3_3_a_write_wakes_only_when_the_start_moved() -> None:
    leader = holding("0-9")
    leader.acknowledge("m1", (5, 9, [RELEASE]))
    assert leader.wakes == 0
    leader.acknowledge("m1", (0, 4, [ACCEPT]))

    assert leader.wakes == 1


def test_3_5_the_eleven_steps() -> None:
    leader = Leader(spans("0-9"))

    assert leader.fetch("m1") == ["0-9/1"]
    assert leader.acknowledge("m1", (0, 2, [ACCEPT])) == 0
    assert (leader.start, leader.last_write()) == (3, (0, 3, ["0-0:2/1", "1-1:2/1", "2-2:2/1"]))
    assert leader.acknowledge("m1", (3, 5, [ACCEPT, RELEASE, REJECT])) == 0
    assert (leader.start, leader.last_write()) == (4, (3, 2, ["3-3:2/1", "4-4:0/1", "5-5:4/1"]))
    assert check_structure([AcknowledgementBatch(6, 9, [1, 1])], version=2, is_renewal=False) == 42
    assert leader.acknowledge("m2", (6, 9, [ACCEPT])) == 121
    assert leader.acknowledge("m1", (4, 6, [ACCEPT])) == 121
    assert leader.acknowledge("m1", (0, 1, [ACCEPT])) == 0
    assert leader.acknowledge("m1", (8, 12, [ACCEPT])) == 42
    assert leader.fetch("m2") == ["4-4/2"]
    assert leader.acknowledge("m1", (6, 9, [GAP])) == 0
    assert leader.start == 4
    assert leader.last_write() == (4, 5, ["6-6:4/1", "7-7:4/1", "8-8:4/1", "9-9:4/1"])
    assert leader.acknowledge("m2", (4, 4, [ACCEPT])) == 0
    assert leader.last_write() == (4, 6, ["4-4:2/2"])
    assert (leader.start, leader.partition.end_offset, len(leader.partition.window)) == (10, 10, 0)


def test_4_6_a_session_that_ends_gives_back_what_it_held_and_the_counts_stay() -> None:
    leader = Leader(spans("0-4", "5-9"))
    leader.fetch("m1", max_records=5)
    leader.fetch("m2")
    leader.acknowledge("m1", (0, 0, [ACCEPT]))
    leader.end_session("m1")

    assert leader.last_write() == (1, 0, ["1-1:0/1", "2-2:0/1", "3-3:0/1", "4-4:0/1"])
    assert leader.fetch("m3") == []
    leader.complete_writes()
    assert leader.fetch("m3") == ["1-4/2"]
    assert leader.states(5, 9) == "qqqqq"


def test_4_6_a_session_end_archives_at_the_delivery_limit() -> None:
    leader = holding("0-4", config=settings(delivery_limit=2))
    leader.acknowledge("m1", (0, 4, [RELEASE]))
    leader.fetch()
    leader.end_session("m1")
    leader.complete_writes()

    assert leader.start == 5
