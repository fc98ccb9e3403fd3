"""A cluster of three for tests of group coordinators: requests to the coordinator, its records, moving it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kwire.codec import decode, to_json
from kwire.registry import message_class
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from tests.support.brokers.broker import Broker

RECORD_NAMES = {
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


class GroupRecord(NamedTuple):
    """One record, decoded without code of the broker: its kind, key and value in Kafka's JSON form, and its time.

    version: the value's, -1 when there is none.
    """

    kind: str
    key: dict[str, Any]
    value: dict[str, Any] | None
    timestamp: int
    version: int


class GroupBroker(Broker):
    """Sends requests to the current coordinator of the group "g", with a connection to each node."""

    def __init__(self, **config: str) -> None:
        settings = {"default.replication.factor": "3", "group.initial.rebalance.delay.ms": "0", **config}
        super().__init__(nodes=3, topics={"T": 2, "U": 1}, config=settings)

    @property
    def shard(self) -> int:
        """The partition of the group."""
        return self.metadata.coordinator_partition_index(CoordinatorKind.GROUP, "g")

    @property
    def coordinator(self) -> int:
        """The node that coordinates the group."""
        return self.metadata.coordinator_id(CoordinatorKind.GROUP, "g")

    def topic_id(self, name: str) -> bytes:
        """The id of a topic."""
        return self.topic(name).topic_id

    def call_coordinator(self, request: msgspec.Struct, version: int, *, who: str = "", settle: bool = True) -> Any:
        """Send a request to the coordinator. who: the client, which has a connection to each node."""
        node = self.coordinator
        return self.call(request, version, connection=f"{who}@{node}", node=node, settle=settle)

    def move_coordinator(self) -> int:
        """Move the coordinator of the group to the next node. Returns: that node."""
        new = (self.coordinator + 1) % 3
        self.core.move_leader("__consumer_offsets", self.shard, self.now_ms, to=new)
        self.advance(0)
        return new

    def read_batches(self) -> list[list[GroupRecord]]:
        """The records of the group's partition, by batch."""
        log = self.leader_log("__consumer_offsets", self.shard)
        return [
            [decode_group_record(record) for record in batch.records()]
            for batch in log.read(log.start_offset, 1 << 60).batches
            if not batch.header().is_control
        ]


class VirtualGroupClient(Broker):
    """Sends requests to a broker on virtual time, of which all records are read."""

    def topic_id(self, name: str) -> bytes:
        """The id of a topic."""
        return self.topic(name).topic_id

    def read_all_batches(self) -> list[list[Any]]:
        """The records of `__consumer_offsets` by batch, one partition after another."""
        logs = (self.leader_log("__consumer_offsets", row.index) for row in self.topic("__consumer_offsets").partitions)
        return [list(batch.records()) for log in logs for batch in log.read(0, 1 << 60).batches]


def decode_group_record(record: Any) -> GroupRecord:
    """Decode a record."""
    kind = RECORD_NAMES[int.from_bytes(record.key[:2], "big")]
    key = to_json(decode(message_class(f"{kind}Key"), 0, record.key[2:]), 0)
    value, version = None, -1
    if record.value is not None:
        version = int.from_bytes(record.value[:2], "big")
        value = to_json(decode(message_class(f"{kind}Value"), version, record.value[2:]), version)
    return GroupRecord(kind, key, value, record.timestamp, version)
