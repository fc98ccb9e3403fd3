"""The random ids of a real broker, given to mockbroker: many assignments depend on the order of their hashes."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from kwire import uuids

Json = Any

_ID_BITS = 128
_JAVA_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_KAFKA_UUID = re.compile(r"[A-Za-z0-9_-]{22}")


class IdSource(random.Random):
    """Random numbers; those of 128 bits, from which ids are made, are the given ones while there are any."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.given: list[int] = []

    def getrandbits(self, k: int, /) -> int:
        """A number of k bits."""
        return self.given.pop(0) if k == _ID_BITS and self.given else super().getrandbits(k)


def step_that_saves(steps: Sequence[Mapping[str, Json]], index: int) -> int:
    """The index of the step that takes the response to the request of a step, or the index itself."""
    if not steps[index].get("async"):
        return index
    connection = steps[index]["conn"]
    return next((at for at in range(index, len(steps)) if steps[at].get("await") == connection), index)


def read_ids(saved: Mapping[str, Json]) -> list[int]:
    """The numbers of the topic ids and member ids among saved values, in their order."""
    numbers = []
    for value in saved.values():
        java_uuid = _JAVA_UUID.search(value) if isinstance(value, str) else None
        if java_uuid is not None:
            numbers.append(UUID(java_uuid[0]).int)
        elif isinstance(value, str) and _KAFKA_UUID.fullmatch(value):
            numbers.append(int.from_bytes(uuids.from_text(value), "big"))
    return numbers
