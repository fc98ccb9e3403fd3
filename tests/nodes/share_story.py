"""Share groups while records are lost, replicas are too few, and topics grow."""

from __future__ import annotations

from typing import Any

from kwire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from kwire.messages.read_share_group_state import PartitionData as ReadPartition
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.nodes.replica_kit import append, configure, fetched
from tests.nodes.story import ACCEPT, RELEASE, acknowledge_request, answered, fetch_request
from tests.nodes.teller import GROUP, MEMBER, Teller


def deliver(teller: Teller, node: int, topic_id: bytes, epoch: int) -> Any:
    """Fetch until something has been acquired; only the first fetch of a session may be repeated."""
    if epoch:
        return answered(teller.ask(node, fetch_request(topic_id, epoch, listed=False), 2))
    return answered(
        teller.until(
            lambda: teller.ask(node, fetch_request(topic_id, 0), 2),
            lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
        )
    )


def settle(teller: Teller, node: int, topic_id: bytes, epoch: int, run: tuple[int, int], *, kind: int = ACCEPT) -> Any:
    """Acknowledge one run of offsets."""
    return answered(teller.ask(node, acknowledge_request(topic_id, epoch, *run, kind), 2))


def deliveries_stop_at_the_high_watermark(teller: Teller, seen: dict[str, Any]) -> None:
    """With too few replicas in sync a member gets nothing that is not on enough of them."""
    teller.create("halted", [(1, 2)])
    configure(teller, "halted", {"min.insync.replicas": "2"})
    topic_id = teller.topic_id("halted")
    teller.join("halted")
    append(teller, 1, "halted", b"a", 3, acks=-1)
    seen["delivered"] = deliver(teller, 1, topic_id, 0)
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "halted"), lambda row: row["isr"] == [1])
    seen["appended"] = append(teller, 1, "halted", b"b", 2, acks=1)
    seen["nothing new"] = deliver(teller, 1, topic_id, 1)
    seen["settled"] = settle(teller, 1, topic_id, 2, (0, 2))
    seen["nothing yet"] = deliver(teller, 1, topic_id, 3)
    parked = teller.later(1, fetch_request(topic_id, 4, wait_ms=20_000, listed=False), 2)
    teller.venue.start(2)
    teller.until(lambda: teller.partition(0, "halted"), lambda row: row["isr"] == [1, 2])
    seen["parked"] = answered(parked())


def delivered_records_are_lost(teller: Teller, seen: dict[str, Any]) -> None:
    """A member holds and has accepted records that the next leader does not have."""
    teller.create("lossy", [(1, 2)])
    configure(teller, "lossy", {"unclean.leader.election.enable": "true"})
    topic_id = teller.topic_id("lossy")
    teller.join("lossy")
    append(teller, 1, "lossy", b"a", 5, acks=-1)
    seen["delivered"] = deliver(teller, 1, topic_id, 0)
    seen["first"] = settle(teller, 1, topic_id, 1, (0, 0))
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "lossy"), lambda row: row["isr"] == [1])
    append(teller, 1, "lossy", b"b", 5, acks=1)
    seen["delivered alone"] = deliver(teller, 1, topic_id, 2)
    seen["two that will be lost"] = settle(teller, 1, topic_id, 3, (5, 6))
    teller.venue.kill(1)
    teller.until(lambda: teller.partition(0, "lossy"), lambda row: row["leader"] == -1)
    teller.venue.start(2)
    teller.until(lambda: teller.partition(2, "lossy"), lambda row: row["leader"] == 2)
    seen["at the new leader"] = deliver(teller, 2, topic_id, 0)
    seen["of the old holder"] = settle(teller, 2, topic_id, 1, (8, 9))
    seen["what is left"] = settle(teller, 2, topic_id, 2, (1, 4))
    seen["beyond the end"] = deliver(teller, 2, topic_id, 3)
    append(teller, 2, "lossy", b"c", 1, acks=-1)
    seen["one more, below"] = deliver(teller, 2, topic_id, 4)
    append(teller, 2, "lossy", b"d", 3, acks=-1)
    seen["three more, around"] = deliver(teller, 2, topic_id, 5)
    append(teller, 2, "lossy", b"e", 2, acks=-1)
    seen["two more, above"] = deliver(teller, 2, topic_id, 6)
    seen["log"] = fetched(teller, 2, "lossy")
    teller.venue.start(1)
    teller.until(lambda: teller.partition(2, "lossy"), lambda row: row["isr"] == [1, 2])


