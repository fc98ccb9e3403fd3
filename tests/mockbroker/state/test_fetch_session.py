"""Incremental fetch sessions: epochs, what is sent again, and who has to make room."""

from __future__ import annotations

import random

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.fetch_session import FetchPlan, FetchSessions, PartitionKey, Seen, Wanted, next_epoch

A: PartitionKey = ("t", 0)
B: PartitionKey = ("t", 1)


def wanted(key: PartitionKey, offset: int = 0) -> Wanted:
    return Wanted(key, offset, 1000)


def seen(key: PartitionKey, *, high_watermark: int = 0, error: int = 0, records: bool = False) -> Seen:
    return Seen(key, error, high_watermark, 0, records, diverging=False)


def opened(sessions: FetchSessions, *keys: PartitionKey, now_ms: int = 0) -> int:
    plan = sessions.plan(0, 0, [wanted(key) for key in keys], [], by_id=False, now_ms=now_ms)
    assert plan.opens
    rows = [seen(key) for key in keys]
    return sessions.open(plan.wanted, rows, by_id=False, now_ms=now_ms, chance=random.Random(now_ms))


def step(
    sessions: FetchSessions, session_id: int, epoch: int, *more: Wanted, forget: tuple[PartitionKey, ...] = ()
) -> FetchPlan:
    return sessions.plan(session_id, epoch, more, forget, by_id=False, now_ms=0)


def code_of(sessions: FetchSessions, session_id: int, epoch: int, *, by_id: bool = False) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        sessions.plan(session_id, epoch, [], [], by_id=by_id, now_ms=0)
    return caught.value.code


def test_only_changes_are_sent_in_a_session() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, A, B)
    plan = step(sessions, session_id, 1)

    assert plan.session is not None
    assert [one.key for one in plan.wanted] == [A, B]
    assert plan.session.changed([seen(A), seen(B)]) == [False, False]
    assert plan.session.changed([seen(A, high_watermark=1), seen(B, records=True)]) == [True, True]
    assert plan.session.changed([seen(A, high_watermark=1), seen(B)]) == [False, False]


def test_an_error_is_sent_every_time_and_its_end_too() -> None:
    sessions = FetchSessions()
    session = step(sessions, opened(sessions, A), 1).session
    assert session is not None

    assert session.changed([seen(A, error=6)]) == [True]
    assert session.changed([seen(A, error=6)]) == [True]
    assert session.changed([seen(A)]) == [True]
    assert session.changed([seen(A)]) == [False]


def test_who_got_records_is_served_last_the_next_time() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, A, B)
    session = step(sessions, session_id, 1).session
    assert session is not None
    session.changed([seen(A, records=True), seen(B)])

    assert [one.key for one in step(sessions, session_id, 2).wanted] == [B, A]


def test_partitions_come_change_and_go() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, A)

    assert [(one.key, one.offset) for one in step(sessions, session_id, 1, wanted(B), wanted(A, 7)).wanted] == [
        (A, 7),
        (B, 0),
    ]
    assert [one.key for one in step(sessions, session_id, 2, forget=(A,)).wanted] == [B]
    last = step(sessions, session_id, 3, forget=(B,))
    assert (last.session, last.wanted) == (None, [])
    assert code_of(sessions, session_id, 4) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_wrong_steps_have_kafkas_codes_and_leave_the_session_as_it_is() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, A)

    assert code_of(sessions, session_id, 2) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert code_of(sessions, session_id, 1, by_id=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert code_of(sessions, session_id + 1, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code_of(sessions, 0, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert step(sessions, session_id, 1).session is not None


def test_a_full_fetch_ends_the_session_that_it_names() -> None:
    sessions = FetchSessions()
    session_id = opened(sessions, A)
    plan = step(sessions, session_id, -1, wanted(A))

    assert (plan.session, plan.opens) == (None, False)
    assert len(sessions) == 0


def test_a_full_house_makes_room_only_for_sessions_long_unused() -> None:
    sessions = FetchSessions(slots=1)
    first = opened(sessions, A, now_ms=0)

    assert first > 0
    assert opened(sessions, A, now_ms=120_000) == 0
    assert opened(sessions, A, now_ms=120_001) > 0
    assert len(sessions) == 1


def test_epochs_wrap_to_one() -> None:
    assert next_epoch((1 << 31) - 1) == 1
