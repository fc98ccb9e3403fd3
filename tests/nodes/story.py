"""What happens to clients while nodes go and leaders move, told the same way on a real cluster and on ours.

A story asks over sockets and gives back what it saw, as plain values; ids, times and texts are left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from kwire import Client
from kwire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.share_acknowledge import AcknowledgementBatch as AckBatch
from kwire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.records import Record, write_batch

GROUP, MEMBER = "g", "member-1"
PATIENCE_S = 60.0
ACCEPT, RELEASE = 1, 2


class Venue(Protocol):
    """A cluster of the nodes 0 to 2."""

    def address(self, node: int) -> str:
        """HOST:PORT of a node."""

    def stop(self, node: int) -> None:
        """End a node cleanly."""

    def kill(self, node: int) -> None:
        """End a node at once, and let its session end."""

    def start(self, node: int) -> None:
        """Start it again."""

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have another replica lead."""


class Teller:
    """Asks the nodes of a venue; one connection to each, made anew when it is broken."""

    def __init__(self, venue: Venue) -> None:
        self.venue = venue
        self._clients: dict[int, Client] = {}

    def ask(self, node: int, request: msgspec.Struct, version: int | None = None) -> Any:
        """Send a request to a node, and wait for its answer."""
        client = self._clients.get(node)
        if client is None:
            client = self._clients[node] = Client(self.venue.address(node), timeout_s=PATIENCE_S)
        try:
            return client.send(request, version)
        except OSError:
            client.close()
            del self._clients[node]
            raise

    def hang_up(self) -> None:
        """End every connection."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def later(self, node: int, request: msgspec.Struct, version: int) -> Callable[[], Any]:
        """Send a request that waits; the result asks for its answer."""
        answers: list[Any] = []

        def run() -> None:
            answers.append(self.ask(node, request, version))

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.3)  # The request has to be there before what it waits for happens; nothing shows that it is.

        def wait() -> Any:
            thread.join(PATIENCE_S)
            return answers[0] if answers else None

        return wait

    def until(self, look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
        """Look again until the cluster has settled."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                seen = look()
            except OSError:
                seen = None
            if seen is not None and wanted(seen):
                return seen
            assert time.monotonic() < deadline, f"still {seen}"
            time.sleep(0.1)

    # What every story needs.

    def create(self, name: str, replicas: Iterable[tuple[int, ...]]) -> None:
        """Make a topic with these replicas, and wait until its leaders answer."""
        rows = [CreatableReplicaAssignment(index, brokers) for index, brokers in enumerate(replicas)]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=rows)
        self.ask(0, DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000), 6)
        # The stage may still be set from an earlier telling.
        self.until(
            lambda: self.ask(0, CreateTopicsRequest(topics=[topic], timeout_ms=30_000)),
            lambda answer: answer.topics[0].error_code == 0,
        )
        for row in rows:
            self.until(lambda: self.partition(0, name), lambda seen: seen["leader"] >= 0)
            self._until_known(row.broker_ids[0], name)

    def _until_known(self, node: int, name: str) -> None:
        self.until(lambda: self.partition(node, name), lambda seen: seen["leader"] >= 0)

    def topic_id(self, name: str, node: int = 0) -> bytes:
        """The id of a topic."""
        answer = self.ask(node, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        topic_id = answer.topics[0].topic_id
        assert isinstance(topic_id, bytes)
        return topic_id

    def partition(self, node: int, name: str, index: int = 0) -> dict[str, Any]:
        """What a node says of a partition."""
        answer = self.ask(node, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        row = next((row for row in answer.topics[0].partitions if row.partition_index == index), None)
        if row is None:
            return {"leader": -2}
        more = self.ask(node, DescribeTopicPartitionsRequest(topics=[TopicRequest(name)]))
        elr = more.topics[0].partitions[index]
        return {
            "brokers": sorted(broker.node_id for broker in answer.brokers),
            "error": row.error_code,
            "leader": row.leader_id,
            "epoch": row.leader_epoch,
            "isr": sorted(row.isr_nodes),
            "offline": sorted(row.offline_replicas),
            "elr": sorted(elr.eligible_leader_replicas or ()),
            "last_known_elr": sorted(elr.last_known_elr or ()),
        }

    def brokers(self, node: int) -> list[int]:
        """The brokers that a node knows of."""
        return sorted(broker.node_id for broker in self.ask(node, MetadataRequest(topics=[])).brokers)

    def produce(self, node: int, name: str, count: int, index: int = 0) -> int:
        """Append a batch of so many records; returns the error code."""
        records = [Record(offset=n, timestamp=1_700_000_000_000, key=None, value=b"v") for n in range(count)]
        partition = PartitionProduceData(index, write_batch(records))
        topic = TopicProduceData(name=name, partition_data=[partition])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        row = self.ask(node, request, 12).responses[0].partition_responses[0]
        code = row.error_code
        assert isinstance(code, int)
        return code

    def join(self, name: str) -> int:
        """Have the group read a topic from its start, and wait until its state is initialized; the member's epoch."""
        config = AlterableConfig("share.auto.offset.reset", 0, "earliest")
        self.ask(0, IncrementalAlterConfigsRequest([AlterConfigsResource(32, GROUP, [config])]))
        node = self.coordinator(0)
        epoch = 0
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            answer = self.ask(
                node, ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch, subscribed_topic_names=(name,)), 1
            )
            if answer.error_code == 0:
                epoch = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    assert isinstance(epoch, int)
                    return epoch
            time.sleep(0.2)
        raise AssertionError("no assignment came")

    def coordinator(self, node: int) -> int:
        """The coordinator of the group, once there is one."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP,))
        answer = self.until(lambda: self.ask(node, request, 4), lambda seen: seen.coordinators[0].error_code == 0)
        found = answer.coordinators[0].node_id
        assert isinstance(found, int)
        return found


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


Story = Callable[[Teller, dict[str, Any]], None]


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
    time.sleep(1)
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
    time.sleep(1)
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
    started = time.monotonic()
    teller.venue.move("moving", 0, 2)
    seen["parked"] = answered(parked())
    seen["parked until its time was up"] = time.monotonic() - started > 2
    seen["fetch at the old leader"] = answered(teller.ask(1, fetch_request(topic_id, 5, listed=False), 2))
    seen["acknowledge at the old leader"] = answered(
        teller.ask(1, acknowledge_request(topic_id, 6, 1, 1, ACCEPT), 2)
    )
    seen["new session at the new leader"] = answered(
        teller.until(
            lambda: teller.ask(2, fetch_request(topic_id, 0), 2),
            lambda answer: any(row.acquired_records for topic in answer.responses for row in topic.partitions),
        )
    )
    seen["acknowledge at the new leader"] = answered(
        teller.ask(2, acknowledge_request(topic_id, 1, 1, 4, ACCEPT), 2)
    )


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
    started = time.monotonic()
    teller.ask(0, DeleteTopicsRequest(topics=[DeleteTopicState(name="going")], timeout_ms=10_000), 6)
    seen["parked"] = answered(parked())
    seen["parked until its time was up"] = time.monotonic() - started > 2
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


STORIES: Mapping[str, Story] = {
    story.__name__: story
    for story in (
        a_single_replica,
        two_replicas,
        a_leader_moves_under_a_share_session,
        a_leader_dies_under_a_share_session,
        a_topic_goes_under_a_share_session,
        the_coordinator_dies_under_a_share_group,
    )
}


def tell(name: str, venue: Venue) -> dict[str, Any]:
    """Tell a story at a venue, and give back what was seen."""
    teller = Teller(venue)
    seen: dict[str, Any] = {}
    try:
        STORIES[name](teller, seen)
    finally:
        teller.hang_up()
    return seen
