"""Parked requests are found by key, in order of arrival, and by deadline."""

from __future__ import annotations

from mockbroker.engine.outcome import NoReply, Outcome, Park
from mockbroker.engine.purgatory import Purgatory


def _resume(_: object) -> Outcome:
    return NoReply()


def _park(deadline_ms: int, *keys: str) -> Park:
    return Park(deadline_ms, tuple((key,) for key in keys), _resume)


def test_requests_that_wait_for_a_key_are_found_oldest_first() -> None:
    parked: Purgatory[str] = Purgatory()
    parked.add("early", _park(100, "log"))
    parked.add("other", _park(100, "group"))
    parked.add("late", _park(50, "log", "group"))

    assert [waiting.request for waiting in parked.requests_waiting_for(("log",))] == ["early", "late"]


def test_a_request_that_parks_again_keeps_its_place() -> None:
    parked: Purgatory[str] = Purgatory()
    first = parked.add("first", _park(100, "log"))
    parked.add("second", _park(100, "log"))
    parked.remove(first)
    parked.add("first again", _park(200, "log"), number=first.number)

    assert [waiting.request for waiting in parked.requests_waiting_for(("log",))] == ["first again", "second"]


def test_a_removed_request_is_neither_woken_nor_due() -> None:
    parked: Purgatory[str] = Purgatory()
    waiting = parked.add("gone", _park(10, "log"))
    parked.remove(waiting)

    assert parked.requests_waiting_for(("log",)) == []
    assert parked.next_deadline_ms() is None
    assert parked.take_due(now_ms=10) == []
    assert parked.count == 0
    assert parked.all_keys() == []


def test_due_requests_are_in_order_of_their_deadlines() -> None:
    parked: Purgatory[str] = Purgatory()
    parked.add("at 30", _park(30, "a"))
    parked.add("at 10", _park(10, "b"))
    parked.add("at 99", _park(99, "c"))

    assert parked.next_deadline_ms() == 10
    assert [waiting.request for waiting in parked.take_due(now_ms=30)] == ["at 10", "at 30"]


def test_answered_requests_do_not_fill_the_queue_behind_one_that_waits() -> None:
    parked: Purgatory[int] = Purgatory()
    parked.add(-1, _park(10, "long poll"))
    for number in range(5_000):
        parked.remove(parked.add(number, _park(300_000, "write")))

    assert len(parked._deadlines) <= 1_024
    assert parked.next_deadline_ms() == 10
    assert [delayed.request for delayed in parked.take_due(now_ms=10)] == [-1]
