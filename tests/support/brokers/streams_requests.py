"""Requests of streams applications for tests: one of two subtopologies over the topic T, and its members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kwire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

#: Reads T, writes R; reads R and keeps its state in C.
COUNTING = Topology(
    0,
    [
        Subtopology("0", source_topics=("T",), repartition_sink_topics=("R",)),
        Subtopology(
            "1",
            repartition_source_topics=[TopicInfo("R", 0, 0, [KeyValue("cleanup.policy", "delete")])],
            state_changelog_topics=[TopicInfo("C", 0, 1, [KeyValue("cleanup.policy", "compact")])],
            copartition_groups=[CopartitionGroup(repartition_source_topics=(0,))],
        ),
    ],
)
#: Reads only T.
READING = Topology(0, [Subtopology("0", source_topics=("T",))])

Rows = Mapping[str, Sequence[int]]


def rows(tasks: Rows) -> list[TaskIds]:
    """Tasks as requests list them."""
    return [TaskIds(subtopology_id, tuple(indexes)) for subtopology_id, indexes in tasks.items()]


def beat(member_id: str, epoch: int, owned: Rows | None = None, **fields: Any) -> StreamsGroupHeartbeatRequest:
    """A heartbeat to the group "g". owned: the active tasks that the member lists; None: no list."""
    if epoch == 0:
        first = {"rebalance_timeout_ms": 60_000, "topology": READING, "process_id": f"process-{member_id}"}
        fields = {**first, **fields}
        owned = {}
    if owned is not None:
        fields = {"active_tasks": rows(owned), "standby_tasks": [], "warmup_tasks": [], **fields}
    return StreamsGroupHeartbeatRequest("g", member_id, epoch, -1, **fields)


def story() -> list[StreamsGroupHeartbeatRequest]:
    """The life of a group: its topics are made, a second member shares the tasks, both leave."""
    everything = {"0": (0, 1), "1": (0, 1)}
    tags = [KeyValue("zone", "east"), KeyValue("age", "old")]
    return [
        beat("m1", 0, topology=COUNTING, rack_id="r1", user_endpoint=Endpoint("h1", 7001), client_tags=tags),
        beat("m1", 2, {}),
        beat("m2", 0, topology=COUNTING),
        beat("m1", 3, everything),
        beat("m1", 3, {"0": (0,), "1": (0,)}),
        beat("m2", 4, {}),
        beat("m2", 4, {"0": (1,), "1": (1,)}, rack_id="r2"),
        beat("m1", -1),
        beat("m2", 5, {"0": (1,), "1": (1,)}),
        beat("m2", -1),
    ]
