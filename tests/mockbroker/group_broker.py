"""A cluster of three for the tests of group coordinators: whom to ask for a group, what its log says, how it moves."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kwire.codec import decode, to_json
from kwire.registry import message_class
from mockbroker.state.metadata import CoordinatorKind
from tests.mockbroker.broker import Broker

NAMES = {
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}


class Line(NamedTuple):
    """One record, decoded without the broker's help: its kind, key and value in Kafka's JSON form, and its time.

    version: the value's, -1 when there is none.
    """

    kind: str
    key: dict[str, Any]
    value: dict[str, Any] | None
    timestamp: int
    version: int


class GroupBroker(Broker):
    """Requests go to whoever coordinates the group "g" now, each node by a connection of its own."""

    def __init__(self, **config: str) -> None:
        settings = {"default.replication.factor": "3", "group.initial.rebalance.delay.ms": "0", **config}
        super().__init__(nodes=3, topics={"T": 2, "U": 1}, config=settings)

    @property
    def shard(self) -> int:
        """The partition of the group."""
        return self.core.state.metadata.coordinator_partition(CoordinatorKind.GROUP, "g")

    @property
    def coordinator(self) -> int:
        """The node that coordinates the group."""
        return self.core.state.metadata.coordinator_for(CoordinatorKind.GROUP, "g")

    def topic_id(self, name: str) -> bytes:
        """The id of a topic."""
        topic = self.core.state.metadata.topic(name)
        assert topic is not None
        return topic.topic_id

    def beat(self, request: msgspec.Struct, version: int, *, who: str = "", settle: bool = True) -> Any:
        """Ask the coordinator; who: the client, which has a connection to each node."""
        node = self.coordinator
        return self.ask(request, version, connection=f"{who}@{node}", node=node, settle=settle)

    def move(self) -> int:
        """Have another node coordinate the group, and return it."""
        new = (self.coordinator + 1) % 3
        self.core.move_leader("__consumer_offsets", self.shard, self.now_ms, to=new)
        self.advance(0)
        return new

    def batches(self) -> list[list[Line]]:
        """What the group's partition has, batch by batch."""
        node = self.core.state.nodes[self.coordinator]
        log = node.logs.get(self.topic_id("__consumer_offsets"), self.shard)
        return [
            [line_of(record) for record in batch.records()]
            for batch in log.read(log.start_offset, 1 << 60).batches
            if not batch.header().is_control
        ]


def line_of(record: Any) -> Line:
    """Decode a record."""
    kind = NAMES[int.from_bytes(record.key[:2], "big")]
    key = to_json(decode(message_class(f"{kind}Key"), 0, record.key[2:]), 0)
    value, version = None, -1
    if record.value is not None:
        version = int.from_bytes(record.value[:2], "big")
        value = to_json(decode(message_class(f"{kind}Value"), version, record.value[2:]), version)
    return Line(kind, key, value, record.timestamp, version)
