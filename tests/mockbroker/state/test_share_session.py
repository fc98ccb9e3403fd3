"""Share sessions: epochs, what is kept and what is told (share-semantics 4)."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share_session import PartitionKey, Requested, ShareSession, ShareSessions, next_epoch

A0, A1, B0 = PartitionKey(b"A" * 16, 0), PartitionKey(b"A" * 16, 1), PartitionKey(b"B" * 16, 0)


def _open(room: ShareSessions, member: str = "m1", *keys: PartitionKey, connection_id: int = 1) -> ShareSession:
    session = room.open(
        "g", member, [Requested(key, "topic") for key in keys], connection_id=connection_id, session_max=10
    )
    assert session is not None
    return session


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (2**31 - 1, 1), (-1, -1), (-5, -1)])
def test_4_1_next_epoch(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


def test_4_3_a_step_takes_the_expected_epoch_only() -> None:
    room = ShareSessions()
    _open(room, "m1", A0)
    room.step("g", "m1", 1)

    for epoch in (1, 0, 3, -2):
        with pytest.raises(KafkaError) as refusal:
            room.step("g", "m1", epoch)
        assert refusal.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert room.step("g", "m1", 2).epoch == 3
    assert room.step("g", "m1", -1).epoch == 3
    with pytest.raises(KafkaError) as refusal:
        room.step("g", "m2", 1)
    assert refusal.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_4_3_the_limit_counts_after_the_own_session_is_gone() -> None:
    room = ShareSessions()
    for number in range(10):
        _open(room, f"m{number}")

    assert room.open("g", "new", [], connection_id=2, session_max=10) is None
    _open(room, "m3")
    assert len(room) == 10


def test_4_4_a_partition_that_is_added_and_forgotten_at_once_is_gone() -> None:
    session = _open(ShareSessions(), "m1", A0)
    session.update([Requested(A1, "topic"), Requested(B0, "topic")], [A1, PartitionKey(b"C" * 16, 0)])

    assert list(session.partitions) == [A0, B0]


def test_4_5_a_row_is_sent_once_when_added_and_always_with_records_or_an_error() -> None:
    session = _open(ShareSessions(), "m1", A0)
    session.update([Requested(A1, "topic")], [])

    assert not session.must_answer(A0, has_records=False, has_error=False)
    assert session.must_answer(A1, has_records=False, has_error=False)
    assert not session.must_answer(A1, has_records=False, has_error=False)
    assert session.must_answer(A1, has_records=False, has_error=True)
    assert session.must_answer(A1, has_records=False, has_error=False)
    session.update([Requested(A1, "topic")], [])
    assert not session.must_answer(A1, has_records=False, has_error=False)


def test_4_5_what_gave_records_goes_to_the_end() -> None:
    session = _open(ShareSessions(), "m1", A0, A1, B0)
    assert session.must_answer(A0, has_records=True, has_error=False)

    assert list(session.partitions) == [A1, B0, A0]


def test_4_6_only_the_last_session_of_a_connection_ends_with_it() -> None:
    room = ShareSessions()
    _open(room, "m1")
    later = _open(room, "m2")

    assert room.disconnected(1) == ("g", later)
    assert room.disconnected(1) is None
    assert room.get("g", "m1") is not None


def test_4_6_a_session_that_was_closed_before_leaves_only_the_group_to_look_at() -> None:
    room = ShareSessions()
    _open(room, "m1")
    room.remove("g", "m1")

    assert room.disconnected(1) == ("g", None)
    assert not room.has_group("g")


def test_4_6_a_session_opened_anew_elsewhere_does_not_end_with_the_old_connection() -> None:
    room = ShareSessions()
    _open(room, "m1", connection_id=1)
    _open(room, "m1", connection_id=2)

    assert room.disconnected(1) == ("g", None)
    assert room.get("g", "m1") is not None


def test_in_a_room_that_is_full_the_session_that_has_been_idle_for_too_long_makes_room_for_another() -> None:
    room = ShareSessions()

    def take(member: str, now_ms: int) -> ShareSession | None:
        return room.open("g", member, [], connection_id=1, session_max=2, idle_ms=100, now_ms=now_ms)

    take("m1", 0)
    take("m2", 0)
    room.step("g", "m1", 1, now_ms=60)

    assert take("m3", 100) is None
    assert take("m3", 101) is not None
    assert room.get("g", "m2") is None
    assert room.get("g", "m1") is not None
    assert take("m4", 160) is None
    assert take("m4", 161) is not None
    assert room.get("g", "m1") is None
