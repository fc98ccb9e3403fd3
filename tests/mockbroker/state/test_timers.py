"""Timers with names, and operations on all of a kind."""

from __future__ import annotations

from mockbroker.state.timers import Timers


def test_timers_of_a_kind_are_postponed_and_found() -> None:
    timers = Timers()
    fired: list[str] = []
    timers.set_timer(("session", "g", "m"), 10, lambda now_ms: fired.append(f"session {now_ms}"))
    timers.set_timer(("sync", "g"), 20, lambda now_ms: fired.append(f"sync {now_ms}"))
    timers.set_timer(("delay", "g"), 30, lambda now_ms: fired.append(f"delay {now_ms}"))
    timers.postpone({"session", "sync"}, 100)

    assert timers.next_of_kind("session") == 110
    assert timers.next_of_kind("join") is None
    timers.expire(now_ms=50)
    assert fired == ["delay 50"]
    timers.expire(now_ms=120)
    assert fired == ["delay 50", "session 120", "sync 120"]


def test_timers_that_are_moved_again_and_again_take_no_more_memory() -> None:
    timers = Timers()
    fired: list[str] = []
    timers.set_timer(("sync", "g"), 30_000, lambda now_ms: fired.append(f"sync {now_ms}"))
    for number in range(10_000):
        timers.set_timer(("session", "g"), 20_000 + number, lambda now_ms: fired.append(f"session {now_ms}"))

    assert len(timers._heap) < 2_000
    assert timers.next_deadline_ms() == 29_999
    timers.expire(now_ms=30_000)
    assert fired == ["session 30000", "sync 30000"]
