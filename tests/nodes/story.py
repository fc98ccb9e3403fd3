"""What happens to clients while nodes go and leaders move, told the same way on a real cluster and on ours.

A story asks over sockets and notes what it saw, as plain values; ids, times and texts are left out.
"""

from __future__ import annotations

from typing import Any

from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kwire.messages.fetch import FetchPartition as PlainPartition
from kwire.messages.fetch import FetchRequest
from kwire.messages.fetch import FetchTopic as PlainTopic
from kwire.messages.share_acknowledge import AcknowledgementBatch as AckBatch
from kwire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.nodes.teller import GROUP, MEMBER, Teller

ACCEPT, RELEASE = 1, 2


def fetch_request(topic_id: bytes, epoch: int, *, wait_ms: int = 1_000, listed: bool = True) -> ShareFetchRequest:
    """A ShareFetch of the member for the topic's partition 0."""
    return ShareFetchRequest(
        group_id=GROUP,
        member_id=MEMBER,
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        max_records=500,
        batch_size=500,
        topics=[FetchTopic(topic_id, [FetchPartition(0)])] if listed else [],
    )


def acknowledge_request(topic_id: bytes, epoch: int, first: int, last: int, kind: int) -> ShareAcknowledgeRequest:
    """A ShareAcknowledge of the member for one run of offsets of partition 0."""
    partition = AcknowledgePartition(0, [AckBatch(first, last, (kind,))])
    return ShareAcknowledgeRequest(
        group_id=GROUP, member_id=MEMBER, share_session_epoch=epoch, topics=[AcknowledgeTopic(topic_id, [partition])]
    )


def answered(response: Any) -> Any:
    """What matters of an answer to ShareFetch or ShareAcknowledge."""
    if response is None:
        return "no answer"
    rows = []
    for topic in response.responses:
        for row in topic.partitions:
            shown: dict[str, Any] = {"error": row.error_code}
            if hasattr(row, "acquired_records"):
                shown["acquired"] = [
                    [run.first_offset, run.last_offset, run.delivery_count] for run in row.acquired_records
                ]
            if row.error_code:
                shown["leader"] = [row.current_leader.leader_id, row.current_leader.leader_epoch]
            rows.append(shown)
    return {
        "error": response.error_code,
        "rows": rows,
        "endpoints": sorted(endpoint.node_id for endpoint in response.node_endpoints),
    }


def a_single_replica(teller: Teller, seen: dict[str, Any]) -> None:
    """A partition with one replica, whose node stops and comes back."""
    teller.create("single", [(1,)])
    seen["before"] = teller.partition(0, "single")
    teller.venue.stop(1)
    seen["stopped"] = teller.until(lambda: teller.partition(0, "single"), lambda row: row["leader"] == -1)
    teller.venue.start(1)
    seen["back"] = teller.until(
        lambda: teller.partition(0, "single"), lambda row: row["leader"] == 1 and len(row["brokers"]) == 3
    )
    teller.venue.kill(1)
    seen["killed"] = teller.until(lambda: teller.partition(0, "single"), lambda row: row["leader"] == -1)
    teller.venue.start(1)
    teller.until(lambda: teller.brokers(0), lambda brokers: brokers == [0, 1, 2])
    teller.let_pass(1)
    seen["back again"] = teller.partition(0, "single")


def two_replicas(teller: Teller, seen: dict[str, Any]) -> None:
    """A partition whose two nodes stop one after the other; the first one to stop comes back first."""
    teller.create("double", [(1, 2)])
    teller.venue.stop(1)
    seen["first stopped"] = teller.until(lambda: teller.partition(0, "double"), lambda row: row["offline"] == [1])
    teller.venue.stop(2)
    seen["both stopped"] = teller.until(lambda: teller.partition(0, "double"), lambda row: row["leader"] == -1)
    teller.venue.start(1)
    teller.until(lambda: teller.brokers(0), lambda brokers: brokers == [0, 1])
    teller.let_pass(1)
    seen["first back"] = teller.partition(0, "double")
    teller.venue.start(2)
    seen["both back"] = teller.until(
        lambda: teller.partition(0, "double"), lambda row: row["leader"] >= 0 and row["isr"] == [1, 2]
    )


