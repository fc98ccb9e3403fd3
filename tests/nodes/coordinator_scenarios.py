"""Coordinators whose records are lost with their leader, and topics that are created again."""

from __future__ import annotations

from typing import Any

from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStateData
from kwire.messages.initialize_share_group_state import PartitionData as InitializePartition
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.messages.read_share_group_state import PartitionData as ReadPartition
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kwire.messages.write_share_group_state import PartitionData as WritePartition
from kwire.messages.write_share_group_state import StateBatch, WriteShareGroupStateRequest, WriteStateData
from kwire.uuids import to_text
from tests.nodes.replica_requests import alter_topic_config, append_batch
from tests.nodes.scenario_client import ScenarioClient
from tests.nodes.share_requests import acknowledge_run, fetch_request, fetch_share_records, summarize_response

_LOSSY = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
_SAFE = {"unclean.leader.election.enable": "false", "min.insync.replicas": "1"}


def find_coordinator(client: ScenarioClient, node: int, kind: int, key: str) -> int:
    """The coordinator of a key, as soon as there is one."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
    row = client.wait_until(lambda: client.send(node, request, 6).coordinators[0], lambda row: row.error_code == 0)
    return int(row.node_id)


def is_available(row: Any) -> bool:
    """Whether a coordinator has answered: no code that requests a retry."""
    return row.error_code not in (14, 15, 16)


def commit_offset(client: ScenarioClient, node: int, offset: int) -> int:
    """OffsetCommit of a consumer without a group's protocol; its code."""
    rows = [OffsetCommitRequestTopic("kept", partitions=[OffsetCommitRequestPartition(0, offset)])]
    request = OffsetCommitRequest("committers", topics=rows)
    row = client.wait_until(lambda: client.send(node, request, 8).topics[0].partitions[0], is_available)
    return int(row.error_code)


def fetch_committed_offset(client: ScenarioClient, node: int) -> Any:
    """OffsetFetch: code of the group, code of the row, offset."""
    group = OffsetFetchRequestGroup("committers", topics=[OffsetFetchRequestTopics("kept", partition_indexes=(0,))])
    answer = client.send(node, OffsetFetchRequest(groups=[group]), 8).groups[0]
    rows = [row for topic in answer.topics for row in topic.partitions]
    return [answer.error_code, *((row.error_code, row.committed_offset) for row in rows)]


