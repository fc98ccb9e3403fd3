"""Names that the requests of one sequence share: topics, groups, members, producers, as variables of a script."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

ZERO_UUID = "A" * 22


class Topic(NamedTuple):
    """A topic: its name and id as a script writes them, and how many partitions it has."""

    name: str
    topic_id: str
    partitions: int


TOPICS = (
    Topic("t-${run}", "${t}", 2),
    Topic("u-${run}", "${u}", 1),
    Topic("c-${run}", "${c}", 1),
)
MISSING_TOPIC = Topic("none-${run}", "${uuid:nowhere}", 1)
#: Names that are no topics; "$" is followed by no brace.
INVALID_TOPICS = tuple(Topic(name, ZERO_UUID, 1) for name in ("", "bad name!", ".", "x" * 250))
INTERNAL_TOPICS = tuple(
    Topic(name, ZERO_UUID, 1) for name in ("__consumer_offsets", "__transaction_state", "__share_group_state")
)

#: Groups by type. The group `o` has offsets and no members.
GROUPS = {
    "classic": "g-${run}",
    "consumer": "k-${run}",
    "share": "s-${run}",
    "streams": "r-${run}",
    "simple": "o-${run}",
}
MISSING_GROUP = "nog-${run}"

#: Members of a group: variables of their id and of their generation or epoch, by type of the group.
MEMBERS = {
    "classic": ("j1", "j2"),
    "consumer": ("k1", "k2"),
    "share": ("s1", "s2"),
    "streams": ("r1", "r2"),
}
TRANSACTIONAL_IDS = {"x": "x-${run}", "y": "y-${run}"}

#: Values before a response has set a variable, so that a sequence without the response can still be run.
DEFAULTS: dict[str, Any] = {
    "t": ZERO_UUID,
    "u": ZERO_UUID,
    "c": ZERO_UUID,
    "j1": "",
    "j2": "",
    "j1_e": -1,
    "j2_e": -1,
    "k1": "k1",
    "k2": "k2",
    "k1_e": 0,
    "k2_e": 0,
    "s1": "s1",
    "s2": "s2",
    "s1_e": 0,
    "s2_e": 0,
    "r1": "r1",
    "r2": "r2",
    "r1_e": 0,
    "r2_e": 0,
    "pid_x": -1,
    "pid_y": -1,
    "pid_i": -1,
    "pid_x_e": -1,
    "pid_y_e": -1,
    "pid_i_e": -1,
    "fetch_session": 0,
    "telemetry": ZERO_UUID,
    "subscription": 0,
}


@dataclass
class Focus:
    """What the fields of one struct refer to, so that the fields of a request belong together."""

    group_type: str = "classic"
    group: str = MISSING_GROUP
    member: str = "j1"
    topic: Topic = MISSING_TOPIC
    producer: str = "x"
    resource_type: int = 2
    version: int = 0


@dataclass
class SequenceState:
    """What a sequence has done so far, as far as later requests depend on it."""

    rng: random.Random
    topics: list[Topic] = field(default_factory=list)
    #: The next epoch of each session, by member or connection.
    session_epochs: dict[str, int] = field(default_factory=dict)
    #: The next sequence number of each producer and partition.
    sequences: dict[tuple[str, str, int], int] = field(default_factory=dict)
    #: The end of each partition, as far as requests were answered without an error.
    ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def is_likely(self, chance: float) -> bool:
        """True with this probability."""
        return self.rng.random() < chance

    def end_of(self, topic: Topic, partition: int) -> int:
        """The number of records that were sent to a partition."""
        return self.ends.get((topic.name, partition), 0)
