"""Behaviour of a group coordinator while its records are on too few replicas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.nodes.coordinator_scenarios import find_coordinator
from tests.nodes.replica_requests import alter_topic_config
from tests.nodes.scenario_client import ScenarioClient

TOPIC = "held"
#: All of these are kept in partition 0 of the five that __consumer_offsets has.
OFFSETS, CONSUMERS, SHARES, ALTERED = "held-offsets-3", "held-consumers-0", "held-shares-3", "held-altered-4"
LATE, LATE_OFFSETS, LATE_ALTERED = "held-joined-0", "held-new-3", "held-idle-0"


def _commit_request(group: str, offset: int) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestTopic(TOPIC, partitions=[OffsetCommitRequestPartition(0, offset)])]
    return OffsetCommitRequest(group, topics=rows)


def _offset_fetch_request(group: str, *, stable: bool = False, every: bool = False) -> OffsetFetchRequest:
    topics = None if every else [OffsetFetchRequestTopics(TOPIC, partition_indexes=(0,))]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)], require_stable=stable)


def _consumer_heartbeat(group: str, member: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group, member, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=(TOPIC,), topic_partitions=[]
    )


def _share_heartbeat(group: str, member: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group, member, 0, subscribed_topic_names=(TOPIC,))


def _alter_request(group: str, offset: int) -> AlterShareGroupOffsetsRequest:
    row = AlterShareGroupOffsetsRequestTopic(TOPIC, [AlterShareGroupOffsetsRequestPartition(0, offset)])
    return AlterShareGroupOffsetsRequest(group, [row])


def _delete_request(group: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(TOPIC)])


def _codes(answer: Any) -> Any:
    """The codes of an answer of any of these kinds, with the offset if it has one."""
    if answer is None:
        return "no answer"
    if hasattr(answer, "results"):
        return {row.group_id: row.error_code for row in sorted(answer.results, key=lambda row: row.group_id)}
    if hasattr(answer, "groups"):
        group = answer.groups[0]
        rows = [row for topic in group.topics for row in topic.partitions]
        return [group.error_code, *(observed for row in rows for observed in (row.error_code, row.committed_offset))]
    if hasattr(answer, "topics"):
        return [row.error_code for topic in answer.topics for row in topic.partitions]
    if hasattr(answer, "responses"):
        rows = [row for topic in answer.responses for row in getattr(topic, "partitions", [topic])]
        return [answer.error_code, *(row.error_code for row in rows)]
    return [answer.error_code, answer.member_epoch]


def _request_codes(client: ScenarioClient, node: int, request: Any, version: int) -> Any:
    return _codes(client.send(node, request, version))


def read_groups(client: ScenarioClient, node: int) -> dict[str, Any]:
    """The readable state of the groups."""
    listed = client.send(node, ListGroupsRequest(), 5)
    consumers = client.send(node, ConsumerGroupDescribeRequest((CONSUMERS, LATE)), 1).groups
    shares = client.send(node, ShareGroupDescribeRequest((SHARES, ALTERED, LATE_ALTERED)), 1).groups
    classic = client.send(node, DescribeGroupsRequest((OFFSETS, LATE_OFFSETS)), 6).groups
    asked = [DescribeShareGroupOffsetsRequestGroup(group, None) for group in (ALTERED, LATE_ALTERED)]
    starts = client.send(node, DescribeShareGroupOffsetsRequest(asked), 1).groups
    return {
        "listed": sorted(
            [row.group_id, row.group_state, row.group_type] for row in listed.groups if row.group_id.startswith("held-")
        ),
        "consumers": [_described(row) for row in consumers],
        "shares": [_described(row) for row in shares],
        "classic": [[row.error_code, row.group_state] for row in classic],
        "offset": _codes(client.send(node, _offset_fetch_request(OFFSETS), 8)),
        "offset of a new group": _codes(client.send(node, _offset_fetch_request(LATE_OFFSETS), 8)),
        "all offsets": _codes(client.send(node, _offset_fetch_request(OFFSETS, every=True), 8)),
        "starts": [
            [row.start_offset for topic in group.topics for row in topic.partitions] + [group.error_code]
            for group in starts
        ],
    }


def _described(row: Any) -> list[Any]:
    members = sorted([one.member_id, one.member_epoch] for one in row.members)
    return [row.error_code, row.group_state, row.group_epoch, members]


def _isr(client: ScenarioClient, node: int) -> list[int]:
    observed: list[int] = client.describe_partition(node, "__consumer_offsets")["isr"]
    return observed


def _create_groups(client: ScenarioClient) -> int:
    """Create groups of every type with everything committed. Returns: their coordinator."""
    client.create_topic(TOPIC, [(0, 1, 2)])
    node = find_coordinator(client, 0, 0, OFFSETS)
    find_coordinator(client, 0, 2, f"{SHARES}:AAAAAAAAAAAAAAAAAAAAAA:0")
    alter_topic_config(client, "__consumer_offsets", {"min.insync.replicas": "2"})
    alter_topic_config(client, "__share_group_state", {"min.insync.replicas": "1"})
    for request, version in (
        (_commit_request(OFFSETS, 3), 8),
        (_consumer_heartbeat(CONSUMERS, "member-1"), 1),
        (_share_heartbeat(SHARES, "member-1"), 1),
        (_alter_request(ALTERED, 0), 0),
    ):
        client.wait_until(partial(_request_codes, client, node, request, version), lambda codes: codes[0] == 0)
    return node


def a_coordinator_describes_what_is_committed(client: ScenarioClient, observed: dict[str, Any]) -> None:
    """Alone, with a minimum of two, a group coordinator writes, answers 15, and describes the groups as before."""
    node = _create_groups(client)
    others = [(node + 1) % 3, (node + 2) % 3]
    client.pass_time(1)
    observed["before"] = read_groups(client, node)
    for other in others:
        client.cluster.stop(other)
    client.wait_for_brokers(node, [node])
    client.wait_until(lambda: _isr(client, node), lambda isr: isr == [node])
    find_coordinator(client, node, 2, f"{SHARES}:AAAAAAAAAAAAAAAAAAAAAA:0")
    observed.update(_wait_concurrently(client, node))
    observed["alone"] = read_groups(client, node)
    other_teller = ScenarioClient(client.cluster)
    parked = other_teller.send_async(node, DeleteGroupsRequest((LATE_OFFSETS, LATE_ALTERED)), 2)
    alter_topic_config(client, "__consumer_offsets", {"min.insync.replicas": "1"}, node=node)
    client.pass_time(0.5)
    # What is appended next is committed, with all that waited before it.
    observed["commit with a lower minimum"] = _codes(client.send(node, _commit_request(OFFSETS, 8), 8))
    observed["parked"] = _codes(parked())
    other_teller.close()
    observed["committed"] = read_groups(client, node)
    for other in others:
        client.cluster.start(other)
    client.wait_until(lambda: _isr(client, node), lambda isr: isr == [0, 1, 2])


def _wait_concurrently(client: ScenarioClient, node: int) -> dict[str, Any]:
    """Each of these requests waits for the missing replicas; all of them wait at the same time."""
    asked: dict[str, Callable[[ScenarioClient], Any]] = {
        "commit": lambda one: one.send_async(node, _commit_request(OFFSETS, 7), 8),
        "commit of a new group": lambda one: one.send_async(node, _commit_request(LATE_OFFSETS, 1), 8),
        "stable offset": lambda one: one.send_async(node, _offset_fetch_request(OFFSETS, stable=True), 8),
        "second consumer": lambda one: one.send_async(node, _consumer_heartbeat(CONSUMERS, "member-2"), 1),
        "first consumer of a new group": lambda one: one.send_async(node, _consumer_heartbeat(LATE, "member-1"), 1),
        "second share consumer": lambda one: one.send_async(node, _share_heartbeat(SHARES, "member-2"), 1),
        "alter": lambda one: one.send_async(node, _alter_request(ALTERED, 4), 0),
        "alter for a new group": lambda one: one.send_async(node, _alter_request(LATE_ALTERED, 4), 0),
        "delete offsets": lambda one: one.send_async(node, _delete_request(ALTERED), 0),
        "delete offsets of nobody": lambda one: one.send_async(node, _delete_request("held-no-0"), 0),
        "delete groups": lambda one: one.send_async(node, DeleteGroupsRequest((OFFSETS, SHARES, "held-none-2")), 2),
    }
    tellers = [ScenarioClient(client.cluster) for _ in asked]
    waiting = [ask(one) for ask, one in zip(asked.values(), tellers, strict=True)]
    observed = {what: _codes(wait()) for what, wait in zip(asked, waiting, strict=True)}
    for one in tellers:
        one.close()
    return observed


SCENARIOS = (a_coordinator_describes_what_is_committed,)
