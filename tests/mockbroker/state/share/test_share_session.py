"""Share sessions: epochs, partitions and connections (share-semantics 4)."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.share.share_session import (
    PartitionKey,
    RequestedPartition,
    ShareSession,
    ShareSessions,
    next_epoch,
)
from tests.support.raises_code import raises_code

A0, A1, B0 = PartitionKey(b"A" * 16, 0), PartitionKey(b"A" * 16, 1), PartitionKey(b"B" * 16, 0)


def _open_session(
    sessions: ShareSessions, member: str = "m1", *keys: PartitionKey, connection_id: int = 1
) -> ShareSession:
    requested = [RequestedPartition(key, "topic") for key in keys]
    session = sessions.open_session("g", member, requested, connection_id=connection_id, session_max=10)
    assert session is not None
    return session


@pytest.fixture
def sessions() -> ShareSessions:
    return ShareSessions()


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (2**31 - 1, 1), (-1, -1), (-5, -1)])
def test_4_1_next_epoch(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


def test_4_3_a_step_takes_the_expected_epoch_only(sessions: ShareSessions) -> None:
    _open_session(sessions, "m1", A0)
    sessions.advance_epoch("g", "m1", 1)

    for epoch in (1, 0, 3, -2):
        with raises_code(ErrorCode.INVALID_SHARE_SESSION_EPOCH):
            sessions.advance_epoch("g", "m1", epoch)
    assert sessions.advance_epoch("g", "m1", 2).epoch == 3
    assert sessions.advance_epoch("g", "m1", -1).epoch == 3
    with raises_code(ErrorCode.SHARE_SESSION_NOT_FOUND):
        sessions.advance_epoch("g", "m2", 1)


def test_4_3_the_limit_is_checked_after_the_own_session_is_removed(sessions: ShareSessions) -> None:
    for number in range(10):
        _open_session(sessions, f"m{number}")

    assert sessions.open_session("g", "new", [], connection_id=2, session_max=10) is None
    _open_session(sessions, "m3")
    assert len(sessions) == 10


def test_4_4_a_partition_that_is_added_and_forgotten_at_once_is_removed() -> None:
    session = _open_session(ShareSessions(), "m1", A0)
    added = [RequestedPartition(key, "topic") for key in (A1, B0)]
    session.update_partitions(added, [A1, PartitionKey(b"C" * 16, 0)])

    assert list(session.partitions) == [A0, B0]


def test_4_5_a_row_is_sent_once_when_added_and_always_with_records_or_an_error() -> None:
    session = _open_session(ShareSessions(), "m1", A0)
    session.update_partitions([RequestedPartition(A1, "topic")], [])

    assert not session.includes_partition(A0, has_records=False, has_error=False)
    assert session.includes_partition(A1, has_records=False, has_error=False)
    assert not session.includes_partition(A1, has_records=False, has_error=False)
    assert session.includes_partition(A1, has_records=False, has_error=True)
    assert session.includes_partition(A1, has_records=False, has_error=False)
    session.update_partitions([RequestedPartition(A1, "topic")], [])
    assert not session.includes_partition(A1, has_records=False, has_error=False)


def test_4_5_a_partition_that_returned_records_moves_to_the_end() -> None:
    session = _open_session(ShareSessions(), "m1", A0, A1, B0)
    assert session.includes_partition(A0, has_records=True, has_error=False)

    assert list(session.partitions) == [A1, B0, A0]


def test_4_6_only_the_last_session_of_a_connection_ends_with_it(sessions: ShareSessions) -> None:
    _open_session(sessions, "m1")
    later = _open_session(sessions, "m2")

    assert sessions.close_connection(1) == ("g", later)
    assert sessions.close_connection(1) is None
    assert sessions.get("g", "m1") is not None


def test_4_6_a_session_that_was_closed_before_leaves_only_the_group_to_look_at(sessions: ShareSessions) -> None:
    _open_session(sessions, "m1")
    sessions.remove_session("g", "m1")

    assert sessions.close_connection(1) == ("g", None)
    assert not sessions.has_group("g")


def test_4_6_a_session_reopened_on_another_connection_does_not_end_with_the_old_one(sessions: ShareSessions) -> None:
    _open_session(sessions, "m1", connection_id=1)
    _open_session(sessions, "m1", connection_id=2)

    assert sessions.close_connection(1) == ("g", None)
    assert sessions.get("g", "m1") is not None


def test_at_the_limit_the_longest_idle_session_is_evicted(sessions: ShareSessions) -> None:
    def take(member: str, now_ms: int) -> ShareSession | None:
        return sessions.open_session("g", member, [], connection_id=1, session_max=2, idle_ms=100, now_ms=now_ms)

    take("m1", 0)
    take("m2", 0)
    sessions.advance_epoch("g", "m1", 1, now_ms=60)

    assert take("m3", 100) is None
    assert take("m3", 101) is not None
    assert sessions.get("g", "m2") is None
    assert sessions.get("g", "m1") is not None
    assert take("m4", 160) is None
    assert take("m4", 161) is not None
    assert sessions.get("g", "m1") is None
