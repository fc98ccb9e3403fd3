"""The queue of acquisition locks: order, cancellation, and its size with cancelled locks."""

from __future__ import annotations

import random

from mockbroker.state.share.acquisition_locks import AcquisitionLock, AcquisitionLocks


class Partition:
    """A partition whose locks expire."""

    def release_expired_lock(self, lock: AcquisitionLock, *, now_ms: int) -> int:
        return lock.last - lock.first + 1


def test_locks_run_out_by_deadline_and_then_in_the_order_of_their_start() -> None:
    locks = AcquisitionLocks()
    for number, deadline_ms in enumerate([30, 10, 20, 10]):
        locks.start_lock(Partition(), number, number, deadline_ms)

    assert locks.next_deadline_ms() == 10
    assert locks.pop_expired(now_ms=9) is None
    order = []
    while (lock := locks.pop_expired(now_ms=30)) is not None:
        assert lock.expired
        order.append(lock.first)
    assert order == [1, 3, 2, 0]
    assert locks.next_deadline_ms() is None


def test_a_cancelled_lock_never_runs_out() -> None:
    locks = AcquisitionLocks()
    gone, kept = locks.start_lock(Partition(), 0, 0, 10), locks.start_lock(Partition(), 1, 1, 20)
    gone.cancelled = True

    assert locks.next_deadline_ms() == 20
    assert locks.pop_expired(now_ms=30) is kept
    assert not gone.expired


def test_the_queue_does_not_grow_with_cancelled_locks() -> None:
    locks, chance = AcquisitionLocks(), random.Random(1)
    running: list[AcquisitionLock] = []
    for number in range(20_000):
        running.append(locks.start_lock(Partition(), number, number, chance.randrange(1_000_000)))
        if len(running) > 500:
            running.pop(chance.randrange(len(running))).cancelled = True

    assert len(locks) <= 2_048
    popped = []
    while (lock := locks.pop_expired(now_ms=1_000_000)) is not None:
        popped.append(lock)
    assert set(popped) == set(running)
    assert [lock.deadline_ms for lock in popped] == sorted(lock.deadline_ms for lock in popped)