def a_leader_moves_under_a_share_session(teller: Teller, seen: dict[str, Any]) -> None:
    """A member holds records and waits for more when another replica begins to lead."""
    teller.create("moving", [(1, 2)])
    topic_id = teller.topic_id("moving")
    teller.join("moving")
    teller.produce(1, "moving", 5)
    seen["delivered"] = answered(
        teller.until(
            lambda: teller.ask(1, fetch_request(topic_id, 0), 2),
            lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
        )
    )
    seen["settled"] = answered(teller.ask(1, acknowledge_request(topic_id, 1, 0, 0, ACCEPT), 2))
    seen["released"] = answered(teller.ask(1, acknowledge_request(topic_id, 2, 2, 2, RELEASE), 2))
    seen["again"] = answered(teller.ask(1, fetch_request(topic_id, 3, listed=False), 2))
    parked = teller.later(1, fetch_request(topic_id, 4, wait_ms=3_000, listed=False), 2)
    started = teller.venue.now_s()
    teller.venue.move("moving", 0, 2)
    seen["parked"] = answered(parked())
    seen["parked until its time was up"] = teller.venue.now_s() - started > 2
    seen["fetch at the old leader"] = answered(teller.ask(1, fetch_request(topic_id, 5, listed=False), 2))
    seen["acknowledge at the old leader"] = answered(teller.ask(1, acknowledge_request(topic_id, 6, 1, 1, ACCEPT), 2))
    seen["new session at the new leader"] = answered(
        teller.until(
            lambda: teller.ask(2, fetch_request(topic_id, 0), 2),
            lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
        )
    )
    seen["acknowledge at the new leader"] = answered(teller.ask(2, acknowledge_request(topic_id, 1, 1, 4, ACCEPT), 2))


def a_leader_dies_under_a_share_session(teller: Teller, seen: dict[str, Any]) -> None:
    """A member holds records when the node that gave them dies."""
    teller.create("dying", [(1, 2)])
    topic_id = teller.topic_id("dying")
    teller.join("dying")
    teller.produce(1, "dying", 5)
    teller.until(
        lambda: teller.ask(1, fetch_request(topic_id, 0), 2),
        lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
    )
    teller.ask(1, acknowledge_request(topic_id, 1, 1, 1, ACCEPT), 2)
    teller.ask(1, acknowledge_request(topic_id, 2, 3, 3, RELEASE), 2)
    teller.venue.kill(1)
    seen["at a follower"] = answered(teller.ask(0, fetch_request(topic_id, 0), 2))
    teller.until(lambda: teller.partition(0, "dying"), lambda row: row["leader"] == 2)
    seen["at the new leader"] = answered(
        teller.until(
            lambda: teller.ask(2, fetch_request(topic_id, 0), 2),
            lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
        )
    )
    teller.venue.start(1)
    seen["back"] = teller.until(lambda: teller.partition(2, "dying"), lambda row: row["isr"] == [1, 2])


def a_topic_goes_under_a_share_session(teller: Teller, seen: dict[str, Any]) -> None:
    """A member holds records and waits for more when the topic is deleted."""
    teller.create("going", [(1, 2)])
    topic_id = teller.topic_id("going")
    teller.join("going")
    teller.produce(1, "going", 3)
    teller.until(
        lambda: teller.ask(1, fetch_request(topic_id, 0), 2),
        lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
    )
    parked = teller.later(1, fetch_request(topic_id, 1, wait_ms=3_000, listed=False), 2)
    started = teller.venue.now_s()
    teller.ask(0, DeleteTopicsRequest(topics=[DeleteTopicState(name="going")], timeout_ms=10_000), 6)
    seen["parked"] = answered(parked())
    seen["parked until its time was up"] = teller.venue.now_s() - started > 2
    seen["acknowledge"] = answered(teller.ask(1, acknowledge_request(topic_id, 2, 0, 0, ACCEPT), 2))
    seen["fetch"] = answered(teller.ask(1, fetch_request(topic_id, 3, listed=False), 2))


def the_coordinator_dies_under_a_share_group(teller: Teller, seen: dict[str, Any]) -> None:
    """The group's coordinator dies between two heartbeats, while a member holds records of a leader that lives."""
    coordinator = teller.coordinator(0)
    leader, other = (coordinator + 1) % 3, (coordinator + 2) % 3
    teller.create("staying", [(leader, other)])
    topic_id = teller.topic_id("staying")
    epoch = teller.join("staying")
    teller.produce(leader, "staying", 5)
    teller.until(
        lambda: teller.ask(leader, fetch_request(topic_id, 0), 2),
        lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
    )
    teller.venue.kill(coordinator)
    teller.until(lambda: teller.brokers(leader), lambda brokers: coordinator not in brokers)
    seen["acknowledged"] = answered(teller.ask(leader, acknowledge_request(topic_id, 1, 0, 1, ACCEPT), 2))
    elected = teller.coordinator(leader)
    seen["another coordinates"] = elected != coordinator
    heartbeat = ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch)
    answer = teller.until(lambda: teller.ask(elected, heartbeat, 1), lambda seen: seen.error_code not in (14, 15, 16))
    seen["heartbeat"] = [answer.error_code, answer.member_epoch - epoch, answer.assignment is None]
    heartbeat = ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch + 5)
    seen["heartbeat of the future"] = teller.ask(elected, heartbeat, 1).error_code
    teller.venue.start(coordinator)
    teller.until(lambda: teller.brokers(leader), lambda brokers: brokers == [0, 1, 2])
    late = teller.until(lambda: teller.ask(coordinator, heartbeat, 1), lambda answer: answer.error_code != 15)
    seen["heartbeat at the old coordinator"] = late.error_code


