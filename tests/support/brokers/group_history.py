"""Requests to groups whose records are compared with those of Apache Kafka, and the form of records to compare.

The same requests go to a broker on virtual time and to a real one. Kafka orders the topics of a list by a hash of their
ids, so no order is compared there. Times, hashes and client ids become "?", member ids that a broker chose become
member0, and topic ids the names of their topics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tests.support.brokers.group_broker import decode_group_record
from tests.support.brokers.group_requests import commit, join, share, sync
from tests.support.brokers.streams_requests import story

#: Topics with their numbers of partitions, and the configuration of the broker.
TOPICS = {"T": 2, "U": 1}
CONFIG = {"group.initial.rebalance.delay.ms": "0"}
STREAMS_TOPICS = {"T": 2}
STREAMS_CONFIG = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
GROUPS = ("altered", "byid", "classic", "consumer", "never", "regex", "share", "simple")
TIMES = {"currentStateTimestamp", "commitTimestamp", "assignmentTimestamp", "timestamp"}
VOLATILE = TIMES | {"clientId", "metadataHash", "version"}
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1T\xff\xff\xff\xff"
HIDDEN = "?" * 16

#: The records of `__consumer_offsets` by batch.
Batches = Iterable[Iterable[Any]]


class GroupClient(Protocol):
    """Sends requests to a broker with the topics of `TOPICS`."""

    def call(self, request: msgspec.Struct, version: int) -> Any:
        """The response."""

    def advance(self, ms: int) -> None:
        """Let time pass."""

    def topic_id(self, name: str) -> bytes:
        """The id of a topic."""


def consumer(group_id: str, member_id: str, epoch: int, **says: Any) -> ConsumerGroupHeartbeatRequest:
    first = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if epoch == 0 else {}
    return ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, **{**first, **says})


def alter(group_id: str, topic: str, partition: int) -> AlterShareGroupOffsetsRequest:
    rows = [AlterShareGroupOffsetsRequestPartition(partition, 0)]
    return AlterShareGroupOffsetsRequest(group_id, [AlterShareGroupOffsetsRequestTopic(topic, rows)])


def play_classic(broker: GroupClient) -> None:
    member_id = broker.call(join("", SUBSCRIPTION, group_id="classic"), 9).member_id
    broker.call(join(member_id, SUBSCRIPTION, group_id="classic"), 9)
    broker.call(sync(member_id, group_id="classic", assigned={member_id: b"part"}), 5)
    broker.call(commit(7, 8, group_id="classic", member_id=member_id, epoch=1), 9)
    broker.call(LeaveGroupRequest("classic", members=[MemberIdentity(member_id)]), 5)
    broker.call(consumer("classic", "m", 0, subscribed_topic_names=("T",)), 1)
    broker.call(consumer("classic", "m", -1), 1)
    broker.call(join("", SUBSCRIPTION, group_id="classic"), 9)
    broker.call(DeleteGroupsRequest(("classic",)), 2)


def play_offsets(broker: GroupClient) -> None:
    broker.call(commit(3, group_id="simple"), 9)
    rows = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(1)]
    broker.call(OffsetDeleteRequest("simple", [OffsetDeleteRequestTopic("T", rows)]), 0)
    broker.call(commit(4, group_id="simple"), 9)
    broker.call(DeleteGroupsRequest(("simple",)), 2)
    by_id = commit(5, group_id="byid")
    by_id.topics[0].topic_id = broker.topic_id("T")
    broker.call(by_id, 10)


def play_consumer(broker: GroupClient) -> None:
    static = {"subscribed_topic_names": ("T",), "instance_id": "i"}
    broker.call(consumer("consumer", "m", 0, subscribed_topic_names=("T",)), 1)
    broker.advance(1_200)
    broker.call(consumer("consumer", "n", 0, **static), 1)
    broker.advance(1_200)
    owned = [TopicPartitions(broker.topic_id("T"), (0, 1))]
    broker.call(consumer("consumer", "m", 2, topic_partitions=owned), 1)
    broker.call(consumer("consumer", "n", -2, instance_id="i"), 1)
    broker.call(consumer("consumer", "o", 0, **static), 1)
    broker.call(consumer("consumer", "m", -1), 1)
    broker.call(consumer("consumer", "o", -1, instance_id="i"), 1)
    broker.call(DeleteGroupsRequest(("consumer",)), 2)
    broker.call(consumer("regex", "m", 0, subscribed_topic_regex="T|U"), 1)
    broker.advance(1_500)
    broker.call(consumer("regex", "m", 1, topic_partitions=[]), 1)
    broker.call(consumer("regex", "m", -1), 1)
    broker.call(DeleteGroupsRequest(("regex",)), 2)


def play_share(broker: GroupClient) -> None:
    broker.call(share(0, "T", group_id="share"), 1)
    broker.advance(4_000)
    broker.call(share(2, group_id="share"), 1)
    broker.advance(2_000)
    broker.call(share(3, "T", "U", group_id="share"), 1)
    broker.advance(4_000)
    broker.call(share(-1, group_id="share"), 1)
    broker.call(DeleteShareGroupOffsetsRequest("share", [DeleteShareGroupOffsetsRequestTopic("T")]), 0)
    broker.call(alter("share", "U", 0), 0)
    broker.call(DeleteGroupsRequest(("share",)), 2)
    for name, partition in (("altered", 0), ("never", 9)):
        broker.call(alter(name, "T", partition), 0)
        broker.call(DeleteGroupsRequest((name,)), 2)


def send_group_requests(broker: GroupClient) -> None:
    """The lives of all `GROUPS`."""
    for play in (play_classic, play_offsets, play_consumer, play_share):
        play(broker)


def send_streams_requests(broker: GroupClient) -> None:
    """The life of the streams group "g"."""
    for request in story():
        answer = broker.call(request, 0)
        assert answer.error_code == 0, answer.error_message
        broker.advance(0)
    broker.call(DeleteGroupsRequest(("g",)), 2)


def group_lines(batches: Batches, topic_names: Mapping[str, str]) -> dict[str, list[Any]]:
    """The records of each group, with the number of their batch. topic_names: by id as text."""
    found: dict[str, list[Any]] = {}
    for batch in batches:
        lines = [_line(record) for record in batch]
        group_id = next(iter(lines[0]["key"].values()))
        number = found[group_id][-1]["batch"] + 1 if group_id in found else 0
        found.setdefault(group_id, []).extend({"group": group_id, "batch": number, **line} for line in lines)
    return {group_id: [normalize(line, topic_names, {}) for line in lines] for group_id, lines in found.items()}


def streams_lines(batches: Batches) -> list[dict[str, Any]]:
    """The records of the streams group, values in hex."""
    found = []
    for number, batch in enumerate(batches):
        for record in batch:
            line = decode_group_record(record)
            value = _mask_value(line.kind, record.value)
            found.append({"batch": number, "kind": line.kind, "member": line.key.get("memberId"), "bytes": value})
    return found


def _mask_value(kind: str, value: bytes | None) -> str | None:
    """A value in hex, without the hash of the metadata and the time of an assignment."""
    if value is None:
        return None
    text = bytes(value).hex()
    if kind == "StreamsGroupMetadata":
        return text[:12] + HIDDEN + text[28:]
    return text[:-16] + HIDDEN if kind == "StreamsGroupTargetAssignmentMetadata" else text


def _line(record: Any) -> dict[str, Any]:
    line = decode_group_record(record)
    value = None if line.value is None else {"version": line.version, "data": line.value}
    return {"kind": line.kind, "key": line.key, "value": value}


def normalize(found: Any, ids: Mapping[str, str], members: dict[str, str], *, inside: bool = False) -> Any:
    """Without what no two runs have in common."""
    if isinstance(found, dict):
        return {
            name: "?"
            if inside and name in VOLATILE and each not in (-1, 0)
            else normalize(each, ids, members, inside=inside or name == "data")
            for name, each in found.items()
        }
    if isinstance(found, list):
        return sorted((normalize(each, ids, members, inside=inside) for each in found), key=json.dumps)
    if isinstance(found, str) and found in ids:
        return f"id-{ids[found]}"
    if isinstance(found, str) and found.startswith("client-a-"):
        return members.setdefault(found, f"member{len(members)}")
    return found
