"""The conditions by which faults are indexed, and a log of requests for messages about faults without hits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mockbroker.faults.model import When
    from mockbroker.faults.request_facts import RequestFacts

#: How many requests that nearly matched are kept, for the message about a fault without hits.
NEAR_MISSES_MAX = 5
#: A condition and its value; a request that does not have it is not compared with the fault.
Key = tuple[str, object]


def _selector(name: str) -> Callable[[RequestFacts], Sequence[object]]:
    return lambda facts: facts.selector(name)


#: The conditions that are keys, the most selective first, with the values that a request has for each.
KEY_VALUES: Mapping[str, Callable[[RequestFacts], Sequence[object]]] = {
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
    return next(((name, getattr(when, name)) for name in KEY_VALUES if getattr(when, name) is not None), None)


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
