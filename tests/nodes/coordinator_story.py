"""Coordinators whose records are lost with their leader, and topics that are made again."""

from __future__ import annotations

from typing import Any

from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from kwire.messages.initialize_share_group_state import PartitionData as InitializePartition
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.messages.read_share_group_state import PartitionData as ReadPartition
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kwire.messages.write_share_group_state import PartitionData as WritePartition
from kwire.messages.write_share_group_state import StateBatch, WriteShareGroupStateRequest, WriteStateData
from kwire.uuids import to_text
from tests.nodes.replica_kit import append, configure
from tests.nodes.share_story import deliver, settle
from tests.nodes.story import answered, fetch_request
from tests.nodes.teller import Teller

_LOSSY = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
_SAFE = {"unclean.leader.election.enable": "false", "min.insync.replicas": "1"}


def coordinator_of(teller: Teller, node: int, kind: int, key: str) -> int:
    """Who coordinates a key, once there is somebody."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
    answer = teller.until(lambda: teller.ask(node, request, 6), lambda seen: seen.coordinators[0].error_code == 0)
    found = answer.coordinators[0].node_id
    assert isinstance(found, int)
    return found


def commit(teller: Teller, node: int, offset: int) -> int:
    """OffsetCommit of a consumer without a group's protocol; its code."""
    rows = [OffsetCommitRequestTopic("kept", partitions=[OffsetCommitRequestPartition(0, offset)])]
    answer = teller.until(
        lambda: teller.ask(node, OffsetCommitRequest("committers", topics=rows), 8),
        lambda seen: seen.topics[0].partitions[0].error_code not in (14, 15, 16),
    )
    code = answer.topics[0].partitions[0].error_code
    assert isinstance(code, int)
    return code


def committed(teller: Teller, node: int) -> Any:
    """OffsetFetch: code of the group, code of the row, offset."""
    group = OffsetFetchRequestGroup("committers", topics=[OffsetFetchRequestTopics("kept", partition_indexes=(0,))])
    answer = teller.ask(node, OffsetFetchRequest(groups=[group]), 8).groups[0]
    rows = [row for topic in answer.topics for row in topic.partitions]
    return [answer.error_code, *((row.error_code, row.committed_offset) for row in rows)]


def offsets_that_the_next_coordinator_lacks(teller: Teller, seen: dict[str, Any]) -> None:
    """A group's coordinator commits alone, and dies; who comes back first has the offsets of before."""
    teller.create("kept", [(0, 1, 2)])
    first = coordinator_of(teller, 0, 0, "committers")
    second, third = (first + 1) % 3, (first + 2) % 3
    configure(teller, "__consumer_offsets", {"unclean.leader.election.enable": "true"})
    seen["before"] = commit(teller, first, 3)
    teller.let_pass(1)
    for node in (second, third):
        teller.venue.stop(node)
    teller.until(lambda: teller.brokers(first), lambda brokers: brokers == [first])
    seen["alone"] = commit(teller, first, 7)
    seen["alone, fetched"] = committed(teller, first)
    teller.venue.kill(first)
    teller.let_pass(6)  # Its session ends.
    teller.venue.start(second)
    seen["the next coordinates"] = coordinator_of(teller, second, 0, "committers") == second
    seen["lost"] = teller.until(lambda: committed(teller, second), lambda row: row[0] not in (14, 15, 16))
    seen["after"] = commit(teller, second, 4)
    for node in (third, first):
        teller.venue.start(node)
    teller.until(lambda: teller.brokers(second), lambda brokers: brokers == [0, 1, 2])
    configure(teller, "__consumer_offsets", {"unclean.leader.election.enable": "false"})
    seen["with all"] = committed(teller, second)


def write(teller: Teller, node: int, topic_id: bytes, start: int) -> int:
    """WriteShareGroupState with a start offset and the batch before it; the code."""
    row = WritePartition(0, 0, 0, start, -1, [StateBatch(start, start, 2, 1)])
    request = WriteShareGroupStateRequest("stored", [WriteStateData(topic_id, [row])])
    code = teller.ask(node, request, 1).results[0].partitions[0].error_code
    assert isinstance(code, int)
    return code


