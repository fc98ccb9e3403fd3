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
