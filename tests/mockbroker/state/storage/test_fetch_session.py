"""Incremental fetch sessions: epochs, the rows of responses, and evictions."""

from __future__ import annotations

import random

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.storage.fetch_session import (
    FetchPartitionKey,
    FetchPlan,
    FetchRequestPartition,
    FetchResponseSummary,
    FetchSessions,
    next_epoch,
)
from tests.support.raises_code import code_of

A: FetchPartitionKey = ("t", 0)
B: FetchPartitionKey = ("t", 1)


def request_partition_of(key: FetchPartitionKey, offset: int = 0) -> FetchRequestPartition:
    return FetchRequestPartition(key, offset, 1000)


def summary_of(
    key: FetchPartitionKey, *, high_watermark: int = 0, error: int = 0, records: bool = False
) -> FetchResponseSummary:
    return FetchResponseSummary(key, error, high_watermark, 0, records, diverging=False)


def open_session(sessions: FetchSessions, *keys: FetchPartitionKey, now_ms: int = 0) -> int:
    plan = sessions.plan_fetch(0, 0, [request_partition_of(key) for key in keys], [], by_id=False, now_ms=now_ms)
    assert plan.opens_session
    rows = [summary_of(key) for key in keys]
    return sessions.open_session(plan.partitions, rows, by_id=False, now_ms=now_ms, rng=random.Random(now_ms))


def step(
    sessions: FetchSessions,
    session_id: int,
    epoch: int,
    *more: FetchRequestPartition,
    forget: tuple[FetchPartitionKey, ...] = (),
) -> FetchPlan:
    return sessions.plan_fetch(session_id, epoch, more, forget, by_id=False, now_ms=0)


def error_of(sessions: FetchSessions, session_id: int, epoch: int, *, by_id: bool = False) -> ErrorCode:
    return code_of(lambda: sessions.plan_fetch(session_id, epoch, [], [], by_id=by_id, now_ms=0))


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions()


def test_only_changes_are_sent_in_a_session(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, A, B)
    plan = step(sessions, session_id, 1)

    assert plan.session is not None
    assert [request_partition.key for request_partition in plan.partitions] == [A, B]
    assert plan.session.select_changed([summary_of(A), summary_of(B)]) == [False, False]
    assert plan.session.select_changed([summary_of(A, high_watermark=1), summary_of(B, records=True)]) == [True, True]
    assert plan.session.select_changed([summary_of(A, high_watermark=1), summary_of(B)]) == [False, False]


def test_an_error_is_sent_every_time_and_its_end_too(sessions: FetchSessions) -> None:
    session = step(sessions, open_session(sessions, A), 1).session
    assert session is not None

    assert session.select_changed([summary_of(A, error=6)]) == [True]
    assert session.select_changed([summary_of(A, error=6)]) == [True]
    assert session.select_changed([summary_of(A)]) == [True]
    assert session.select_changed([summary_of(A)]) == [False]


def test_a_partition_with_records_is_served_last_the_next_time(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, A, B)
    session = step(sessions, session_id, 1).session
    assert session is not None
    session.select_changed([summary_of(A, records=True), summary_of(B)])

    assert [request_partition.key for request_partition in step(sessions, session_id, 2).partitions] == [B, A]


def test_partitions_are_added_changed_and_removed(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, A)

    plan = step(sessions, session_id, 1, request_partition_of(B), request_partition_of(A, 7))
    assert [(partition.key, partition.offset) for partition in plan.partitions] == [(A, 7), (B, 0)]
    assert [request_partition.key for request_partition in step(sessions, session_id, 2, forget=(A,)).partitions] == [B]
    last = step(sessions, session_id, 3, forget=(B,))
    assert (last.session, last.partitions) == (None, [])
    assert error_of(sessions, session_id, 4) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_invalid_steps_have_kafkas_codes_and_do_not_change_the_session(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, A)

    assert error_of(sessions, session_id, 2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert error_of(sessions, session_id, 1, by_id=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert error_of(sessions, session_id + 1, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert error_of(sessions, 0, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert step(sessions, session_id, 1).session is not None


def test_a_full_fetch_closes_its_session(sessions: FetchSessions) -> None:
    session_id = open_session(sessions, A)
    plan = step(sessions, session_id, -1, request_partition_of(A))

    assert (plan.session, plan.opens_session) == (None, False)
    assert len(sessions) == 0


def test_a_full_cache_evicts_only_sessions_that_are_unused_for_long() -> None:
    sessions = FetchSessions(slots=1)
    first = open_session(sessions, A, now_ms=0)

    assert first > 0
    assert open_session(sessions, A, now_ms=120_000) == 0
    assert open_session(sessions, A, now_ms=120_001) > 0
    assert len(sessions) == 1


def test_epochs_wrap_to_one() -> None:
    assert next_epoch((1 << 31) - 1) == 1