def offsets_that_the_next_coordinator_lacks(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A group's coordinator commits alone, and is killed; the first node to restart has the previous offsets."""
    client.create_topic("kept", [(0, 1, 2)])
    first = find_coordinator(client, 0, 0, "committers")
    second, third = (first + 1) % 3, (first + 2) % 3
    alter_topic_config(client, "__consumer_offsets", {"unclean.leader.election.enable": "true"})
    observed["before"] = commit_offset(client, first, 3)
    client.pass_time(1)
    for node in (second, third):
        client.cluster.stop(node)
    client.wait_for_brokers(first, [first])
    observed["alone"] = commit_offset(client, first, 7)
    observed["alone, fetched"] = fetch_committed_offset(client, first)
    client.cluster.kill(first)
    client.pass_time(6)  # Its session ends.
    client.cluster.start(second)
    observed["the next coordinates"] = find_coordinator(client, second, 0, "committers") == second
    observed["lost"] = client.wait_until(
        lambda: fetch_committed_offset(client, second), lambda row: row[0] not in (14, 15, 16)
    )
    observed["after"] = commit_offset(client, second, 4)
    for node in (third, first):
        client.cluster.start(node)
    client.wait_for_brokers(second, [0, 1, 2])
    alter_topic_config(client, "__consumer_offsets", {"unclean.leader.election.enable": "false"})
    observed["with all"] = fetch_committed_offset(client, second)


def write(client: ScenarioClient, node: int, topic_id: bytes, start: int) -> int:
    """WriteShareGroupState with a start offset and the batch before it; the code."""
    row = WritePartition(0, 0, 0, start, -1, [StateBatch(start, start, 2, 1)])
    request = WriteShareGroupStateRequest("stored", [WriteStateData(topic_id, [row])])
    return int(client.send(node, request, 1).results[0].partitions[0].error_code)


def read_share_state(client: ScenarioClient, node: int, topic_id: bytes) -> Any:
    """ReadShareGroupState: code, state epoch, start offset, batches."""
    request = ReadShareGroupStateRequest("stored", [ReadStateData(topic_id, [ReadPartition(0, 0)])])
    row = client.send(node, request, 0).results[0].partitions[0]
    batches = [[one.first_offset, one.last_offset, one.delivery_state, one.delivery_count] for one in row.state_batches]
    return [row.error_code, row.state_epoch, row.start_offset, batches]


def state_that_the_next_coordinator_lacks(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The share coordinator stores state alone, and is killed; the first node to restart has the previous state."""
    client.create_topic("stored", [(0, 1, 2)])
    topic_id = client.topic_id("stored")
    first = find_coordinator(client, 0, 2, f"stored:{to_text(topic_id)}:0")
    second, third = (first + 1) % 3, (first + 2) % 3
    alter_topic_config(client, "__share_group_state", _LOSSY)
    row = InitializePartition(partition=0, state_epoch=0, start_offset=0)
    begin = InitializeShareGroupStateRequest("stored", [InitializeStateData(topic_id, [row])])
    state = client.wait_until(lambda: client.send(first, begin, 0).results[0].partitions[0], is_available)
    observed["initialized"] = state.error_code
    observed["before"] = write(client, first, topic_id, 5)
    client.pass_time(1)
    for node in (second, third):
        client.cluster.stop(node)
    client.wait_for_brokers(first, [first])
    observed["alone"] = write(client, first, topic_id, 9)
    observed["alone, read"] = read_share_state(client, first, topic_id)
    client.cluster.kill(first)
    client.pass_time(6)  # Its session ends.
    client.cluster.start(second)
    key = f"stored:{to_text(topic_id)}:0"
    observed["the next coordinates"] = find_coordinator(client, second, 2, key) == second
    observed["lost"] = client.wait_until(
        lambda: read_share_state(client, second, topic_id), lambda row: row[0] not in (14, 15, 16)
    )
    observed["after"] = write(client, second, topic_id, 6)
    for node in (third, first):
        client.cluster.start(node)
    client.wait_for_brokers(second, [0, 1, 2])
    alter_topic_config(client, "__share_group_state", {**_SAFE, "min.insync.replicas": "2"})
    observed["with all"] = read_share_state(client, second, topic_id)


def a_topic_is_made_again_under_a_share_session(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A member holds records of a topic that is deleted, and created again with the same name on another node."""
    client.create_topic("again", [(1, 2)])
    old = client.topic_id("again")
    client.join_share_group("again")
    append_batch(client, 1, "again", b"a", 4, acks=-1)
    observed["delivered"] = fetch_share_records(client, 1, old, 0)
    observed["settled"] = acknowledge_run(client, 1, old, 1, (0, 0))
    client.send(0, DeleteTopicsRequest(topics=[DeleteTopicState(name="again")], timeout_ms=10_000), 6)
    client.create_topic("again", [(2, 1)])
    new = client.topic_id("again")
    client.wait_until(lambda: append_batch(client, 2, "again", b"b", 2, acks=-1), lambda row: row[0] == 0)
    observed["acknowledged too late"] = acknowledge_run(client, 1, old, 2, (1, 1))
    observed["fetched too late"] = fetch_share_records(client, 1, old, 3)
    observed["another id"] = old != new
    member = client.join_share_group("again")
    observed["assigned"] = member > 0
    observed["delivered again"] = fetch_share_records(client, 2, new, 0)
    observed["acknowledged again"] = acknowledge_run(client, 2, new, 1, (0, 1))
    observed["old one, listed again"] = summarize_response(client.send(2, fetch_request(old, 2), 2))


SCENARIOS = (
    offsets_that_the_next_coordinator_lacks,
    state_that_the_next_coordinator_lacks,
    a_topic_is_made_again_under_a_share_session,
)
