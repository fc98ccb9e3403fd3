"""A cluster in an edition of KIP-932, played over sockets, and the records that its coordinators leave behind."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import kwire
from kwire import Client, uuids
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, read_batches, write_batch
from mockbroker import Cluster
from mockbroker.inside import Status

Json = dict[str, Any]

OFFSETS, STATES = "__consumer_offsets", "__share_group_state"
_SETTINGS = {"offsets.topic.num.partitions": "1", "share.coordinator.state.topic.num.partitions": "1"}
_FETCH_BYTES = 1 << 20
_WAIT_S = 20.0
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
_LOADING = (14, 15, 16)
#: By topic and type of key, how an edition calls its records.
_NAMES = {
    OFFSETS: {
        3: "ConsumerGroupMetadata",
        9: "ShareGroupPartitionMetadata",
        10: "ShareGroupMemberMetadata",
        11: "ShareGroupMetadata",
    },
}


def member_id(number: int) -> str:
    """A UUID as clients make them."""
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


class Stage:
    """One cluster, with a topic "t" unless told otherwise, and a client of each node."""

    def __init__(
        self, edition: str, *, nodes: int = 1, topics: Mapping[str, int] | None = None, **properties: str
    ) -> None:
        self.edition = edition
        settings = _SETTINGS | {name.replace("_", "."): value for name, value in properties.items()}
        self.cluster = Cluster(
            share_edition=edition, nodes=nodes, topics=topics or {"t": 1}, properties=settings, seed=1
        )
        self._stack = ExitStack()
        self._clients: dict[tuple[int, str], Client] = {}
        self._epochs: dict[str, int] = {}

    def __enter__(self) -> Stage:
        self._stack.enter_context(self.cluster)
        self.cluster.clock.freeze()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def client(self, node: int | None = None, *, line: str = "asking") -> Client:
        """The client that asks one node; by default the first that runs. line: which of its connections."""
        addresses = self.cluster.bootstrap_servers.split(",")
        at = 0 if node is None else node
        if (at, line) not in self._clients:
            client = Client(addresses[at], edition=self.edition)
            self._clients[at, line] = self._stack.enter_context(client)
        return self._clients[at, line]

    def ask(self, name: str, tree: Json, *, version: int = 0, node: int | None = None) -> Json:
        """Send a request of the edition; the answer as JSON."""
        request = kwire.from_json(f"{name}Request", version, tree, edition=self.edition)
        answer = kwire.to_json(self.client(node).send(request, version), version)
        assert isinstance(answer, dict)
        return answer

    def submit(self, name: str, tree: Json, *, version: int = 0, node: int | None = None) -> None:
        """Send a request whose answer nobody waits for."""
        self.client(node).submit(kwire.from_json(f"{name}Request", version, tree, edition=self.edition), version)

    def start_node(self, node: int) -> None:
        """Start a node again; whoever had a line to it needs another one."""
        self.cluster.start_node(node)
        for at, line in list(self._clients):
            if at == node:
                del self._clients[at, line]

    def topic_id(self, name: str = "t") -> str:
        """The id of a topic as text."""
        topics = self.client().send(MetadataRequest(topics=None)).topics
        return uuids.to_text(next(topic.topic_id for topic in topics if topic.name == name))

    def leader(self, name: str, partition: int = 0, *, node: int | None = None) -> int:
        """The node that leads a partition, by what a node knows."""
        topics = self.client(node).send(MetadataRequest(topics=None)).topics
        [topic] = [topic for topic in topics if topic.name == name]
        leader = next(row.leader_id for row in topic.partitions if row.partition_index == partition)
        assert isinstance(leader, int)
        return leader

    @staticmethod
    def wait_until(is_so: Callable[[], bool]) -> None:
        """Look until something is so."""
        deadline = time.monotonic() + _WAIT_S
        while not is_so():
            assert time.monotonic() < deadline, "it never came to pass"

    # Members.

    def heartbeat(self, member: int, epoch: int, *names: str, group: str = "G1", node: int | None = None) -> Json:
        """One heartbeat; without names as before."""
        tree = {"groupId": group, "memberId": member_id(member), "memberEpoch": epoch}
        return self.ask("ShareGroupHeartbeat", tree | {"subscribedTopicNames": list(names) or None}, node=node)

    def join(self, member: int, *names: str, group: str = "G1", node: int | None = None) -> Json:
        """Heartbeats of a member until it has what it is to have; the last answer that told an assignment."""
        answer = self.heartbeat(member, 0, *(names or ("t",)), group=group, node=node)
        assert answer["errorCode"] == 0, answer
        deadline = time.monotonic() + _WAIT_S
        while not (answer["assignment"] or {}).get("topicPartitions"):
            assert time.monotonic() < deadline, "nothing was assigned"
            answer = self.heartbeat(member, answer["memberEpoch"], group=group, node=node)
            assert answer["errorCode"] == 0, answer
        return answer

    def leader_of_group(self, group: str = "G1") -> int:
        """The node that coordinates a group; the topic is made for it."""

        def answer() -> Json:
            [row] = self.ask("FindCoordinator", {"keyType": 0, "coordinatorKeys": [group]}, version=4)["coordinators"]
            assert isinstance(row, dict)
            return row

        self.wait_until(lambda: answer()["errorCode"] == 0)
        return int(answer()["nodeId"])

    def heartbeat_when_loaded(self, member: int, epoch: int, *names: str, node: int) -> Json:
        """A heartbeat to a coordinator that may have to load the group first."""
        answers: list[Json] = []

        def is_loaded() -> bool:
            answers.append(self.heartbeat(member, epoch, *names, node=node))
            return answers[-1]["errorCode"] not in _LOADING

        self.wait_until(is_loaded)
        return answers[-1]

    def describe(self, group: str = "G1", node: int | None = None) -> Json:
        """The row of a group."""
        [row] = self.ask("ShareGroupDescribe", {"groupIds": [group]}, node=node)["groups"]
        assert isinstance(row, dict)
        return row

    def delete_group(self, group: str = "G1", node: int | None = None) -> int:
        """Delete a group; the code of its row."""
        [row] = self.ask("DeleteGroups", {"groupsNames": [group]}, version=2, node=node)["results"]
        return int(row["errorCode"])

    def add_partitions(self, topic: str, count: int) -> None:
        """Let a topic have so many partitions."""
        tree = {"topics": [{"name": topic, "count": count, "assignments": None}], "timeoutMs": 1000}
        [row] = self.ask("CreatePartitions", tree, version=3)["results"]
        assert row["errorCode"] == 0, row

    # Records of the topic.

    def produce(self, *counts: int, topic: str = "t") -> None:
        """Append a batch for each count."""
        now_ms = self.cluster.clock.now_ms()
        for count in counts:
            batch = write_batch([Record(offset=n, timestamp=now_ms, key=None, value=b"value") for n in range(count)])
            data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
            answer = self.client(self.leader(topic)).send(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0

    def open(self, member: int, *, topic: str = "t", group: str = "G1") -> None:
        """Open a member's session where there is nothing to fetch, and wait for the leader to have the state."""
        assert self.fetch(member, topic=topic, group=group, wait_ms=0) == []

        def is_there() -> bool:
            view = self.cluster.share_partition(group, topic, 0)
            return view is not None and view.status is Status.ACTIVE

        self.wait_until(is_there)

    def fetch(
        self, member: int, *, topic: str = "t", group: str = "G1", wait_ms: int = 500
    ) -> list[tuple[int, int, int]]:
        """The next ShareFetch of a member's session: first, last and delivery count of what it acquired."""
        partition = {"partitionIndex": 0, "partitionMaxBytes": _FETCH_BYTES}
        limits = {"maxWaitMs": wait_ms, "minBytes": min(wait_ms, 1), "maxBytes": _FETCH_BYTES}
        answer = self._session("ShareFetch", member, topic, group, partition, **limits)
        rows = [row for found in answer["responses"] for row in found["partitions"]]
        assert not any(row["errorCode"] for row in rows), rows
        return [
            (run["baseOffset"], run["lastOffset"], run["deliveryCount"])
            for row in rows
            for run in row["acquiredRecords"]
        ]

    def acknowledge(self, member: int, first: int, last: int, kind: int, *, topic: str = "t", group: str = "G1") -> int:
        """The next ShareAcknowledge of a member's session; the code of its row."""
        batch = {"baseOffset": first, "lastOffset": last, "acknowledgeTypes": [kind]}
        partition = {"partitionIndex": 0, "acknowledgementBatches": [batch]}
        answer = self._session("ShareAcknowledge", member, topic, group, partition)
        assert answer["errorCode"] == 0, answer
        code = answer["responses"][0]["partitions"][0]["errorCode"]
        assert isinstance(code, int)
        return code

    def _session(self, name: str, member: int, topic: str, group: str, partition: Json, **fields: int) -> Json:
        key = f"{group}:{member}"
        tree = {
            "groupId": group,
            "memberId": member_id(member),
            "shareSessionEpoch": self._epochs.get(key, 0),
            "topics": [{"topicId": self.topic_id(topic), "partitions": [partition]}],
        }
        self._epochs[key] = self._epochs.get(key, 0) + 1
        return self.ask(name, tree | fields, node=self.leader(topic))

    # What coordinators have written.

    def records(self, topic: str, *, node: int | None = None) -> list[tuple[str, Json, Json | None]]:
        """The records of a coordinator's topic that are those of share groups: name, key and value.

        node: whom to ask who leads the topic.
        """
        found = []
        for key, value in self._read(topic, node):
            number = int.from_bytes(key[:2], "big")
            name = self._name(topic, number)
            if name is None:
                continue
            content = None
            if value is not None:
                version = int.from_bytes(value[:2], "big")
                content = self._json(f"{name}Value", version, value[2:])
            found.append((name, self._json(f"{name}Key", 0, key[2:]), content))
        return found

    def _name(self, topic: str, number: int) -> str | None:
        if topic == OFFSETS:
            return _NAMES[OFFSETS].get(number)
        is_last = self.edition == "kip932-r5"
        return (("ShareSnapshot", "ShareUpdate") if is_last else ("ShareCheckpoint", "ShareDelta"))[number]

    def _json(self, name: str, version: int, data: bytes) -> Json:
        # The fourth revision has no page for the records of the state topic: they are the third's.
        is_third = name.startswith(("ShareCheckpoint", "ShareDelta"))
        edition = "kip932-r3" if is_third else self.edition
        tree = kwire.to_json(kwire.decode(name, version, data, edition=edition), version)
        assert isinstance(tree, dict)
        return tree

    def _read(self, topic: str, node: int | None) -> list[tuple[bytes, bytes | None]]:
        client = self.client(self.leader(topic, node=node), line="reading")
        found: list[tuple[bytes, bytes | None]] = []
        offset = 0
        while True:  # A fetch ends with the segment that it begins in.
            partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
            topics = [FetchTopic(topic, partitions=[partition])]
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=_FETCH_BYTES, topics=topics)
            [row] = client.send(request, 12).responses[0].partitions
            assert row.error_code == 0, row
            records = [each for batch in read_batches(row.records or b"", partial_ok=True) for each in batch.records()]
            if not records:
                return found
            offset = records[-1].offset + 1
            found += [(bytes(each.key or b""), None if each.value is None else bytes(each.value)) for each in records]
