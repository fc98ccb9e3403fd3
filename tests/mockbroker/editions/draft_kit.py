"""A member of a share group of a draft of KIP-932, over a socket, by the draft's own messages."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from kwire import Client, from_json, uuids
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker import Cluster
from mockbroker.inside import SharePartitionView

GROUP, TOPIC, MEMBER = "G1", "T", "AAAAAAAAAAAAAAAAAAAAAQ"
#: The numbers of accept, release and reject up to the third revision.
ACCEPT, RELEASE, REJECT = 0, 1, 2
WAIT_MS = 100


class Member:
    """One member with its share session. Fetches take a batch of records at a time, unless told otherwise."""

    def __init__(
        self, cluster: Cluster, edition: str, *, topic: str = TOPIC, group: str = GROUP, bootstrap: str | None = None
    ) -> None:
        self.cluster = cluster
        self.client = Client(bootstrap or cluster.bootstrap_servers, edition=edition)
        self.topic, self.group = topic, group
        self._edition = edition
        self._epoch = 0

    def __enter__(self) -> Member:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()

    @property
    def topic_id(self) -> str:
        """The id of its topic, as text."""
        known = self.cluster.run(lambda server: server.core.state.metadata.topic(self.topic))
        assert known is not None
        return uuids.to_text(known.topic_id)

    def ask(self, name: str, tree: dict[str, Any], *, version: int = 0) -> Any:
        """Send a request, as JSON."""
        return self.client.send(from_json(f"{name}Request", version, tree, edition=self._edition), version)

    def join(self, epoch: int = 0) -> Any:
        """The first heartbeat, or one at a later epoch."""
        names = None if epoch else [self.topic]
        return self.ask(
            "ShareGroupHeartbeat",
            {"groupId": self.group, "memberId": MEMBER, "memberEpoch": epoch, "subscribedTopicNames": names},
        )

    def leave(self) -> None:
        """The last heartbeat; the session stays."""
        tree = {"groupId": self.group, "memberId": MEMBER, "memberEpoch": -1}
        assert self.ask("ShareGroupHeartbeat", tree).error_code == 0

    def produce(self, count: int, *, partition: int = 0) -> int:
        """One batch of records; returns the offset of its first."""
        records = [Record(n, self.cluster.clock.now_ms(), None, b"value") for n in range(count)]
        rows = [TopicProduceData(self.topic, partition_data=[PartitionProduceData(partition, write_batch(records))])]
        answer = self.client.send(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=rows), 9)
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == 0
        return int(row.base_offset)

    def fetch(self, *, max_bytes: int = 1, wait_ms: int = WAIT_MS, partition: int = 0) -> list[tuple[int, int, int]]:
        """What is acquired: first offset, last offset and delivery count of each run."""
        wanted = {"partitionIndex": partition, "partitionMaxBytes": max_bytes}
        answer = self.ask(
            "ShareFetch",
            {
                "groupId": self.group,
                "memberId": MEMBER,
                "shareSessionEpoch": self._epoch,
                "maxWaitMs": wait_ms,
                "minBytes": 1,
                "maxBytes": max_bytes,
                "topics": [{"topicId": self.topic_id, "partitions": [wanted]}],
            },
        )
        self._epoch += 1
        assert answer.error_code == 0
        rows = [row for topic in answer.responses for row in topic.partitions]
        assert all(row.error_code == 0 for row in rows)
        return [(run.base_offset, run.last_offset, run.delivery_count) for row in rows for run in row.acquired_records]

    def first(self, *, partition: int = 0) -> list[tuple[int, int, int]]:
        """The first fetch of a share partition, which finds it still being loaded, and a second one."""
        return self.fetch(wait_ms=0, partition=partition) or self.fetch(partition=partition)

    def settle(self, first: int, last: int, kind: int) -> int:
        """Accept, release or reject a run of offsets; the error code."""
        batch = {"baseOffset": first, "lastOffset": last, "acknowledgeTypes": [kind]}
        partition = {"partitionIndex": 0, "acknowledgementBatches": [batch]}
        answer = self.ask(
            "ShareAcknowledge",
            {
                "groupId": self.group,
                "memberId": MEMBER,
                "shareSessionEpoch": self._epoch,
                "topics": [{"topicId": self.topic_id, "partitions": [partition]}],
            },
        )
        self._epoch += 1
        assert answer.error_code == 0
        return int(answer.responses[0].partitions[0].error_code)

    def alter(self, start: int) -> int:
        """Begin anew at an offset, while nobody is in the group; the error code of the partition."""
        topics = [{"topicName": self.topic, "partitions": [{"partitionIndex": 0, "startOffset": start}]}]
        answer = self.ask("AlterShareGroupOffsets", {"groupId": self.group, "topics": topics})
        return int(answer.responses[0].partitions[0].error_code)

    def alter_anywhere(self, start: int, nodes: list[str]) -> int:
        """As `alter`, by whichever node coordinates the group."""
        codes = []
        for node in nodes:
            with Member(self.cluster, self._edition, topic=self.topic, group=self.group, bootstrap=node) as other:
                codes.append(other.alter(start))
        return min(codes)

    def view(self) -> SharePartitionView:
        """The share partition on its leader."""
        found = self.cluster.share_partition(self.group, self.topic, 0)
        assert found is not None
        return found


def shown(view: SharePartitionView) -> str:
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