def the_start_is_beyond_the_end(teller: Teller, seen: dict[str, Any]) -> None:
    """Everything was accepted, then half of it is lost: the share partition begins beyond the log's end."""
    teller.create("short", [(1, 2)])
    configure(teller, "short", {"unclean.leader.election.enable": "true"})
    topic_id = teller.topic_id("short")
    teller.join("short")
    append(teller, 1, "short", b"a", 3, acks=-1)
    teller.venue.stop(2)
    teller.until(lambda: teller.partition(0, "short"), lambda row: row["isr"] == [1])
    append(teller, 1, "short", b"b", 3, acks=1)
    seen["first"] = deliver(teller, 1, topic_id, 0)
    seen["second"] = deliver(teller, 1, topic_id, 1)
    seen["accepted"] = settle(teller, 1, topic_id, 2, (0, 5))
    append(teller, 1, "short", b"c", 1, acks=1)
    seen["third"] = deliver(teller, 1, topic_id, 3)
    seen["released"] = settle(teller, 1, topic_id, 4, (6, 6), kind=RELEASE)
    teller.venue.kill(1)
    teller.until(lambda: teller.partition(0, "short"), lambda row: row["leader"] == -1)
    teller.venue.start(2)
    teller.until(lambda: teller.partition(2, "short"), lambda row: row["leader"] == 2)
    teller.until(lambda: fetched(teller, 2, "short"), lambda row: row[0] == 0)
    seen["empty"] = answered(teller.ask(2, fetch_request(topic_id, 0), 2))
    seen["empty again"] = deliver(teller, 2, topic_id, 1)
    append(teller, 2, "short", b"d", 2, acks=-1)
    seen["still below"] = deliver(teller, 2, topic_id, 2)
    append(teller, 2, "short", b"e", 2, acks=-1)
    seen["across"] = deliver(teller, 2, topic_id, 3)
    append(teller, 2, "short", b"f", 2, acks=-1)
    seen["above"] = deliver(teller, 2, topic_id, 4)
    seen["log"] = fetched(teller, 2, "short")
    teller.venue.start(1)
    teller.until(lambda: teller.partition(2, "short"), lambda row: row["isr"] == [1, 2])


def state_request(topic_id: bytes) -> InitializeShareGroupStateRequest:
    """An InitializeShareGroupState of another group for partition 0."""
    row = PartitionData(partition=0, state_epoch=0, start_offset=0)
    return InitializeShareGroupStateRequest("other", [InitializeStateData(topic_id, [row])])


