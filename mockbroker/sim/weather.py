"""The network between the nodes: how long calls take, and which are lost."""

from __future__ import annotations

from enum import Enum
from random import Random

from mockbroker.calls import Fate, Loss
from mockbroker.sim.coverage import Coverage


class Sky(Enum):
    """How bad it is: the longest way of a message in milliseconds, and how many in a hundred are lost."""

    CLEAR = (0, 0)
    WINDY = (60, 0)
    RAINY = (900, 10)
    STORMY = (2_500, 60)
    CUT = (20, 100)


class Weather:
    """Decides the fate of calls. Messages to one node, and answers from it, stay in order, as on a connection.

    No two messages reach a node in the same millisecond, so that each can be looked at alone.
    """

    def __init__(self, rng: Random, coverage: Coverage) -> None:
        self.sky = Sky.CLEAR
        self._rng = rng
        self._coverage = coverage
        self._arrived_ms: dict[int, int] = {}
        self._answered_ms: dict[int, int] = {}

    def fate(self, to: int, now_ms: int) -> Fate:
        """How a call to a node fares that is sent now."""
        latency_ms, lost = self.sky.value
        arrives_ms = max(now_ms + self._rng.randint(0, latency_ms), self._arrived_ms.get(to, -1) + 1)
        answered_ms = max(arrives_ms + self._rng.randint(0, latency_ms), self._answered_ms.get(to, 0))
        self._arrived_ms[to], self._answered_ms[to] = arrives_ms, answered_ms
        loss = None
        if self._rng.randrange(100) < lost:
            loss = self._rng.choice((Loss.REQUEST, Loss.ANSWER))
            self._coverage.count("request lost" if loss is Loss.REQUEST else "answer lost")
        if answered_ms > now_ms:
            self._coverage.count("call late")
        return Fate(arrives_ms - now_ms, answered_ms - arrives_ms, loss)

    def loading_ms(self, _node_id: int, _now_ms: int) -> int:
        """How long a node takes to load a partition of a coordinator's topic: the disks are as bad as the network."""
        return self._rng.randint(0, self.sky.value[0])
