"""`FaultIndex`: finds the few faults whose key conditions a request fulfils, among the many of its API."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mockbroker.faults.active_fault import ActiveFault
    from mockbroker.faults.model import When
    from mockbroker.faults.request_facts import RequestFacts

#: How many requests that nearly matched are kept, for the message about a fault without hits.
NEAR_MISSES_MAX = 5
#: A condition and its value; a request that does not have it is not compared with the fault.
Key = tuple[str, object]


def _selector(name: str) -> Callable[[RequestFacts], Sequence[object]]:
    return lambda facts: facts.selector(name)


#: The conditions that are keys, the most selective first, with the values that a request has for each.
_VALUES: Mapping[str, Callable[[RequestFacts], Sequence[object]]] = {
    "connection": lambda facts: (facts.info.id,),
    "member": _selector("member"),
    "client_id": lambda facts: (facts.incoming.client_id,),
    "transactional_id": _selector("transactional_id"),
    "group": _selector("group"),
    "topic": lambda facts: facts.topic_names,
    "principal": lambda facts: (facts.info.principal,),
}


def key_of(when: When) -> Key | None:
    """The key of a fault, None for one without such a condition."""
    return next(((name, getattr(when, name)) for name in _VALUES if getattr(when, name) is not None), None)


class SeenRequest(NamedTuple):
    """A request, as text, with its values for the keys of the faults of its API. number: among those of its log."""

    number: int
    subject: str
    values: Mapping[str, Sequence[object]]


class RequestLog:
    """How many requests of an API came while it had faults, and the latest of them."""

    def __init__(self) -> None:
        self.count = 0
        self.latest: deque[SeenRequest] = deque(maxlen=NEAR_MISSES_MAX)

    def add(self, subject: str, values: Mapping[str, Sequence[object]]) -> None:
        """Add a request."""
        self.count += 1
        self.latest.append(SeenRequest(self.count, subject, values))


class FaultIndex:
    """The faults of one API, in the order in which they were added."""

    def __init__(self, faults: Sequence[ActiveFault]) -> None:
        self.is_empty = not faults
        self._without_key: list[tuple[int, ActiveFault]] = []
        self._by_key: dict[str, dict[object, list[tuple[int, ActiveFault]]]] = {}
        for entry in enumerate(faults):
            key = entry[1].key
            if key is None:
                self._without_key.append(entry)
            else:
                self._by_key.setdefault(key[0], {}).setdefault(key[1], []).append(entry)

    def read_values(self, facts: RequestFacts) -> dict[str, Sequence[object]]:
        """The values of a request for the keys of these faults."""
        return {name: _VALUES[name](facts) for name in self._by_key}

    def find(self, values: Mapping[str, Sequence[object]]) -> list[ActiveFault]:
        """The faults that may match a request with these values, in order."""
        found = list(self._without_key)
        for name, faults in self._by_key.items():
            for value in dict.fromkeys(values[name]):
                found += faults.get(value, ())
        return [active for _, active in sorted(found, key=lambda entry: entry[0])]
