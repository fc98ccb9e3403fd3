"""The records of groups against those of Apache Kafka 4.3.0, which was sent the same requests (group_records.jsonl).

Times, hashes and client ids are "?" there, member ids that a broker made up are member0 and so on; topics have their
names for ids. Kafka orders the topics of a list by a hash of their ids, so no order is compared there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire import uuids
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
from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.mockbroker.broker import Broker
from tests.mockbroker.group_broker import line_of

RECORDED = Path(__file__).with_name("group_records.jsonl")
GROUPS = ("altered", "byid", "classic", "consumer", "never", "regex", "share", "simple")
VOLATILE = frozenset(
    {
        "clientId",
        "metadataHash",
        "currentStateTimestamp",
        "commitTimestamp",
        "assignmentTimestamp",
        "timestamp",
        "version",
    }
)
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1T\xff\xff\xff\xff"


def topic_id(broker: Broker, name: str) -> bytes:
    topic = broker.core.state.metadata.topic(name)
    assert topic is not None
    return topic.topic_id


def commit(group_id: str, *offsets: int, member_id: str = "", epoch: int = -1) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(index, offset, 5, "note") for index, offset in enumerate(offsets)]
    return OffsetCommitRequest(group_id, epoch, member_id, topics=[OffsetCommitRequestTopic("T", partitions=rows)])


def consumer(group_id: str, member_id: str, epoch: int, **says: Any) -> ConsumerGroupHeartbeatRequest:
    first = {"rebalance_timeout_ms": 60_000, "topic_partitions": []} if epoch == 0 else {}
    return ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, **{**first, **says})


def share(group_id: str, epoch: int, *topics: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group_id, "m", epoch, None, topics or None)


def alter(group_id: str, topic: str, partition: int) -> AlterShareGroupOffsetsRequest:
    rows = [AlterShareGroupOffsetsRequestPartition(partition, 0)]
    return AlterShareGroupOffsetsRequest(group_id, [AlterShareGroupOffsetsRequestTopic(topic, rows)])


def play_classic(broker: Broker) -> None:
    def join(member_id: str = "") -> Any:
        protocols = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
        return broker.ask(JoinGroupRequest("classic", 10_000, 60_000, member_id, None, "consumer", protocols), 9)

    member_id = join().member_id
    join(member_id)
    parts = [SyncGroupRequestAssignment(member_id, b"part")]
    broker.ask(SyncGroupRequest("classic", 1, member_id, None, "consumer", "range", parts), 5)
    broker.ask(commit("classic", 7, 8, member_id=member_id, epoch=1), 9)
    broker.ask(LeaveGroupRequest("classic", members=[MemberIdentity(member_id)]), 5)
    broker.ask(consumer("classic", "m", 0, subscribed_topic_names=("T",)), 1)
    broker.ask(consumer("classic", "m", -1), 1)
    join()
    broker.ask(DeleteGroupsRequest(("classic",)), 2)


def play_offsets(broker: Broker) -> None:
    broker.ask(commit("simple", 3), 9)
    rows = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(1)]
    broker.ask(OffsetDeleteRequest("simple", [OffsetDeleteRequestTopic("T", rows)]), 0)
    broker.ask(commit("simple", 4), 9)
    broker.ask(DeleteGroupsRequest(("simple",)), 2)
    by_id = commit("byid", 5)
    by_id.topics[0].topic_id = topic_id(broker, "T")
    broker.ask(by_id, 10)


def play_consumer(broker: Broker) -> None:
    static = {"subscribed_topic_names": ("T",), "instance_id": "i"}
    broker.ask(consumer("consumer", "m", 0, subscribed_topic_names=("T",)), 1)
    broker.advance(1_200)
    broker.ask(consumer("consumer", "n", 0, **static), 1)
    broker.advance(1_200)
    owned = [TopicPartitions(topic_id(broker, "T"), (0, 1))]
    broker.ask(consumer("consumer", "m", 2, topic_partitions=owned), 1)
    broker.ask(consumer("consumer", "n", -2, instance_id="i"), 1)
    broker.ask(consumer("consumer", "o", 0, **static), 1)
    broker.ask(consumer("consumer", "m", -1), 1)
    broker.ask(consumer("consumer", "o", -1, instance_id="i"), 1)
    broker.ask(DeleteGroupsRequest(("consumer",)), 2)
    broker.ask(consumer("regex", "m", 0, subscribed_topic_regex="T|U"), 1)
    broker.advance(1_500)
    broker.ask(consumer("regex", "m", 1, topic_partitions=[]), 1)
    broker.ask(consumer("regex", "m", -1), 1)
    broker.ask(DeleteGroupsRequest(("regex",)), 2)


def play_share(broker: Broker) -> None:
    broker.ask(share("share", 0, "T"), 1)
    broker.advance(4_000)
    broker.ask(share("share", 2), 1)
    broker.advance(2_000)
    broker.ask(share("share", 3, "T", "U"), 1)
    broker.advance(4_000)
    broker.ask(share("share", -1), 1)
    broker.ask(DeleteShareGroupOffsetsRequest("share", [DeleteShareGroupOffsetsRequestTopic("T")]), 0)
    broker.ask(alter("share", "U", 0), 0)
    broker.ask(DeleteGroupsRequest(("share",)), 2)
    for name, partition in (("altered", 0), ("never", 9)):
        broker.ask(alter(name, "T", partition), 0)
        broker.ask(DeleteGroupsRequest((name,)), 2)


@pytest.fixture(scope="module")
def written() -> dict[str, list[Any]]:
    """What our log has of each group after the same requests, in the form of the recorded lines."""
    broker = Broker(topics={"T": 2, "U": 1}, config={"group.initial.rebalance.delay.ms": "0"})
    for play in (play_classic, play_offsets, play_consumer, play_share):
        play(broker)
    found: dict[str, list[Any]] = {}
    for batch in _batches(broker):
        group_id = next(iter(batch[0]["key"].values()))
        number = found[group_id][-1]["batch"] + 1 if group_id in found else 0
        found.setdefault(group_id, []).extend({"group": group_id, "batch": number, **line} for line in batch)
    ids = {uuids.to_text(topic_id(broker, name)): name for name in ("T", "U")}
    return {group_id: [_blurred(line, ids, {}) for line in lines] for group_id, lines in found.items()}


def _batches(broker: Broker) -> Iterator[list[dict[str, Any]]]:
    metadata = broker.core.state.metadata
    topic = metadata.topic("__consumer_offsets")
    assert topic is not None
    for partition in topic.partitions:
        log = broker.core.state.nodes[partition.leader].logs.get(topic.topic_id, partition.index)
        for batch in log.read(0, 1 << 60).batches:
            yield [_line(record) for record in batch.records()]


def _line(record: Any) -> dict[str, Any]:
    line = line_of(record)
    value = None if line.value is None else {"version": line.version, "data": line.value}
    return {"kind": line.kind, "key": line.key, "value": value}


def _blurred(found: Any, ids: dict[str, str], members: dict[str, str], *, inside: bool = False) -> Any:
    """Without what no two runs have in common."""
    if isinstance(found, dict):
        return {
            name: "?"
            if inside and name in VOLATILE and each not in (-1, 0)
            else _blurred(each, ids, members, inside=inside or name == "data")
            for name, each in found.items()
        }
    if isinstance(found, list):
        return sorted((_blurred(each, ids, members, inside=inside) for each in found), key=json.dumps)
    if isinstance(found, str) and found in ids:
        return f"id-{ids[found]}"
    if isinstance(found, str) and found.startswith("client-a-"):
        return members.setdefault(found, f"member{len(members)}")
    return found


@pytest.mark.parametrize("group_id", GROUPS)
def test_the_records_are_those_of_a_real_broker(written: dict[str, list[Any]], group_id: str) -> None:
    lines = map(json.loads, RECORDED.read_text().splitlines())
    recorded = [_blurred(line, {}, {}) for line in lines if line["group"] == group_id]

    assert recorded
    assert written[group_id] == recorded
