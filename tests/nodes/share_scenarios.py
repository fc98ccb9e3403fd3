"""Share groups while records are lost, replicas are too few, and topics grow."""

from __future__ import annotations

from typing import Any

from kwire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from kwire.messages.read_share_group_state import PartitionData as ReadPartition
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.nodes.replica_requests import alter_topic_config, append_batch, fetch_records
from tests.nodes.scenario_client import GROUP, MEMBER, ScenarioClient
from tests.nodes.share_requests import RELEASE, acknowledge_run, fetch_request, fetch_share_records, summarize_response


def deliveries_stop_at_the_high_watermark(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """With too few in-sync replicas a member gets no record that is not on enough of them."""
    client.create_topic("halted", [(1, 2)])
    alter_topic_config(client, "halted", {"min.insync.replicas": "2"})
    topic_id = client.topic_id("halted")
    client.join_share_group("halted")
    append_batch(client, 1, "halted", b"a", 3, acks=-1)
    observed["delivered"] = fetch_share_records(client, 1, topic_id, 0)
    client.cluster.stop(2)
    client.wait_for_partition(0, "halted", isr=[1])
    observed["appended"] = append_batch(client, 1, "halted", b"b", 2, acks=1)
    observed["nothing new"] = fetch_share_records(client, 1, topic_id, 1)
    observed["settled"] = acknowledge_run(client, 1, topic_id, 2, (0, 2))
    observed["nothing yet"] = fetch_share_records(client, 1, topic_id, 3)
    parked = client.send_async(1, fetch_request(topic_id, 4, wait_ms=20_000, listed=False), 2)
    client.cluster.start(2)
    client.wait_for_partition(0, "halted", isr=[1, 2])
    observed["parked"] = summarize_response(parked())


def delivered_records_are_lost(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A member holds and has accepted records that the next leader does not have."""
    client.create_topic("lossy", [(1, 2)])
    alter_topic_config(client, "lossy", {"unclean.leader.election.enable": "true"})
    topic_id = client.topic_id("lossy")
    client.join_share_group("lossy")
    append_batch(client, 1, "lossy", b"a", 5, acks=-1)
    observed["delivered"] = fetch_share_records(client, 1, topic_id, 0)
    observed["first"] = acknowledge_run(client, 1, topic_id, 1, (0, 0))
    client.cluster.stop(2)
    client.wait_for_partition(0, "lossy", isr=[1])
    append_batch(client, 1, "lossy", b"b", 5, acks=1)
    observed["delivered alone"] = fetch_share_records(client, 1, topic_id, 2)
    observed["two that will be lost"] = acknowledge_run(client, 1, topic_id, 3, (5, 6))
    client.cluster.kill(1)
    client.wait_for_partition(0, "lossy", leader=-1)
    client.cluster.start(2)
    client.wait_for_partition(2, "lossy", leader=2)
    observed["at the new leader"] = fetch_share_records(client, 2, topic_id, 0)
    observed["of the old holder"] = acknowledge_run(client, 2, topic_id, 1, (8, 9))
    observed["what is left"] = acknowledge_run(client, 2, topic_id, 2, (1, 4))
    observed["beyond the end"] = fetch_share_records(client, 2, topic_id, 3)
    append_batch(client, 2, "lossy", b"c", 1, acks=-1)
    observed["one more, below"] = fetch_share_records(client, 2, topic_id, 4)
    append_batch(client, 2, "lossy", b"d", 3, acks=-1)
    observed["three more, around"] = fetch_share_records(client, 2, topic_id, 5)
    append_batch(client, 2, "lossy", b"e", 2, acks=-1)
    observed["two more, above"] = fetch_share_records(client, 2, topic_id, 6)
    observed["log"] = fetch_records(client, 2, "lossy")
    client.cluster.start(1)
    client.wait_for_partition(2, "lossy", isr=[1, 2])


def the_start_is_beyond_the_end(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """All records were accepted, then half of them is lost: the share partition starts beyond the log's end."""
    client.create_topic("short", [(1, 2)])
    alter_topic_config(client, "short", {"unclean.leader.election.enable": "true"})
    topic_id = client.topic_id("short")
    client.join_share_group("short")
    append_batch(client, 1, "short", b"a", 3, acks=-1)
    client.cluster.stop(2)
    client.wait_for_partition(0, "short", isr=[1])
    append_batch(client, 1, "short", b"b", 3, acks=1)
    observed["first"] = fetch_share_records(client, 1, topic_id, 0)
    observed["second"] = fetch_share_records(client, 1, topic_id, 1)
    observed["accepted"] = acknowledge_run(client, 1, topic_id, 2, (0, 5))
    append_batch(client, 1, "short", b"c", 1, acks=1)
    observed["third"] = fetch_share_records(client, 1, topic_id, 3)
    observed["released"] = acknowledge_run(client, 1, topic_id, 4, (6, 6), kind=RELEASE)
    client.cluster.kill(1)
    client.wait_for_partition(0, "short", leader=-1)
    client.cluster.start(2)
    client.wait_for_partition(2, "short", leader=2)
    client.wait_until(lambda: fetch_records(client, 2, "short"), lambda row: row[0] == 0)
    observed["empty"] = summarize_response(client.send(2, fetch_request(topic_id, 0), 2))
    observed["empty again"] = fetch_share_records(client, 2, topic_id, 1)
    append_batch(client, 2, "short", b"d", 2, acks=-1)
    observed["still below"] = fetch_share_records(client, 2, topic_id, 2)
    append_batch(client, 2, "short", b"e", 2, acks=-1)
    observed["across"] = fetch_share_records(client, 2, topic_id, 3)
    append_batch(client, 2, "short", b"f", 2, acks=-1)
    observed["above"] = fetch_share_records(client, 2, topic_id, 4)
    observed["log"] = fetch_records(client, 2, "short")
    client.cluster.start(1)
    client.wait_for_partition(2, "short", isr=[1, 2])


def state_request(topic_id: bytes) -> InitializeShareGroupStateRequest:
    """An InitializeShareGroupState of another group for partition 0."""
    row = PartitionData(partition=0, state_epoch=0, start_offset=0)
    return InitializeShareGroupStateRequest("other", [InitializeStateData(topic_id, [row])])


def state_cannot_be_written(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """Two of three nodes are down: the share coordinator's topic has fewer replicas in sync than its minimum of two."""
    client.create_topic("stateful", [(0,)])
    topic_id = client.topic_id("stateful")
    client.join_share_group("stateful")
    append_batch(client, 0, "stateful", b"a", 6, acks=-1)
    observed["delivered"] = fetch_share_records(client, 0, topic_id, 0)
    observed["accepted"] = acknowledge_run(client, 0, topic_id, 1, (0, 0))
    for node in (1, 2):
        client.cluster.stop(node)
    client.wait_for_brokers(0, [0])
    # The leader of the partition tries for a minute, and the locks of the member end meanwhile.
    observed["accept"] = acknowledge_run(client, 0, topic_id, 2, (1, 1))
    observed["accept again"] = acknowledge_run(client, 0, topic_id, 3, (1, 1))
    observed["delivered again"] = fetch_share_records(client, 0, topic_id, 4)
    answer = client.send(0, state_request(topic_id), 0)
    observed["InitializeShareGroupState"] = answer.results[0].partitions[0].error_code
    read = ReadShareGroupStateRequest(GROUP, [ReadStateData(topic_id, [ReadPartition(0, 0)])])
    row = client.send(0, read, 0).results[0].partitions[0]
    observed["ReadShareGroupState"] = [row.error_code, row.start_offset]
    client.cluster.start(1)
    client.wait_for_brokers(0, [0, 1])
    client.pass_time(1)
    observed["accept with one more"] = acknowledge_run(client, 0, topic_id, 5, (1, 1))
    observed["release with one more"] = acknowledge_run(client, 0, topic_id, 6, (2, 2), kind=RELEASE)
    observed["fetch with one more"] = fetch_share_records(client, 0, topic_id, 7)
    client.cluster.start(2)
    client.wait_for_brokers(0, [0, 1, 2])


def add_partition(client: ScenarioClient, topic: str, total: int, brokers: tuple[int, ...]) -> int:
    """Add a partition; the error code."""
    row = CreatePartitionsTopic(topic, total, [CreatePartitionsAssignment(brokers)])
    return int(client.send(0, CreatePartitionsRequest([row], 10_000)).results[0].error_code)


def a_topic_grows_under_a_share_session(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """A member holds records of one partition when another one is created on another node."""
    client.create_topic("growing", [(1, 2)])
    topic_id = client.topic_id("growing")
    epoch = client.join_share_group("growing")
    append_batch(client, 1, "growing", b"a", 4, acks=-1)
    observed["delivered"] = fetch_share_records(client, 1, topic_id, 0)
    parked = client.send_async(1, fetch_request(topic_id, 1, wait_ms=2_000, listed=False), 2)
    observed["grown"] = add_partition(client, "growing", 2, (2, 1))
    client.wait_for_partition(2, "growing", 1, leader=2)
    client.wait_until(lambda: client.produce(2, "growing", 3, 1), lambda code: code == 0)
    observed["parked"] = summarize_response(parked())
    observed["settled"] = acknowledge_run(client, 1, topic_id, 2, (0, 1))
    coordinator = client.find_coordinator(0)
    heartbeat = ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch)

    def assigned() -> Any:
        answer = client.send(coordinator, heartbeat, 1)
        heartbeat.member_epoch = answer.member_epoch or heartbeat.member_epoch
        return answer

    answer = client.wait_until(assigned, lambda answer: answer.error_code == 0 and answer.assignment is not None)
    rows = [list(row.partitions) for row in answer.assignment.topic_partitions]
    observed["assigned"] = [answer.member_epoch - epoch, [sorted(row) for row in rows]]
    observed["the new partition"] = fetch_share_records(client, 2, topic_id, 0, index=1)
    observed["the old one"] = acknowledge_run(client, 1, topic_id, 3, (2, 3))


SCENARIOS = (
    deliveries_stop_at_the_high_watermark,
    delivered_records_are_lost,
    the_start_is_beyond_the_end,
    state_cannot_be_written,
    a_topic_grows_under_a_share_session,
)
