"""A member of a share group of a draft of KIP-932, over a socket, by the draft's own messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kwire import Client, from_json, uuids
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker import Cluster
from mockbroker.broker.inspection import SharePartitionView

GROUP, TOPIC, MEMBER = "G1", "T", "AAAAAAAAAAAAAAAAAAAAAQ"
#: The numbers of accept, release and reject up to the third revision.
ACCEPT, RELEASE, REJECT = 0, 1, 2
WAIT_MS = 100


class Member:
    """One member with its share session. Fetches take a batch of records at a time, by default."""

    def __init__(self, cluster: Cluster, edition: str, *, group: str = GROUP, bootstrap: str | None = None) -> None:
        self.cluster = cluster
        self.client = Client(bootstrap or cluster.bootstrap_servers, edition=edition)
        self.group = group
        self._edition = edition
        self._epoch = 0

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()

    @property
    def topic_id(self) -> str:
        """The id of its topic, as text."""
        known = self.cluster.run(lambda server: server.core.state.metadata.topic(TOPIC))
        assert known is not None
        return uuids.to_text(known.topic_id)

    def call(self, name: str, tree: dict[str, Any], *, version: int = 0) -> Any:
        """Send a request, as JSON."""
        return self.client.send(from_json(f"{name}Request", version, tree, edition=self._edition), version)

    def join(self, epoch: int = 0) -> Any:
        """The first heartbeat, or one at a later epoch."""
        tree = {"groupId": self.group, "memberId": MEMBER, "memberEpoch": epoch}
        return self.call("ShareGroupHeartbeat", tree | {"subscribedTopicNames": None if epoch else [TOPIC]})

    def leave(self) -> None:
        """The last heartbeat; the session stays."""
        assert self.join(-1).error_code == 0

    def open_session(self) -> None:
        """Join the group, and open a share session, which gets no records yet."""
        self.join()
        assert self.fetch(wait_ms=0) == []

    def produce(self, count: int, *, partition: int = 0) -> int:
        """One batch of records; returns the offset of its first."""
        records = [Record(n, self.cluster.clock.now_ms(), None, b"value") for n in range(count)]
        rows = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(partition, write_batch(records))])]
        answer = self.client.send(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=rows), 9)
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == 0
        return int(row.base_offset)

    def fetch(self, *, max_bytes: int = 1, wait_ms: int = WAIT_MS, partition: int = 0) -> list[tuple[int, int, int]]:
        """What is acquired: first offset, last offset and delivery count of each run."""
        wanted = {"partitionIndex": partition, "partitionMaxBytes": max_bytes}
        answer = self._call_in_session("ShareFetch", wanted, maxWaitMs=wait_ms, minBytes=1, maxBytes=max_bytes)
        rows = [row for topic in answer.responses for row in topic.partitions]
        assert all(row.error_code == 0 for row in rows)
        return [(run.base_offset, run.last_offset, run.delivery_count) for row in rows for run in row.acquired_records]

    def first_fetch(self, *, partition: int = 0) -> list[tuple[int, int, int]]:
        """The first fetch of a share partition, which finds it still being loaded, and a second one."""
        return self.fetch(wait_ms=0, partition=partition) or self.fetch(partition=partition)

    def acknowledge(self, first: int, last: int, kind: int) -> int:
        """Accept, release or reject a run of offsets; the error code."""
        batch = {"baseOffset": first, "lastOffset": last, "acknowledgeTypes": [kind]}
        partition = {"partitionIndex": 0, "acknowledgementBatches": [batch]}
        answer = self._call_in_session("ShareAcknowledge", partition)
        return int(answer.responses[0].partitions[0].error_code)

    def _call_in_session(self, name: str, partition: dict[str, Any], **fields: int) -> Any:
        tree = {"groupId": self.group, "memberId": MEMBER, "shareSessionEpoch": self._epoch}
        topics = [{"topicId": self.topic_id, "partitions": [partition]}]
        answer = self.call(name, {**tree, "topics": topics, **fields})
        self._epoch += 1
        assert answer.error_code == 0
        return answer

    def alter(self, start: int) -> int:
        """Alter the start offset, while the group is empty. Returns: the error code of the partition."""
        topics = [{"topicName": TOPIC, "partitions": [{"partitionIndex": 0, "startOffset": start}]}]
        answer = self.call("AlterShareGroupOffsets", {"groupId": self.group, "topics": topics})
        return int(answer.responses[0].partitions[0].error_code)

    def alter_anywhere(self, start: int, nodes: list[str]) -> int:
        """As `alter`, by whichever node coordinates the group."""
        codes = []
        for node in nodes:
            with Member(self.cluster, self._edition, group=self.group, bootstrap=node) as other:
                codes.append(other.alter(start))
        return min(codes)

    def view(self) -> SharePartitionView:
        """The share partition on its leader."""
        found = self.cluster.share_partition(self.group, TOPIC, 0)
        assert found is not None
        return found


@contextmanager
def running_member(edition: str, **properties: Any) -> Iterator[Member]:
    """A member of a group on a new cluster with one partition. properties: of its brokers."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    with (
        Cluster(share_edition=edition, topics={TOPIC: 1}, properties=given) as cluster,
        Member(cluster, edition) as member,
    ):
        yield member


def describe_view(view: SharePartitionView) -> str:
    """Start, end and what is in flight in a line, runs of the same state joined: "110 121 110/2 acquired, ..."."""
    runs: list[list[Any]] = []
    for run in view.in_flight:
        if run.last_offset < view.start_offset:
            continue
        first = max(run.first_offset, view.start_offset)
        word = f"{run.state.name.lower()}/{run.delivery_count}"
        if runs and runs[-1][2] == word and runs[-1][1] + 1 == first:
            runs[-1][1] = run.last_offset
        else:
            runs.append([first, run.last_offset, word])
    words = [f"{first}-{last} {word}" if first != last else f"{first} {word}" for first, last, word in runs]
    return f"{view.start_offset} {view.end_offset} " + ", ".join(words)
