"""Asking the nodes of a cluster, a real one or ours: what every story needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
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
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.records import Record, write_batch

GROUP, MEMBER = "g", "member-1"
PATIENCE_S = 100.0  # Longer than a share-partition leader tries to have its state written.
_NEVER = threading.Event()  # Never set: to wait for it is to let time pass, which a real cluster needs.


def let_pass(duration_s: float) -> None:
    """Let real time pass."""
    _NEVER.wait(duration_s)


class Connection(Protocol):
    """One connection to a node."""

    def send(self, request: msgspec.Struct, version: int | None) -> Any:
        """Send a request, in its latest version when none is named, and wait for its answer.

        Raises: OSError when the connection is broken.
        """

    def later(self, request: msgspec.Struct, version: int) -> Callable[[], Any]:
        """Send a request that waits; the result asks for its answer, and gets None when the connection has broken."""

    def close(self) -> None:
        """Hang up."""


class Venue(Protocol):
    """A cluster of the nodes 0 to 2, and its time."""

    def connect(self, node: int) -> Connection:
        """A new connection to a node. Raises: OSError."""

    def let_pass(self, duration_s: float) -> None:
        """Let time pass."""

    def now_s(self) -> float:
        """A clock in seconds."""

    def time_ms(self) -> int:
        """Milliseconds since 1970, by the brokers' reckoning."""

    def stop(self, node: int) -> None:
        """End a node cleanly."""

    def kill(self, node: int) -> None:
        """End a node at once, and let its session end."""

    def start(self, node: int) -> None:
        """Start it again."""

    def move(self, topic: str, partition: int, to: int) -> None:
        """Have another replica lead."""


class Socket:
    """A connection of the machine; time is that of the world."""

    def __init__(self, address: str) -> None:
        self._client = Client(address, timeout_s=PATIENCE_S)

    def send(self, request: msgspec.Struct, version: int | None) -> Any:
        """Send a request and wait for its answer."""
        return self._client.send(request, version)

    def later(self, request: msgspec.Struct, version: int) -> Callable[[], Any]:
        """Send a request in a thread of its own."""
        answers: list[Any] = []

        def run() -> None:
            with suppress(OSError):  # The connection broke; there is no answer then.
                answers.append(self.send(request, version))

        thread = threading.Thread(target=run)
        thread.start()

        def wait() -> Any:
            thread.join(PATIENCE_S)
            return answers[0] if answers else None

        return wait

    def close(self) -> None:
        """Hang up."""
        self._client.close()


class Teller:
    """Asks the nodes of a venue; one connection to each, made anew when it is broken."""

    def __init__(self, venue: Venue) -> None:
        self.venue = venue
        self._connections: dict[int, Connection] = {}

    def ask(self, node: int, request: msgspec.Struct, version: int | None = None) -> Any:
        """Send a request to a node, and wait for its answer."""
        connection = self._connection(node)
        try:
            return connection.send(request, version)
        except OSError:
            connection.close()
            del self._connections[node]
            raise

    def hang_up(self) -> None:
        """End every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def later(self, node: int, request: msgspec.Struct, version: int) -> Callable[[], Any]:
        """Send a request that waits; the result asks for its answer."""
        wait = self._connection(node).later(request, version)
        self.let_pass(0.3)  # The request has to be there before what it waits for happens; nothing shows that it is.
        return wait

    def _connection(self, node: int) -> Connection:
        if node not in self._connections:
            self._connections[node] = self.venue.connect(node)
        return self._connections[node]

    def let_pass(self, duration_s: float) -> None:
        """Let time pass."""
        self.venue.let_pass(duration_s)

    def until(self, look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
        """Look again until the cluster has settled."""
        deadline = self.venue.now_s() + PATIENCE_S
        while True:
            try:
                seen = look()
            except OSError:
                seen = None
            if seen is not None and wanted(seen):
                return seen
            assert self.venue.now_s() < deadline, f"still {seen}"
            self.let_pass(0.1)

    # What every story needs.

    def create(self, name: str, replicas: Iterable[tuple[int, ...]]) -> None:
        """Make a topic with these replicas, and wait until its leaders answer."""
        rows = [CreatableReplicaAssignment(index, brokers) for index, brokers in enumerate(replicas)]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=rows)
        self.forget(name)
        # The stage may still be set from an earlier telling.
        self.until(
            lambda: self.ask(0, CreateTopicsRequest(topics=[topic], timeout_ms=30_000)),
            lambda answer: answer.topics[0].error_code == 0,
        )
        for row in rows:
            self.until(lambda: self.partition(0, name), lambda seen: seen["leader"] >= 0)
            self._until_known(row.broker_ids[0], name)

    def forget(self, name: str) -> None:
        """Have a topic deleted that another story may have left."""
        self.ask(0, DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000), 6)

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
        deadline = self.venue.now_s() + PATIENCE_S
        while self.venue.now_s() < deadline:
            answer = self.ask(node, ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch, subscribed_topic_names=(name,)), 1)
            if answer.error_code == 0:
                epoch = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    assert isinstance(epoch, int)
                    return epoch
            self.let_pass(0.2)
        raise AssertionError("no assignment came")

    def coordinator(self, node: int) -> int:
        """The coordinator of the group, once there is one."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP,))
        answer = self.until(lambda: self.ask(node, request, 4), lambda seen: seen.coordinators[0].error_code == 0)
        found = answer.coordinators[0].node_id
        assert isinstance(found, int)
        return found