def stored(teller: Teller, node: int, topic_id: bytes) -> Any:
    """ReadShareGroupState: code, state epoch, start offset, batches."""
    request = ReadShareGroupStateRequest("stored", [ReadStateData(topic_id, [ReadPartition(0, 0)])])
    row = teller.ask(node, request, 0).results[0].partitions[0]
    batches = [[one.first_offset, one.last_offset, one.delivery_state, one.delivery_count] for one in row.state_batches]
    return [row.error_code, row.state_epoch, row.start_offset, batches]


def state_that_the_next_coordinator_lacks(teller: Teller, seen: dict[str, Any]) -> None:
    """The share coordinator stores state alone, and dies; who comes back first has that of before."""
    teller.create("stored", [(0, 1, 2)])
    topic_id = teller.topic_id("stored")
    first = coordinator_of(teller, 0, 2, f"stored:{to_text(topic_id)}:0")
    second, third = (first + 1) % 3, (first + 2) % 3
    configure(teller, "__share_group_state", _LOSSY)
    row = InitializePartition(partition=0, state_epoch=0, start_offset=0)
    begin = InitializeShareGroupStateRequest("stored", [InitializeStateData(topic_id, [row])])
    answer = teller.until(
        lambda: teller.ask(first, begin, 0),
        lambda answer: answer.results[0].partitions[0].error_code not in (14, 15, 16),
    )
    seen["initialized"] = answer.results[0].partitions[0].error_code
    seen["before"] = write(teller, first, topic_id, 5)
    teller.let_pass(1)
    for node in (second, third):
        teller.venue.stop(node)
    teller.until(lambda: teller.brokers(first), lambda brokers: brokers == [first])
    seen["alone"] = write(teller, first, topic_id, 9)
    seen["alone, read"] = stored(teller, first, topic_id)
    teller.venue.kill(first)
    teller.let_pass(6)  # Its session ends.
    teller.venue.start(second)
    key = f"stored:{to_text(topic_id)}:0"
    seen["the next coordinates"] = coordinator_of(teller, second, 2, key) == second
    seen["lost"] = teller.until(lambda: stored(teller, second, topic_id), lambda row: row[0] not in (14, 15, 16))
    seen["after"] = write(teller, second, topic_id, 6)
    for node in (third, first):
        teller.venue.start(node)
    teller.until(lambda: teller.brokers(second), lambda brokers: brokers == [0, 1, 2])
    configure(teller, "__share_group_state", {**_SAFE, "min.insync.replicas": "2"})
    seen["with all"] = stored(teller, second, topic_id)


def a_topic_is_made_again_under_a_share_session(teller: Teller, seen: dict[str, Any]) -> None:
    """A member holds records of a topic that is deleted, and made again by the same name on another node."""
    teller.create("again", [(1, 2)])
    old = teller.topic_id("again")
    teller.join("again")
    append(teller, 1, "again", b"a", 4, acks=-1)
    seen["delivered"] = deliver(teller, 1, old, 0)
    seen["settled"] = settle(teller, 1, old, 1, (0, 0))
    teller.ask(0, DeleteTopicsRequest(topics=[DeleteTopicState(name="again")], timeout_ms=10_000), 6)
    teller.create("again", [(2, 1)])
    new = teller.topic_id("again")
    teller.until(lambda: append(teller, 2, "again", b"b", 2, acks=-1), lambda row: row[0] == 0)
    seen["acknowledged too late"] = settle(teller, 1, old, 2, (1, 1))
    seen["fetched too late"] = answered(teller.ask(1, fetch_request(old, 3, listed=False), 2))
    seen["another id"] = old != new
    member = teller.join("again")
    seen["assigned"] = member > 0
    seen["delivered anew"] = deliver(teller, 2, new, 0)
    seen["settled anew"] = settle(teller, 2, new, 1, (0, 1))
    seen["old one, listed anew"] = answered(teller.ask(2, fetch_request(old, 2), 2))


STORIES = (
    offsets_that_the_next_coordinator_lacks,
    state_that_the_next_coordinator_lacks,
    a_topic_is_made_again_under_a_share_session,
)