def state_cannot_be_written(teller: Teller, seen: dict[str, Any]) -> None:
    """Two of three nodes are down: the share coordinator's topic has fewer replicas in sync than its minimum of two."""
    teller.create("stateful", [(0,)])
    topic_id = teller.topic_id("stateful")
    teller.join("stateful")
    append(teller, 0, "stateful", b"a", 6, acks=-1)
    seen["delivered"] = deliver(teller, 0, topic_id, 0)
    seen["accepted"] = settle(teller, 0, topic_id, 1, (0, 0))
    for node in (1, 2):
        teller.venue.stop(node)
    teller.until(lambda: teller.brokers(0), lambda brokers: brokers == [0])
    # The leader of the partition tries for a minute, and the locks of the member end meanwhile.
    seen["accept"] = settle(teller, 0, topic_id, 2, (1, 1))
    seen["accept again"] = settle(teller, 0, topic_id, 3, (1, 1))
    seen["delivered again"] = deliver(teller, 0, topic_id, 4)
    answer = teller.ask(0, state_request(topic_id), 0)
    seen["InitializeShareGroupState"] = answer.results[0].partitions[0].error_code
    read = ReadShareGroupStateRequest(GROUP, [ReadStateData(topic_id, [ReadPartition(0, 0)])])
    row = teller.ask(0, read, 0).results[0].partitions[0]
    seen["ReadShareGroupState"] = [row.error_code, row.start_offset]
    teller.venue.start(1)
    teller.until(lambda: teller.brokers(0), lambda brokers: brokers == [0, 1])
    teller.let_pass(1)
    seen["accept with one more"] = settle(teller, 0, topic_id, 5, (1, 1))
    seen["release with one more"] = settle(teller, 0, topic_id, 6, (2, 2), kind=RELEASE)
    seen["fetch with one more"] = deliver(teller, 0, topic_id, 7)
    teller.venue.start(2)
    teller.until(lambda: teller.brokers(0), lambda brokers: brokers == [0, 1, 2])


def grow(teller: Teller, topic: str, total: int, brokers: tuple[int, ...]) -> int:
    """Add a partition; the error code."""
    row = CreatePartitionsTopic(topic, total, [CreatePartitionsAssignment(brokers)])
    answer = teller.ask(0, CreatePartitionsRequest([row], 10_000))
    code = answer.results[0].error_code
    assert isinstance(code, int)
    return code


def a_topic_grows_under_a_share_session(teller: Teller, seen: dict[str, Any]) -> None:
    """A member holds records of one partition when another one is made, on another node."""
    teller.create("growing", [(1, 2)])
    topic_id = teller.topic_id("growing")
    epoch = teller.join("growing")
    append(teller, 1, "growing", b"a", 4, acks=-1)
    seen["delivered"] = deliver(teller, 1, topic_id, 0)
    parked = teller.later(1, fetch_request(topic_id, 1, wait_ms=2_000, listed=False), 2)
    seen["grown"] = grow(teller, "growing", 2, (2, 1))
    teller.until(lambda: teller.partition(2, "growing", 1), lambda row: row["leader"] == 2)
    teller.until(lambda: teller.produce(2, "growing", 3, 1), lambda code: code == 0)
    seen["parked"] = answered(parked())
    seen["settled"] = settle(teller, 1, topic_id, 2, (0, 1))
    coordinator = teller.coordinator(0)
    heartbeat = ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch)

    def assigned() -> Any:
        answer = teller.ask(coordinator, heartbeat, 1)
        heartbeat.member_epoch = answer.member_epoch or heartbeat.member_epoch
        return answer

    answer = teller.until(assigned, lambda seen: seen.error_code == 0 and seen.assignment is not None)
    rows = [list(row.partitions) for row in answer.assignment.topic_partitions]
    seen["assigned"] = [answer.member_epoch - epoch, [sorted(row) for row in rows]]
    other = ShareFetchRequest(
        group_id=GROUP,
        member_id=MEMBER,
        share_session_epoch=0,
        max_wait_ms=1_000,
        min_bytes=1,
        max_bytes=1_000_000,
        max_records=500,
        batch_size=500,
        topics=[FetchTopic(topic_id, [FetchPartition(1)])],
    )
    seen["the new partition"] = answered(
        teller.until(
            lambda: teller.ask(2, other, 2),
            lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
        )
    )
    seen["the old one"] = settle(teller, 1, topic_id, 3, (2, 3))


STORIES = (
    deliveries_stop_at_the_high_watermark,
    delivered_records_are_lost,
    the_start_is_beyond_the_end,
    state_cannot_be_written,
    a_topic_grows_under_a_share_session,
)
