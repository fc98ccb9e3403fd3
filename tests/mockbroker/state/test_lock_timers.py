"""The queue of acquisition locks: order, cancellation, and that it does not grow with locks long gone."""

from __future__ import annotations

import random

from mockbroker.state.lock_timers import Lock, LockTimers


class Holder:
    """Somebody who is told."""

    def lock_expired(self, lock: Lock, *, now_ms: int) -> int:
        return lock.last - lock.first + 1


def test_locks_run_out_by_deadline_and_then_in_the_order_of_their_start() -> None:
    timers = LockTimers()
    for number, deadline_ms in enumerate([30, 10, 20, 10]):
        timers.start(Holder(), number, number, deadline_ms)

    assert timers.next_deadline_ms() == 10
    assert timers.pop(now_ms=9) is None
    order = []
    while (lock := timers.pop(now_ms=30)) is not None:
        assert lock.expired
        order.append(lock.first)
    assert order == [1, 3, 2, 0]
    assert timers.next_deadline_ms() is None


def test_a_cancelled_lock_never_runs_out() -> None:
    timers = LockTimers()
    gone, kept = timers.start(Holder(), 0, 0, 10), timers.start(Holder(), 1, 1, 20)
    gone.cancelled = True

    assert timers.next_deadline_ms() == 20
    assert timers.pop(now_ms=30) is kept
    assert not gone.expired


def test_the_queue_does_not_grow_with_cancelled_locks() -> None:
    timers, chance = LockTimers(), random.Random(1)
    running: list[Lock] = []
    for number in range(20_000):
        running.append(timers.start(Holder(), number, number, chance.randrange(1_000_000)))
        if len(running) > 500:
            running.pop(chance.randrange(len(running))).cancelled = True

    assert len(timers) <= 2_048
    popped = []
    while (lock := timers.pop(now_ms=1_000_000)) is not None:
        popped.append(lock)
    assert set(popped) == set(running)
    assert [lock.deadline_ms for lock in popped] == sorted(lock.deadline_ms for lock in popped)
