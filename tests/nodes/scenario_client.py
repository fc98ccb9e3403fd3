"""`ScenarioClient`: requests to the nodes of a cluster, real or not, that every scenario needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
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
TIMEOUT_S = 100.0  # Longer than a share-partition leader tries to have its state written.
_NEVER = threading.Event()  # Never set: to wait for it is to let time pass, which a real cluster needs.


def wait_in_real_time(duration_s: float) -> None:
    """Wait in real time."""
    _NEVER.wait(duration_s)


class Connection(Protocol):
    """One connection to a node."""

    def send(self, request: msgspec.Struct, version: int | None) -> Any:
        """Send a request, in its latest version if none is given, and wait for its response.

        Raises: OSError when the connection is broken.
        """

    def send_async(self, request: msgspec.Struct, version: int) -> Callable[[], Any]:
        """Send a request without waiting. Returns: a function that waits for its response (None: connection broke)."""

    def close(self) -> None:
        """Close the connection."""


class ScenarioCluster(Protocol):
    """A cluster with the nodes 0 to 2, and its clock."""

    def connect(self, node: int) -> Connection:
        """A new connection to a node. Raises: OSError."""

    def pass_time(self, duration_s: float) -> None:
        """Wait by the cluster's clock."""

    def now_s(self) -> float:
        """A clock in seconds."""

    def time_ms(self) -> int:
        """Milliseconds since 1970, by the brokers' clock."""

    def stop(self, node: int) -> None:
        """Stop a node cleanly."""

    def kill(self, node: int) -> None:
        """Kill a node."""

    def start(self, node: int) -> None:
        """Start a node again."""

    def pause(self, node: int) -> None:
        """Let a node stand still."""

    def resume(self, node: int) -> None:
        """Let a paused node go on."""

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make another replica the leader."""


class SocketConnection:
    """A connection over a socket, in real time."""

    def __init__(self, address: str) -> None:
        self._client = Client(address, timeout_s=TIMEOUT_S)

    def send(self, request: msgspec.Struct, version: int | None) -> Any:
        """Send a request and wait for its response."""
        return self._client.send(request, version)

    def send_async(self, request: msgspec.Struct, version: int) -> Callable[[], Any]:
        """Send a request in a separate thread."""
        answers: list[Any] = []

        def run() -> None:
            with suppress(OSError):  # The connection broke; there is no answer then.
                answers.append(self.send(request, version))

        thread = threading.Thread(target=run)
        thread.start()

        def wait() -> Any:
            thread.join(TIMEOUT_S)
            return answers[0] if answers else None

        return wait

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class ScenarioClient:
    """Sends requests to the nodes of a cluster, over one connection to each, which is replaced when it breaks."""

    def __init__(self, cluster: ScenarioCluster) -> None:
        self.cluster = cluster
        self._connections: dict[int, Connection] = {}

    def send(self, node: int, request: msgspec.Struct, version: int | None = None) -> Any:
        """Send a request to a node, and wait for its response."""
        connection = self._connection(node)
        try:
            return connection.send(request, version)
        except OSError:
            connection.close()
            del self._connections[node]
            raise

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def send_async(self, node: int, request: msgspec.Struct, version: int) -> Callable[[], Any]:
        """Send a request without waiting; the returned function waits for its response."""
        wait = self._connection(node).send_async(request, version)
        self.pass_time(0.3)  # The request has to be there before what it waits for happens; nothing shows that it is.
        return wait

    def _connection(self, node: int) -> Connection:
        if node not in self._connections:
            self._connections[node] = self.cluster.connect(node)
        return self._connections[node]

    def pass_time(self, duration_s: float) -> None:
        """Wait by the cluster's clock."""
        self.cluster.pass_time(duration_s)

    def wait_until(self, request: Callable[[], Any], is_done: Callable[[Any], bool]) -> Any:
        """Repeat a request until its response is as required."""
        deadline = self.cluster.now_s() + TIMEOUT_S
        while True:
            try:
                observed = request()
            except OSError:
                observed = None
            if observed is not None and is_done(observed):
                return observed
            assert self.cluster.now_s() < deadline, f"still {observed}"
            self.pass_time(0.1)

    def wait_for_partition(self, node: int, name: str, index: int = 0, **wanted: object) -> dict[str, Any]:
        """Wait until a node describes a partition with these values; its description."""
        row: dict[str, Any] = self.wait_until(
            lambda: self.describe_partition(node, name, index), lambda row: row == {**row, **wanted}
        )
        return row

    def wait_for_brokers(self, node: int, brokers: list[int]) -> None:
        """Wait until a node's metadata has these brokers."""
        self.wait_until(lambda: self.list_brokers(node), lambda listed: listed == brokers)

    # Requests that every scenario needs.

    def create_topic(self, name: str, replicas: Iterable[tuple[int, ...]]) -> None:
        """Create a topic with these replicas, and wait until its leaders answer."""
        rows = [CreatableReplicaAssignment(index, brokers) for index, brokers in enumerate(replicas)]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=rows)
        self.delete_topic(name)
        # The topic may still exist from an earlier run.
        self.wait_until(
            lambda: self.send(0, CreateTopicsRequest(topics=[topic], timeout_ms=30_000)),
            lambda answer: answer.topics[0].error_code == 0,
        )
        for row in rows:
            for node in (0, row.broker_ids[0]):
                self.wait_until(partial(self.describe_partition, node, name), lambda answer: answer["leader"] >= 0)

    def delete_topic(self, name: str) -> None:
        """Delete a topic that another scenario may have created."""
        self.send(0, DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000), 6)

    def topic_id(self, name: str, node: int = 0) -> bytes:
        """The id of a topic."""
        answer = self.send(node, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        return bytes(answer.topics[0].topic_id)

    def describe_partition(self, node: int, name: str, index: int = 0) -> dict[str, Any]:
        """The state of a partition in a node's metadata."""
        answer = self.send(node, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
        row = next((row for row in answer.topics[0].partitions if row.partition_index == index), None)
        if row is None:
            return {"leader": -2}
        more = self.send(node, DescribeTopicPartitionsRequest(topics=[TopicRequest(name)]))
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

    def list_brokers(self, node: int) -> list[int]:
        """The brokers in a node's metadata."""
        return sorted(broker.node_id for broker in self.send(node, MetadataRequest(topics=[])).brokers)

    def produce(self, node: int, name: str, count: int, index: int = 0) -> int:
        """Append a batch of so many records; returns the error code."""
        records = [Record(offset=n, timestamp=1_700_000_000_000, key=None, value=b"v") for n in range(count)]
        topic = TopicProduceData(name=name, partition_data=[PartitionProduceData(index, write_batch(records))])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
        return int(self.send(node, request, 12).responses[0].partition_responses[0].error_code)

    def join_share_group(self, name: str) -> int:
        """Join the group, which starts at the earliest offset, and wait for an assignment. Returns: the epoch."""
        config = AlterableConfig("share.auto.offset.reset", 0, "earliest")
        self.send(0, IncrementalAlterConfigsRequest([AlterConfigsResource(32, GROUP, [config])]))
        node = self.find_coordinator(0)
        epoch = 0
        deadline = self.cluster.now_s() + TIMEOUT_S
        while self.cluster.now_s() < deadline:
            heartbeat = ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch, subscribed_topic_names=(name,))
            answer = self.send(node, heartbeat, 1)
            if answer.error_code == 0:
                epoch = int(answer.member_epoch)
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    return epoch
            self.pass_time(0.2)
        raise AssertionError("no assignment came")

    def find_coordinator(self, node: int) -> int:
        """The coordinator of the group, once there is one."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(GROUP,))
        answer = self.wait_until(lambda: self.send(node, request, 4).coordinators[0], lambda row: row.error_code == 0)
        return int(answer.node_id)
