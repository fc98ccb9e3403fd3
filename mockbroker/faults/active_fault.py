"""`ActiveFault`: a fault of a running cluster, with its counts and the requests that nearly matched."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

from mockbroker.faults.conditions import Conditions
from mockbroker.faults.describe import describe_fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mockbroker.engine.context import ConnectionInfo
    from mockbroker.faults.model import Fault
    from mockbroker.faults.request_facts import RequestFacts
    from mockbroker.faults.response_fields import PartitionLeader

    Leaders = Mapping[tuple[str, int], PartitionLeader]

#: How many requests that nearly matched are kept, for the message about a fault without hits.
_NEAR_MISSES_MAX = 5


class ActiveFault:
    """A fault, how often its conditions were fulfilled (`matches`), and how often it acted (`hits`).

    number: of the fault in its cluster, from 1 in order of adding. leaders: when it was added, for stale metadata.
    seed: of its random choices; the same seed and the same requests give the same hits.
    """

    def __init__(self, number: int, fault: Fault, *, seed: str, now_ms: int, leaders: Leaders) -> None:
        self.number = number
        self.fault = fault
        self.leaders = leaders
        self.name = fault.name or describe_fault(fault)
        self.matches = 0
        self.hits = 0
        self.rng = random.Random(seed)
        self.near_misses: deque[str] = deque(maxlen=_NEAR_MISSES_MAX)
        self.near_miss_count = 0
        self._conditions = Conditions(fault.when, now_ms)

    @property
    def is_spent(self) -> bool:
        """Whether it has acted as often as it may."""
        times = self.fault.when.times
        return times is not None and self.hits >= times

    def take_request(self, facts: RequestFacts, now_ms: int) -> bool:
        """Whether the fault acts on a request of its API, which is counted."""
        if self.is_spent:
            return False
        mismatch = self._conditions.find_mismatch(facts, now_ms) or self._count_match()
        if mismatch is None:
            return True
        incoming, info = facts.incoming, facts.info
        client = f"client {incoming.client_id!r}" if incoming.client_id else f"{info.host}:{info.port}"
        self._add_near_miss(f"{incoming.api_name} v{incoming.api_version} of {client} to node {info.node_id}", mismatch)
        return False

    def take_connection(self, info: ConnectionInfo, now_ms: int) -> bool:
        """Whether the fault acts on a new connection, which is counted."""
        if self.is_spent:
            return False
        mismatch = self._conditions.find_connection_mismatch(info, now_ms) or self._count_match()
        if mismatch is not None:
            self._add_near_miss(f"{info.host}:{info.port} to node {info.node_id}", mismatch)
        return mismatch is None

    def _count_match(self) -> str | None:
        """Count a match. Returns: why the fault does not act on it, None if it does."""
        when = self.fault.when
        self.matches += 1
        ordinal = self.matches - when.first
        if ordinal < 0 or ordinal % when.every:
            return f"it was match {self.matches}; first={when.first}, every={when.every}"
        if when.probability < 1 and self.rng.random() >= when.probability:
            return f"it was not drawn with probability={when.probability}"
        self.hits += 1
        return None

    def _add_near_miss(self, subject: str, reason: str) -> None:
        self.near_miss_count += 1
        self.near_misses.append(f"{subject}: {reason}")

    def describe_misses(self) -> str:
        """A fault without hits, and the latest requests of its API that it did not act on, as lines of text."""
        when = self.fault.when
        plural = "connections" if when.on == "connection" else f"requests of {when.api or 'any API'}"
        lines = [f"the fault {self.name!r} never acted:"]
        if not self.near_miss_count:
            lines.append(f"  no {plural} came while it was set")
        else:
            lines.append(f"  {self.near_miss_count} {plural} came, the latest of them:")
            lines += [f"  - {reason}" for reason in self.near_misses]
        lines.append("  Set optional=True if the fault need not act.")
        return "\n".join(lines)
