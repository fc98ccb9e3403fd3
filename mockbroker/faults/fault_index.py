"""`FaultIndex`: finds the few faults whose key conditions a request fulfils, among the many of its API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mockbroker.faults.request_log import KEY_VALUES

if TYPE_CHECKING:
    from mockbroker.faults.active_fault import ActiveFault
    from mockbroker.faults.request_facts import RequestFacts


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
        return {name: KEY_VALUES[name](facts) for name in self._by_key}

    def find(self, values: Mapping[str, Sequence[object]]) -> list[ActiveFault]:
        """The faults that may match a request with these values, in order."""
        found = list(self._without_key)
        for name, faults in self._by_key.items():
            for value in dict.fromkeys(values[name]):
                found += faults.get(value, ())
        return [active for _, active in sorted(found, key=lambda entry: entry[0])]
