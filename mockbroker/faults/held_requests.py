"""`HeldRequests`: the requests that a fault keeps until the test releases them, whatever the clock does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.engine.core import Core

Resume = Callable[[int], None]


class HeldRequests:
    """The requests that one fault holds, in the order of their arrival.

    is_on: whether it holds those that come. A request whose connection ends is not held any more.
    """

    def __init__(self, core: Core, *, is_on: bool) -> None:
        self.is_on = is_on
        self._core = core
        self._requests: deque[tuple[int, Resume]] = deque()

    @property
    def count(self) -> int:
        """How many requests wait; may be read in any thread."""
        return sum(self._core.is_connected(connection_id) for connection_id, _ in tuple(self._requests))

    def add(self, connection_id: int, resume: Resume) -> None:
        """Hold a request. resume: goes on with it, at a time of the cluster's clock."""
        self._requests.append((connection_id, resume))

    def release(self, count: int | None = None) -> int:
        """Let the first requests go on, at the present time; None: all, and those that come are not held any more.

        Returns: how many went on.
        """
        if count is None:
            self.is_on = False
        self._requests = deque(entry for entry in self._requests if self._core.is_connected(entry[0]))
        released = len(self._requests) if count is None else min(len(self._requests), count)
        for _ in range(released):
            _, resume = self._requests.popleft()
            self._core.state.inter_broker.schedule(0, resume, now_ms=self._core.now_ms)
        return released