def offsets_are_described_while_a_leader_is_dead(teller: Teller, seen: dict[str, Any]) -> None:
    """The coordinator is asked for the lag right after the partition's leader has died."""
    coordinator = teller.coordinator(0)
    leader, other = (coordinator + 1) % 3, (coordinator + 2) % 3
    teller.create("lagging", [(leader, other)])
    topic_id = teller.topic_id("lagging")
    teller.join("lagging")
    teller.produce(leader, "lagging", 5)
    teller.until(
        lambda: teller.ask(leader, fetch_request(topic_id, 0), 2),
        lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
    )
    teller.ask(leader, acknowledge_request(topic_id, 1, 0, 1, ACCEPT), 2)
    request = DescribeShareGroupOffsetsRequest(
        [DescribeShareGroupOffsetsRequestGroup(GROUP, [DescribeShareGroupOffsetsRequestTopic("lagging", (0,))])]
    )
    seen["before"] = described(teller.ask(coordinator, request, 1))
    teller.venue.kill(leader)
    seen["while it is dead"] = described(teller.ask(coordinator, request, 1))
    teller.venue.start(leader)
    teller.until(lambda: teller.brokers(coordinator), lambda brokers: brokers == [0, 1, 2])


def described(response: Any) -> Any:
    """What matters of an answer to DescribeShareGroupOffsets."""
    rows = [row for group in response.groups for topic in group.topics for row in topic.partitions]
    return [[row.error_code, row.start_offset, row.lag] for row in rows]


def plain_fetch(topic: str, *, epoch: int = -1, wait_ms: int = 0) -> FetchRequest:
    """A Fetch of a consumer for partition 0."""
    partition = PlainPartition(partition=0, current_leader_epoch=epoch, partition_max_bytes=1_000_000)
    topics = [PlainTopic(topic=topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1_000_000, topics=topics)


def consumers_read_where_nobody_leads(teller: Teller, seen: dict[str, Any]) -> None:
    """Consumers fetch from a follower (KIP-392), from a node without a copy, and from a leader that stops leading."""
    teller.create("read", [(1, 2)])
    teller.create("held", [(1, 2)])
    teller.produce(1, "read", 3)
    teller.let_pass(1)  # The follower learns of the high watermark by its next fetch.
    for version, epoch, node in ((12, -1, 2), (12, 0, 2), (12, 5, 2), (10, -1, 2), (12, -1, 0)):
        row = teller.ask(node, plain_fetch("read", epoch=epoch), version).responses[0].partitions[0]
        seen[f"version {version}, epoch {epoch}, node {node}"] = [row.error_code, row.high_watermark]
    believing, old = Teller(teller.venue), Teller(teller.venue)
    waiting = [
        believing.later(1, plain_fetch("held", epoch=0, wait_ms=60_000), 12),
        old.later(1, plain_fetch("held", wait_ms=60_000), 10),
    ]
    teller.venue.move("held", 0, 2)
    seen["waiting"] = [wait().responses[0].partitions[0].error_code for wait in waiting]
    believing.hang_up()
    old.hang_up()


def a_node_stops_under_requests_that_wait(teller: Teller, seen: dict[str, Any]) -> None:
    """A Fetch and a ShareFetch wait for records at a leader that stops cleanly."""
    teller.create("waiting", [(1, 2)])
    topic_id = teller.topic_id("waiting")
    teller.join("waiting")
    teller.until(
        lambda: answered(teller.ask(1, fetch_request(topic_id, 0, wait_ms=500), 2)), lambda seen: seen["rows"] != []
    )
    other = Teller(teller.venue)
    fetch = plain_fetch("waiting", wait_ms=60_000)
    shared = teller.later(1, fetch_request(topic_id, 1, wait_ms=60_000, listed=False), 2)
    plain = other.later(1, fetch, 12)
    teller.venue.stop(1)
    seen["ShareFetch"] = answered(shared())
    answer = plain()
    seen["Fetch"] = "no answer" if answer is None else answer.responses[0].partitions[0].error_code
    other.hang_up()
    teller.venue.start(1)
    seen["back"] = teller.until(lambda: teller.partition(0, "waiting"), lambda row: row["isr"] == [1, 2])


STORIES = (
    a_single_replica,
    two_replicas,
    a_leader_moves_under_a_share_session,
    a_leader_dies_under_a_share_session,
    a_topic_goes_under_a_share_session,
    the_coordinator_dies_under_a_share_group,
    offsets_are_described_while_a_leader_is_dead,
    a_node_stops_under_requests_that_wait,
    consumers_read_where_nobody_leads,
)
