"""Behaviour of clients while nodes stop and leaders move, on a real cluster and on this one.

A scenario sends requests and records the answers as plain values; ids, times and texts are left out.
"""

from __future__ import annotations

from typing import Any

from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kwire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.uuids import to_text
from tests.nodes.coordinator_scenarios import find_coordinator
from tests.nodes.replica_requests import PREFERRED
from tests.nodes.scenario_client import GROUP, MEMBER, ScenarioClient
from tests.nodes.share_requests import RELEASE, acknowledge_run, fetch_request, fetch_share_records, summarize_response

_STATES, _STATE_PARTITIONS = "__share_group_state", 3


def a_single_replica(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A partition with one replica, whose node stops and restarts."""
    client.create_topic("single", [(1,)])
    observed["before"] = client.describe_partition(0, "single")
    client.cluster.stop(1)
    observed["stopped"] = client.wait_for_partition(0, "single", leader=-1)
    client.cluster.start(1)
    observed["back"] = client.wait_until(
        lambda: client.describe_partition(0, "single"), lambda row: row["leader"] == 1 and len(row["brokers"]) == 3
    )
    client.cluster.kill(1)
    observed["killed"] = client.wait_for_partition(0, "single", leader=-1)
    client.cluster.start(1)
    client.wait_for_brokers(0, [0, 1, 2])
    client.pass_time(1)
    observed["back again"] = client.describe_partition(0, "single")


def two_replicas(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A partition whose two nodes stop one after the other; the first one to stop restarts first."""
    client.create_topic("double", [(1, 2)])
    client.cluster.stop(1)
    observed["first stopped"] = client.wait_for_partition(0, "double", offline=[1])
    client.cluster.stop(2)
    observed["both stopped"] = client.wait_for_partition(0, "double", leader=-1)
    client.cluster.start(1)
    client.wait_for_brokers(0, [0, 1])
    client.pass_time(1)
    observed["first back"] = client.describe_partition(0, "double")
    client.cluster.start(2)
    observed["both back"] = client.wait_until(
        lambda: client.describe_partition(0, "double"), lambda row: row["leader"] >= 0 and row["isr"] == [1, 2]
    )


def a_leader_moves_under_a_share_session(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A member holds records and waits for more when another replica becomes the leader."""
    client.create_topic("moving", [(1, 2)])
    topic_id = client.topic_id("moving")
    client.join_share_group("moving")
    client.produce(1, "moving", 5)
    observed["delivered"] = fetch_share_records(client, 1, topic_id, 0)
    observed["settled"] = acknowledge_run(client, 1, topic_id, 1, (0, 0))
    observed["released"] = acknowledge_run(client, 1, topic_id, 2, (2, 2), kind=RELEASE)
    observed["again"] = fetch_share_records(client, 1, topic_id, 3)
    parked = client.send_async(1, fetch_request(topic_id, 4, wait_ms=3_000, listed=False), 2)
    started = client.cluster.now_s()
    client.cluster.move_leader("moving", 0, 2)
    observed["parked"] = summarize_response(parked())
    observed["parked until its time was up"] = client.cluster.now_s() - started > 2
    observed["fetch at the old leader"] = fetch_share_records(client, 1, topic_id, 5)
    observed["acknowledge at the old leader"] = acknowledge_run(client, 1, topic_id, 6, (1, 1))
    observed["new session at the new leader"] = fetch_share_records(client, 2, topic_id, 0)
    observed["acknowledge at the new leader"] = acknowledge_run(client, 2, topic_id, 1, (1, 4))


def a_leader_dies_under_a_share_session(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A member holds records when the node that delivered them is killed."""
    client.create_topic("dying", [(1, 2)])
    topic_id = client.topic_id("dying")
    client.join_share_group("dying")
    client.produce(1, "dying", 5)
    fetch_share_records(client, 1, topic_id, 0)
    acknowledge_run(client, 1, topic_id, 1, (1, 1))
    acknowledge_run(client, 1, topic_id, 2, (3, 3), kind=RELEASE)
    client.cluster.kill(1)
    observed["at a follower"] = summarize_response(client.send(0, fetch_request(topic_id, 0), 2))
    client.wait_for_partition(0, "dying", leader=2)
    observed["at the new leader"] = fetch_share_records(client, 2, topic_id, 0)
    client.cluster.start(1)
    observed["back"] = client.wait_for_partition(2, "dying", isr=[1, 2])


def a_topic_goes_under_a_share_session(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A member holds records and waits for more when the topic is deleted."""
    client.create_topic("going", [(1, 2)])
    topic_id = client.topic_id("going")
    client.join_share_group("going")
    client.produce(1, "going", 3)
    fetch_share_records(client, 1, topic_id, 0)
    parked = client.send_async(1, fetch_request(topic_id, 1, wait_ms=3_000, listed=False), 2)
    started = client.cluster.now_s()
    client.send(0, DeleteTopicsRequest(topics=[DeleteTopicState(name="going")], timeout_ms=10_000), 6)
    observed["parked"] = summarize_response(parked())
    observed["parked until its time was up"] = client.cluster.now_s() - started > 2
    observed["acknowledge"] = acknowledge_run(client, 1, topic_id, 2, (0, 0))
    observed["fetch"] = fetch_share_records(client, 1, topic_id, 3)


def the_coordinator_dies_under_a_share_group(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The group's coordinator is killed between two heartbeats, while a member holds records of a live leader."""
    coordinator = client.find_coordinator(0)
    leader, other = (coordinator + 1) % 3, (coordinator + 2) % 3
    client.create_topic("staying", [(leader, other)])
    topic_id = client.topic_id("staying")
    epoch = client.join_share_group("staying")
    client.produce(leader, "staying", 5)
    fetch_share_records(client, leader, topic_id, 0)
    client.cluster.kill(coordinator)
    client.wait_until(lambda: client.list_brokers(leader), lambda brokers: coordinator not in brokers)
    observed["acknowledged"] = acknowledge_run(client, leader, topic_id, 1, (0, 1))
    elected = client.find_coordinator(leader)
    observed["another coordinates"] = elected != coordinator
    heartbeat = ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch)
    answer = client.wait_until(
        lambda: client.send(elected, heartbeat, 1), lambda answer: answer.error_code not in (14, 15, 16)
    )
    observed["heartbeat"] = [answer.error_code, answer.member_epoch - epoch, answer.assignment is None]
    heartbeat = ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch + 5)
    observed["heartbeat of the future"] = client.send(elected, heartbeat, 1).error_code
    client.cluster.start(coordinator)
    client.wait_for_brokers(leader, [0, 1, 2])
    late = client.wait_until(lambda: client.send(coordinator, heartbeat, 1), lambda answer: answer.error_code != 15)
    observed["heartbeat at the old coordinator"] = late.error_code


def offsets_are_described_while_a_leader_is_dead(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """The lag is requested right after the leader was killed: it is asked until its node has been tried six times."""
    coordinator = client.find_coordinator(0)
    leader, other = (coordinator + 1) % 3, (coordinator + 2) % 3
    _describe_offsets_after_kill(client, observed, coordinator, (leader, other), state_node=other)


def offsets_are_described_while_leader_and_share_coordinator_are_dead(
    client: ScenarioClient, observed: dict[str, Any]
) -> None:
    """The state is on the killed node as well: it is read from another one, which also leads the partition then."""
    coordinator = client.find_coordinator(0)
    leader, other = (coordinator + 1) % 3, (coordinator + 2) % 3
    _describe_offsets_after_kill(client, observed, coordinator, (leader, other), state_node=leader)


def _describe_offsets_after_kill(
    client: ScenarioClient, observed: dict[str, Any], coordinator: int, replicas: tuple[int, int], *, state_node: int
) -> None:
    leader = replicas[0]
    topic_id = _create_topic_with_state_at(client, "lagging", replicas, state_node)
    client.join_share_group("lagging")
    client.produce(leader, "lagging", 5)
    fetch_share_records(client, leader, topic_id, 0)
    acknowledge_run(client, leader, topic_id, 1, (0, 1))
    request = DescribeShareGroupOffsetsRequest(
        [DescribeShareGroupOffsetsRequestGroup(GROUP, [DescribeShareGroupOffsetsRequestTopic("lagging", (0,))])]
    )
    observed["before"] = summarize_description(client.send(coordinator, request, 1))
    client.cluster.kill(leader)
    observed["while it is dead"] = summarize_description(client.send(coordinator, request, 1))
    client.cluster.start(leader)
    client.wait_for_partition(coordinator, "lagging", isr=sorted(replicas))


def _create_topic_with_state_at(client: ScenarioClient, name: str, replicas: tuple[int, ...], node: int) -> bytes:
    """Create a topic whose random id places the stored state of its share-partition on this node. Returns: the id."""
    find_share_coordinator(client, bytes(16))  # Creates the topic of the states.
    for index in range(_STATE_PARTITIONS):
        client.wait_for_partition(0, _STATES, index, isr=[0, 1, 2])
    # Each node leads one of its partitions.
    elected = TopicPartitions(_STATES, tuple(range(_STATE_PARTITIONS)))
    client.send(0, ElectLeadersRequest(PREFERRED, [elected], 10_000))

    def create() -> bytes:
        client.create_topic(name, [replicas])
        return client.topic_id(name)

    return bytes(client.wait_until(create, lambda topic_id: find_share_coordinator(client, topic_id) == node))


def find_share_coordinator(client: ScenarioClient, topic_id: bytes) -> int:
    """The share coordinator of partition 0 of a topic for the group, once there is one."""
    return find_coordinator(client, 0, 2, f"{GROUP}:{to_text(topic_id)}:0")


def summarize_description(response: Any) -> Any:
    """The compared fields of a response to DescribeShareGroupOffsets."""
    rows = [row for group in response.groups for topic in group.topics for row in topic.partitions]
    return [[row.error_code, row.start_offset, row.lag] for row in rows]


def consumer_fetch_request(topic: str, *, epoch: int = -1, wait_ms: int = 0) -> FetchRequest:
    """A Fetch of a consumer for partition 0."""
    partition = FetchPartition(partition=0, current_leader_epoch=epoch, partition_max_bytes=1_000_000)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1_000_000, topics=topics)


def consumers_read_where_nobody_leads(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """Consumers fetch from a follower (KIP-392), from a node without a copy, and from a leader that is replaced."""
    client.create_topic("read", [(1, 2)])
    client.create_topic("held", [(1, 2)])
    client.produce(1, "read", 3)
    client.pass_time(1)  # The follower learns of the high watermark by its next fetch.
    for version, epoch, node in ((12, -1, 2), (12, 0, 2), (12, 5, 2), (10, -1, 2), (12, -1, 0)):
        row = client.send(node, consumer_fetch_request("read", epoch=epoch), version).responses[0].partitions[0]
        observed[f"version {version}, epoch {epoch}, node {node}"] = [row.error_code, row.high_watermark]
    believing, old = ScenarioClient(client.cluster), ScenarioClient(client.cluster)
    waiting = [
        believing.send_async(1, consumer_fetch_request("held", epoch=0, wait_ms=60_000), 12),
        old.send_async(1, consumer_fetch_request("held", wait_ms=60_000), 10),
    ]
    client.cluster.move_leader("held", 0, 2)
    observed["waiting"] = [wait().responses[0].partitions[0].error_code for wait in waiting]
    believing.close()
    old.close()


def a_node_stops_under_requests_that_wait(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A Fetch and a ShareFetch wait for records at a leader that stops cleanly."""
    client.create_topic("waiting", [(1, 2)])
    topic_id = client.topic_id("waiting")
    client.join_share_group("waiting")
    client.wait_until(
        lambda: summarize_response(client.send(1, fetch_request(topic_id, 0, wait_ms=500), 2)),
        lambda answer: answer["rows"] != [],
    )
    other = ScenarioClient(client.cluster)
    fetch = consumer_fetch_request("waiting", wait_ms=60_000)
    shared = client.send_async(1, fetch_request(topic_id, 1, wait_ms=60_000, listed=False), 2)
    plain = other.send_async(1, fetch, 12)
    client.cluster.stop(1)
    observed["ShareFetch"] = summarize_response(shared())
    answer = plain()
    observed["Fetch"] = "no answer" if answer is None else answer.responses[0].partitions[0].error_code
    other.close()
    client.cluster.start(1)
    observed["back"] = client.wait_for_partition(0, "waiting", isr=[1, 2])


SCENARIOS = (
    a_single_replica,
    two_replicas,
    a_leader_moves_under_a_share_session,
    a_leader_dies_under_a_share_session,
    a_topic_goes_under_a_share_session,
    the_coordinator_dies_under_a_share_group,
    offsets_are_described_while_a_leader_is_dead,
    offsets_are_described_while_leader_and_share_coordinator_are_dead,
    a_node_stops_under_requests_that_wait,
    consumers_read_where_nobody_leads,
)
