"""`EditionCluster`: a cluster in an edition of KIP-932 over sockets, and the records that its coordinators write."""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import kwire
from kwire import Client, uuids
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, read_batches, write_batch
from mockbroker import Cluster
from mockbroker.broker.inspection import PartitionStatus

Json = dict[str, Any]

OFFSETS, STATES = "__consumer_offsets", "__share_group_state"
_SETTINGS = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}
_FETCH_BYTES = 1 << 20
_WAIT_S = 20.0
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
_LOADING = (14, 15, 16)
#: The names of the records of share groups in the drafts, by key type.
_GROUP_RECORDS = {9: "ShareGroupPartitionMetadata", 10: "ShareGroupMemberMetadata", 11: "ShareGroupMetadata"}


def encode_member_id(number: int) -> str:
    """A member id in the form that clients generate, from a number."""
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


class EditionCluster:
    """One cluster, by default with a topic "t", and clients of its nodes."""

    def __init__(
        self, edition: str, *, nodes: int = 1, topics: Mapping[str, int] | None = None, **properties: str
    ) -> None:
        self.edition = edition
        settings = _SETTINGS | {name.replace("_", "."): value for name, value in properties.items()}
        topics = topics or {"t": 1}
        self.cluster = Cluster(share_edition=edition, nodes=nodes, topics=topics, properties=settings, seed=1)
        self._stack = ExitStack()
        self._clients: dict[tuple[int, str], Client] = {}
        self._epochs: Counter[int] = Counter()

    def __enter__(self) -> EditionCluster:
        self._stack.enter_context(self.cluster)
        self.cluster.clock.freeze()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def client(self, node: int | None = None, *, line: str = "requests") -> Client:
        """The client of a node, by default of node 0. line: the name of one of its connections."""
        addresses = self.cluster.bootstrap_servers.split(",")
        at = 0 if node is None else node
        if (at, line) not in self._clients:
            client = Client(addresses[at], edition=self.edition)
            self._clients[at, line] = self._stack.enter_context(client)
        return self._clients[at, line]

    def call(self, name: str, tree: Json, *, version: int = 0, node: int | None = None) -> Json:
        """Send a request of the edition. Returns: the response as JSON."""
        request = kwire.from_json(f"{name}Request", version, tree, edition=self.edition)
        answer = kwire.to_json(self.client(node).send(request, version), version)
        assert isinstance(answer, dict)
        return answer

    def submit(self, name: str, tree: Json, *, version: int = 0, node: int | None = None) -> None:
        """Send a request without waiting for its response."""
        self.client(node).submit(kwire.from_json(f"{name}Request", version, tree, edition=self.edition), version)

    def start_node(self, node: int) -> None:
        """Start a node again; its connections are replaced on next use."""
        self.cluster.start_node(node)
        for at, line in list(self._clients):
            if at == node:
                del self._clients[at, line]

    def topic_id(self, name: str = "t") -> str:
        """The id of a topic as text."""
        topics = self.client().send(MetadataRequest(topics=None)).topics
        return uuids.to_text(next(topic.topic_id for topic in topics if topic.name == name))

    def find_leader(self, name: str, partition: int = 0, *, node: int | None = None) -> int:
        """The leader of a partition in the metadata of a node."""
        topics = self.client(node).send(MetadataRequest(topics=None)).topics
        [topic] = [topic for topic in topics if topic.name == name]
        return int(next(row.leader_id for row in topic.partitions if row.partition_index == partition))

    @staticmethod
    def wait_until(is_true: Callable[[], bool]) -> None:
        """Repeat a check until it is true."""
        deadline = time.monotonic() + _WAIT_S
        while not is_true():
            assert time.monotonic() < deadline, "timed out"

    # Members.

    def heartbeat(self, member: int, epoch: int, *names: str, node: int | None = None) -> Json:
        """Send a heartbeat; without names the subscription stays as it is."""
        tree = {"groupId": "G1", "memberId": encode_member_id(member), "memberEpoch": epoch}
        return self.call("ShareGroupHeartbeat", tree | {"subscribedTopicNames": list(names) or None}, node=node)

    def join(self, member: int, *names: str, node: int | None = None) -> Json:
        """Send heartbeats of a member until it has an assignment. Returns: the last response."""
        answer = self.heartbeat(member, 0, *(names or ("t",)), node=node)
        assert answer["errorCode"] == 0, answer
        deadline = time.monotonic() + _WAIT_S
        while not (answer["assignment"] or {}).get("topicPartitions"):
            assert time.monotonic() < deadline, "nothing was assigned"
            answer = self.heartbeat(member, answer["memberEpoch"], node=node)
            assert answer["errorCode"] == 0, answer
        return answer

    def find_coordinator(self) -> int:
        """The node that coordinates the group; the look-up creates the topic."""

        def node_id() -> int:
            [row] = self.call("FindCoordinator", {"keyType": 0, "coordinatorKeys": ["G1"]}, version=4)["coordinators"]
            return int(row["nodeId"])  # -1 with an error.

        self.wait_until(lambda: node_id() >= 0)
        return node_id()

    def heartbeat_when_loaded(self, member: int, epoch: int, *names: str, node: int) -> Json:
        """Send heartbeats to a coordinator until it has loaded the group. Returns: the last response."""
        answers: list[Json] = []

        def is_loaded() -> bool:
            answers.append(self.heartbeat(member, epoch, *names, node=node))
            return answers[-1]["errorCode"] not in _LOADING

        self.wait_until(is_loaded)
        return answers[-1]

    def describe_group(self, node: int | None = None) -> Json:
        """The row of a group in ShareGroupDescribe."""
        [row] = self.call("ShareGroupDescribe", {"groupIds": ["G1"]}, node=node)["groups"]
        assert isinstance(row, dict)
        return row

    def delete_group(self, node: int | None = None) -> int:
        """Delete a group. Returns: the error code of its row."""
        [row] = self.call("DeleteGroups", {"groupsNames": ["G1"]}, version=2, node=node)["results"]
        return int(row["errorCode"])

    def add_partitions(self, topic: str, count: int) -> None:
        """Increase the number of partitions of a topic."""
        tree = {"topics": [{"name": topic, "count": count, "assignments": None}], "timeoutMs": 1000}
        [row] = self.call("CreatePartitions", tree, version=3)["results"]
        assert row["errorCode"] == 0, row

    # State and offsets of the group "G1" and the topic "t".

    def call_state_api(self, name: str, *, node: int | None = None, **fields: object) -> Json:
        """Send one of the state RPCs for partition 0. Returns: its row, which is the whole response in r3."""
        share_partition: Json = {"topicId": self.topic_id(), "partition": 0} | fields
        if self.edition == "kip932-r3":
            return self.call(name, {"groupId": "G1"} | share_partition, node=node)
        topics = [{"topicId": share_partition.pop("topicId"), "partitions": [share_partition]}]
        [topic] = self.call(name, {"groupId": "G1", "topics": topics}, node=node)["results"]
        [row] = topic["partitions"]
        assert isinstance(row, dict)
        return row

    def read_summary(self, *, node: int | None = None) -> Json:
        """The stored state of partition 0 without its states of records."""
        tree = {"groupId": "G1", "topicId": self.topic_id(), "partition": 0}
        return self.call("ReadShareGroupOffsetsState", tree, node=node)

    def alter_offsets(self, starts: Mapping[int, int], *, node: int | None = None, topic: str = "t") -> list[int]:
        """Alter start offsets by partition. Returns: the error codes of the partitions."""
        rows = [{"partitionIndex": index, "startOffset": start} for index, start in starts.items()]
        return [row["errorCode"] for row in self._call_offsets_api("AlterShareGroupOffsets", rows, topic, node)]

    def describe_offsets(self, *partitions: int, node: int | None = None) -> list[tuple[int, int]]:
        """Error code and start offset of each of the partitions."""
        rows = self._call_offsets_api("DescribeShareGroupOffsets", list(partitions), "t", node)
        return [(row["errorCode"], row["startOffset"]) for row in rows]

    def delete_offsets(self, *partitions: int, node: int | None = None) -> list[int]:
        """Delete the state of partitions. Returns: their error codes."""
        rows = self._call_offsets_api("DeleteShareGroupOffsets", list(partitions), "t", node)
        return [row["errorCode"] for row in rows]

    def _call_offsets_api(self, name: str, rows: list[Any], topic: str, node: int | None) -> list[Json]:
        tree = {"groupId": "G1", "topics": [{"topicName": topic, "partitions": rows}]}
        [answer] = self.call(name, tree, node=node)["responses"]
        partitions: list[Json] = answer["partitions"]
        return partitions

    # Records of the topic.

    def produce(self, count: int) -> None:
        """Append a batch of records."""
        now_ms = self.cluster.clock.now_ms()
        batch = write_batch([Record(offset=n, timestamp=now_ms, key=None, value=b"value") for n in range(count)])
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data)
        answer = self.client(self.find_leader("t")).send(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def open_session(self, member: int) -> None:
        """Open a member's share session on an empty partition, and wait until the leader has loaded the state."""
        assert self.fetch(member, wait_ms=0) == []

        def is_there() -> bool:
            view = self.cluster.share_partition("G1", "t", 0)
            return view is not None and view.status is PartitionStatus.ACTIVE

        self.wait_until(is_there)

    def fetch(self, member: int, *, wait_ms: int = 500, max_bytes: int = _FETCH_BYTES) -> list[tuple[int, int, int]]:
        """The next ShareFetch of a member's session: first, last and delivery count of what it acquired."""
        partition = {"partitionIndex": 0, "partitionMaxBytes": max_bytes}
        limits = {"maxWaitMs": wait_ms, "minBytes": min(wait_ms, 1), "maxBytes": max_bytes}
        answer = self._send_in_session("ShareFetch", member, partition, **limits)
        rows = [row for found in answer["responses"] for row in found["partitions"]]
        assert not any(row["errorCode"] for row in rows), rows
        runs = [run for row in rows for run in row["acquiredRecords"]]
        return [(run["baseOffset"], run["lastOffset"], run["deliveryCount"]) for run in runs]

    def acknowledge(self, member: int, first: int, last: int, kind: int) -> int:
        """The next ShareAcknowledge of a member's session; the code of its row."""
        batch = {"baseOffset": first, "lastOffset": last, "acknowledgeTypes": [kind]}
        partition = {"partitionIndex": 0, "acknowledgementBatches": [batch]}
        answer = self._send_in_session("ShareAcknowledge", member, partition)
        assert answer["errorCode"] == 0, answer
        return int(answer["responses"][0]["partitions"][0]["errorCode"])

    def _send_in_session(self, name: str, member: int, partition: Json, **fields: int) -> Json:
        tree: Json = {"groupId": "G1", "memberId": encode_member_id(member), "shareSessionEpoch": self._epochs[member]}
        tree["topics"] = [{"topicId": self.topic_id(), "partitions": [partition]}]
        self._epochs[member] += 1
        return self.call(name, tree | fields, node=self.find_leader("t"))

    # Records of the coordinators.

    def read_records(self, topic: str, *, node: int | None = None) -> list[tuple[str, Json, Json | None]]:
        """The records of share groups in a coordinator's topic: name, key and value.

        node: the node whose metadata names the leader of the topic.
        """
        found = []
        for key, value in self._read_partition(topic, node):
            number = int.from_bytes(key[:2], "big")
            name = self._record_name(topic, number)
            if name is None:
                continue
            content = None
            if value is not None:
                version = int.from_bytes(value[:2], "big")
                content = self._decode_to_json(f"{name}Value", version, value[2:])
            found.append((name, self._decode_to_json(f"{name}Key", 0, key[2:]), content))
        return found

    def _record_name(self, topic: str, number: int) -> str | None:
        if topic == OFFSETS:
            return "ConsumerGroupMetadata" if number == 3 else _GROUP_RECORDS.get(number)
        is_last = self.edition == "kip932-r5"
        return (("ShareSnapshot", "ShareUpdate") if is_last else ("ShareCheckpoint", "ShareDelta"))[number]

    def _decode_to_json(self, name: str, version: int, data: bytes) -> Json:
        # The fourth revision does not define records of the state topic: they are those of the third.
        is_third = name.startswith(("ShareCheckpoint", "ShareDelta"))
        edition = "kip932-r3" if is_third else self.edition
        tree = kwire.to_json(kwire.decode(name, version, data, edition=edition), version)
        assert isinstance(tree, dict)
        return tree

    def _read_partition(self, topic: str, node: int | None) -> list[tuple[bytes, bytes | None]]:
        client = self.client(self.find_leader(topic, node=node), line="reads")
        found: list[tuple[bytes, bytes | None]] = []
        offset = 0
        while True:  # A fetch ends at the end of the segment in which it starts.
            partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
            topics = [FetchTopic(topic, partitions=[partition])]
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=_FETCH_BYTES, topics=topics)
            [row] = client.send(request, 12).responses[0].partitions
            assert row.error_code == 0, row
            batches = read_batches(row.records or b"", partial_ok=True)
            records = [record for batch in batches for record in batch.records()]
            if not records:
                return found
            offset = records[-1].offset + 1
            values = (None if record.value is None else bytes(record.value) for record in records)
            found += [(bytes(record.key or b""), value) for record, value in zip(records, values, strict=True)]
