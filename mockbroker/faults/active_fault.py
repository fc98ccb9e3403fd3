"""`ActiveFault`: a fault of a running cluster, with its counts and the requests that nearly matched."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

from mockbroker.faults.conditions import Conditions, describe_mismatch
from mockbroker.faults.describe import describe_fault
from mockbroker.faults.request_log import NEAR_MISSES_MAX, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mockbroker.engine.context import ConnectionInfo
    from mockbroker.faults.held_requests import HeldRequests
    from mockbroker.faults.model import Fault
    from mockbroker.faults.request_facts import RequestFacts
    from mockbroker.faults.request_log import RequestLog
    from mockbroker.faults.responses.response_fields import PartitionLeader

    Leaders = Mapping[tuple[str, int], PartitionLeader]


class ActiveFault:
    """A fault, how often its conditions were fulfilled (`matches`), and how often it acted (`hits`).

    number: of the fault in its cluster, from 1 in order of adding. leaders: when it was added, for stale metadata.
    seed: of its random choices; the same seed and the same requests give the same hits. log: the requests of its API.
    held: the requests that wait until they are released.
    """

    def __init__(
        self,
        number: int,
        fault: Fault,
        *,
        seed: str,
        now_ms: int,
        leaders: Leaders,
        log: RequestLog,
        held: HeldRequests,
    ) -> None:
        self.number = number
        self.fault = fault
        self.leaders = leaders
        self.held = held
        self.name = fault.name or describe_fault(fault)
        self.matches = 0
        self.hits = 0
        self.rng = random.Random(seed)
        self.key = key_of(fault.when)
        self._log, self._first_number = log, log.count + 1
        self._misses: deque[tuple[int, str]] = deque(maxlen=NEAR_MISSES_MAX)
        self._connection_count = 0
        self._conditions = Conditions(fault.when, now_ms)

    @property
    def held_count(self) -> int:
        """How many requests it holds."""
        return self.held.count

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
        self._misses.append((self._log.count, f"{facts.subject}: {mismatch}"))
        return False

    def take_connection(self, info: ConnectionInfo, now_ms: int) -> bool:
        """Whether the fault acts on a new connection, which is counted."""
        if self.is_spent:
            return False
        mismatch = self._conditions.find_connection_mismatch(info, now_ms) or self._count_match()
        if mismatch is not None:
            self._connection_count += 1
            subject = f"{info.host}:{info.port} to node {info.node_id}"
            self._misses.append((self._connection_count, f"{subject}: {mismatch}"))
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

    def revoke_hit(self, facts: RequestFacts, reason: str) -> None:
        """Take a hit back: the fault could not act on a request that `take_request` has counted."""
        self.hits -= 1
        self._misses.append((self._log.count, f"{facts.subject}: {reason}"))

    @property
    def near_misses(self) -> list[str]:
        """The latest requests or connections that it did not act on, each with the reason.

        Those that the index has passed over are in the log of their API.
        """
        misses = dict(self._misses)
        if self.key is not None and self.fault.when.on == "request":
            name, expected = self.key
            for seen in self._log.latest:
                values = seen.values.get(name)
                if seen.number >= self._first_number and values is not None and expected not in values:
                    misses.setdefault(seen.number, f"{seen.subject}: {describe_mismatch(name, values, expected)}")
        return [text for _, text in sorted(misses.items())][-NEAR_MISSES_MAX:]

    def describe_misses(self) -> str:
        """A fault without hits, and the latest requests of its API that it did not act on, as lines of text."""
        when = self.fault.when
        plural = "connections" if when.on == "connection" else f"requests of {when.api or 'any API'}"
        lines = [f"the fault {self.name!r} never acted:"]
        count = self._connection_count if when.on == "connection" else self._log.count + 1 - self._first_number
        if not count:
            lines.append(f"  no {plural} came while it was set")
        else:
            lines.append(f"  {count} {plural} came, the latest of them:")
            lines += [f"  - {reason}" for reason in self.near_misses]
        return "\n".join(lines)
