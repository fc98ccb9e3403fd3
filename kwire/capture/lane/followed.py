"""The session columns where all flows are clean: only fetches, and what names topics, become objects for them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire import registry
from kwire.capture.lane.shapes import Struct, plan
from kwire.capture.sessions import Sessions
from kwire.capture.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from kwire.capture.index.building.pairing import Exchanges
    from kwire.capture.lane.objects import Objects

_FETCHES = frozenset({1, 78, 79})
COLUMNS = ("session_id", "session_epoch", "session_partitions")


class Told(NamedTuple):
    """The values of the columns for each exchange of a part."""

    session_id: list[int | None]
    session_epoch: list[int | None]
    session_partitions: list[str | None]


class Followed:
    """Follows the sessions of a capture, exchange by exchange in the order of their completion."""

    def __init__(self, objects: Objects, topics: Mapping[str, str]) -> None:
        """`topics` are the names that the user gave."""
        self._objects = objects
        self._sessions = Sessions()
        self._names = TopicNames(topics)

    def told(self, found: Exchanges) -> Told:
        """What there is to tell of all exchanges of a part."""
        out = Told([None] * len(found), [None] * len(found), [None] * len(found))
        mine = np.nonzero(_concern(found))[0]
        for place, (_, exchange) in zip(mine.tolist(), self._objects.exchanges(found.of(mine)), strict=True):
            for side in (exchange.request, exchange.response):
                if side is not None and side.body is not None:
                    self._names.learn(side.body)
            session = self._sessions.follow(exchange)
            if session is not None:
                out.session_id[place], out.session_epoch[place] = session.id, session.epoch
                if session.partitions is not None:
                    out.session_partitions[place] = session.partitions.text(self._names)
        return out


def _concern(found: Exchanges) -> npt.NDArray[np.bool_]:
    """Which exchanges belong to sessions, or may name topics."""
    key = (found.request.api_key << 16) | (found.request.api_version & 0xFFFF)
    kinds, inverse = np.unique(key, return_inverse=True)
    concern = [_concerns(each >> 16, (each & 0xFFFF ^ 0x8000) - 0x8000) for each in kinds.tolist()]
    return np.array(concern, dtype=np.bool_)[inverse] if concern else np.zeros(0, dtype=np.bool_)


@cache
def _concerns(api_key: int, version: int) -> bool:
    if api_key in _FETCHES:
        return True
    if api_key not in registry.API_KEYS:
        return False
    name = registry.api_name(api_key)
    plans = [plan(f"{name}Request", version), plan(f"{name}Response", version)]
    # What only the exact decoder can read may name anything.
    return any(each is None or _names_topics(each.struct) for each in plans)


def _names_topics(struct: Struct) -> bool:
    """Whether topics in it may have both name and id."""
    steps = [*struct.steps, *struct.tagged.values()]
    uses = {step.use for step in steps}
    return {"name", "topic_id"} <= uses or any(step.inner is not None and _names_topics(step.inner) for step in steps)
