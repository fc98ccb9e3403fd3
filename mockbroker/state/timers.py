"""Timers with names: sessions, rebalances and joins of groups, timeouts of transactions; the earliest deadline."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable
from typing import Final

TimerKey = tuple[Hashable, ...]
#: The queue of deadlines is never swept below this number of entries.
_MIN_SWEEP_SIZE = 1024

#: The first part of the keys of timers at which a first rebalance ends that waits for more members.
INITIAL_DELAY = "initial delay"
#: The first parts of the keys of timers at which a member counts as dead or slow.
LIVENESS = frozenset({"session", "rebalance", "join", "sync"})


#: Later than every deadline: there is none.
NEVER_MS: Final = 1 << 62
#: Earlier than every time: the components have to be asked.
UNKNOWN_MS: Final = -NEVER_MS


def next_periodic_ms(known_ms: int, interval_ms: int, from_ms: int) -> int:
    """The first time from a time on, and not before `known_ms`, that is whole intervals after `known_ms`."""
    return known_ms + max(0, -((known_ms - from_ms) // interval_ms)) * interval_ms


class EarliestDeadline:
    """`ms` is not later than any deadline of a component, but may be earlier, as deadlines also move and end.

    A component that gets a deadline lowers it where the deadline is earlier; one that would have to compute its
    deadline sets UNKNOWN_MS. Only `Deadlines`, which has asked all of them, raises it.
    """

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms: int = UNKNOWN_MS


class Timers:
    """Named deadlines; setting one again moves it. Equal deadlines fire in the order they were set.

    earliest: of the cluster.
    """

    def __init__(self, earliest: EarliestDeadline | None = None) -> None:
        self._earliest = EarliestDeadline() if earliest is None else earliest
        self._actions: dict[TimerKey, tuple[int, int, Callable[[int], None]]] = {}
        self._keys_by_group: dict[Hashable, dict[TimerKey, None]] = {}
        self._heap: list[tuple[int, int, TimerKey]] = []
        self._set_count = 0
        self._sweep_size = _MIN_SWEEP_SIZE

    def set_timer(self, key: TimerKey, deadline_ms: int, action: Callable[[int], None]) -> None:
        """Run `action(now_ms)` at the deadline, unless the key is set again or cancelled before."""
        if len(self._heap) >= self._sweep_size:
            self._sweep()
        self._set_count += 1
        if key not in self._actions:
            self._keys_by_group.setdefault(key[1], {})[key] = None
        self._actions[key] = (deadline_ms, self._set_count, action)
        heapq.heappush(self._heap, (deadline_ms, self._set_count, key))
        self._earliest.ms = min(self._earliest.ms, deadline_ms)

    def _sweep(self) -> None:
        """Drop the deadlines that were moved or removed: a session's moves with each heartbeat and commit."""
        self._heap = [(deadline_ms, number, key) for key, (deadline_ms, number, _) in self._actions.items()]
        heapq.heapify(self._heap)
        self._sweep_size = max(_MIN_SWEEP_SIZE, 2 * len(self._heap))

    def cancel_timer(self, key: TimerKey) -> None:
        """Remove a deadline, if it is set."""
        if self._actions.pop(key, None) is not None:
            self._forget_key(key)

    def cancel_group(self, group_id: str) -> None:
        """Remove all deadlines of a group: its id is the second part of their keys."""
        for key in self._keys_by_group.pop(group_id, ()):
            del self._actions[key]

    def _forget_key(self, key: TimerKey) -> None:
        keys = self._keys_by_group[key[1]]
        del keys[key]
        if not keys:
            del self._keys_by_group[key[1]]

    def postpone(self, kinds: Collection[Hashable], duration_ms: int) -> None:
        """Move the deadlines of all timers of these kinds, the first parts of their keys."""
        for key, (deadline_ms, _, action) in list(self._actions.items()):
            if key[0] in kinds:
                self.set_timer(key, deadline_ms + duration_ms, action)

    def next_of_kind(self, kind: Hashable) -> int | None:
        """The earliest deadline of a kind, or None."""
        return min((entry[0] for key, entry in self._actions.items() if key[0] == kind), default=None)

    def has_timer(self, key: TimerKey) -> bool:
        """Return whether a deadline is set."""
        return key in self._actions

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline, or None."""
        heap, actions = self._heap, self._actions
        while heap:
            deadline_ms, number, key = heap[0]
            if key in actions and actions[key][1] == number:
                return deadline_ms
            heapq.heappop(heap)
        return None

    def expire(self, *, now_ms: int) -> int:
        """Run due actions, and return their number."""
        if not self._heap or self._heap[0][0] > now_ms:
            return 0
        count = 0
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            key = heapq.heappop(self._heap)[2]
            action = self._actions.pop(key)[2]
            self._forget_key(key)
            action(now_ms)
            count += 1
        return count
