"""Members of a share group in few words, over the tests' `Broker`: what they send, and what of the answer matters."""

from __future__ import annotations

from typing import Any

from kwire.messages.delete_share_group_state import DeleteShareGroupStateRequest, DeleteStateData
from kwire.messages.delete_share_group_state import PartitionData as DeletePartition
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStateData
from kwire.messages.initialize_share_group_state import PartitionData as InitializePartition
from kwire.messages.share_acknowledge import AcknowledgementBatch as AckBatch
from kwire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kwire.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.records import Record, read_batches, write_batch
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from mockbroker.state.share_coordinator.share_coordinator import ShareKey
from tests.support.brokers.broker import Broker

Acks = dict[tuple[str, int], list[tuple[int, int, list[int]]]]


class ShareBroker(Broker):
    """A broker with topics A and B of two partitions, of which group "g" reads all from the start."""

    def __init__(self, **options: Any) -> None:
        super().__init__(topics={"A": 2, "B": 2}, **options)
        for name in ("A", "B"):
            self.initialize(name)

    def topic_id(self, name: str) -> bytes:
        """The id of a topic; a name of one lower-case character stands for an unknown id."""
        topic = self.metadata.topic(name)
        return topic.topic_id if topic is not None else name.encode() * 16

    def initialize(self, name: str, *, start: int = 0, group: str = "g", epoch: int = 1) -> None:
        """Initialize the state of both partitions of a topic at the share coordinator."""
        topic_id = self.topic_id(name)
        for index in (0, 1):
            key = str(ShareKey(group, topic_id, index))
            node = self.metadata.coordinator_id(CoordinatorKind.SHARE, key)
            rows = [InitializeStateData(topic_id, [InitializePartition(index, epoch, start)])]
            request = InitializeShareGroupStateRequest(group, rows)
            response = self.call(request, 0, connection=f"admin-{node}", node=node)
            assert response.results[0].partitions[0].error_code == 0

    def delete_state(self, name: str, *, group: str = "g") -> None:
        """Delete the state of both partitions of a topic at the share coordinator."""
        topic_id = self.topic_id(name)
        for index in (0, 1):
            node = self.metadata.coordinator_id(CoordinatorKind.SHARE, str(ShareKey(group, topic_id, index)))
            request = DeleteShareGroupStateRequest(group, [DeleteStateData(topic_id, [DeletePartition(index)])])
            response = self.call(request, 0, connection=f"admin-{node}", node=node)
            assert response.results[0].partitions[0].error_code == 0

    def produce(self, name: str, count: int, partition: int = 0) -> None:
        """Append one batch of `count` small records."""
        records = [Record(offset=n, timestamp=self.now_ms, key=None, value=b"value") for n in range(count)]
        self.leader_log(name, partition).append(write_batch(records), now_ms=self.now_ms)
        self.core._process_ready()  # The append bypassed the broker, so waiting requests are woken here.
        self._collect()

    def fetch(
        self,
        member: str,
        epoch: int,
        *names: str,
        acks: Acks | None = None,
        forget: tuple[str, ...] = (),
        wait_ms: int = 0,
        connection: str | None = None,
        version: int = 2,
        **fields: Any,
    ) -> str | None:
        """Fetch by names such as "A0"; returns the response as text, None while parked. Default: the member's
        connection.
        """
        topics: dict[bytes, FetchTopic] = {}
        given = acks or {}
        for name, index in dict.fromkeys([(name[0], int(name[1:])) for name in names] + list(given)):
            runs = given.get((name, index), [])
            batches = [AcknowledgementBatch(first, last, tuple(kinds)) for first, last, kinds in runs]
            topic = topics.setdefault(self.topic_id(name), FetchTopic(self.topic_id(name)))
            topic.partitions.append(FetchPartition(index, acknowledgement_batches=batches))
        limits = {"max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1_000_000, "max_records": 500, "batch_size": 500}
        forgotten = [ForgottenTopic(self.topic_id(name[0]), (int(name[1:]),)) for name in forget]
        lists = {"topics": list(topics.values()), "forgotten_topics_data": forgotten}
        session = {"group_id": "g", "member_id": member, "share_session_epoch": epoch}
        request = ShareFetchRequest(**{**session, **limits, **lists, **fields})
        return self.fetched(self.call(request, version, connection=connection or member))

    def fetched(self, response: ShareFetchResponse | None) -> str | None:
        """A response as text: "A0 0-2/1 | A1" or a top-level code; codes as "!3", acknowledgement codes as "?121"."""
        if response is None:
            return None
        if response.error_code:
            assert not response.responses
            return str(response.error_code)
        rows = []
        for topic in response.responses:
            for row in topic.partitions:
                words = [f"{self._topic_name(topic.topic_id)}{row.partition_index}"]
                words += [f"!{row.error_code}"] if row.error_code else []
                words += [f"?{row.acknowledge_error_code}"] if row.acknowledge_error_code else []
                words += [f"{run.first_offset}-{run.last_offset}/{run.delivery_count}" for run in row.acquired_records]
                assert row.records is not None
                assert bool(row.acquired_records) == bool(len(row.records))
                rows.append(" ".join(words))
        return " | ".join(sorted(rows))

    def spans(self, response: ShareFetchResponse) -> list[tuple[int, int]]:
        """First and last offset of every record batch in the first row."""
        records = response.responses[0].partitions[0].records
        return [(batch.base_offset, batch.last_offset) for batch in read_batches(records)]

    def ack(self, member: str, epoch: int, acks: Acks, *, version: int = 2, **fields: Any) -> str | None:
        """Acknowledge without a fetch; returns the response as text: "A0 | A1 !121"."""
        topics = []
        for (name, index), batches in acks.items():
            ack_batches = [AckBatch(first, last, tuple(kinds)) for first, last, kinds in batches]
            topics.append(AcknowledgeTopic(self.topic_id(name), [AcknowledgePartition(index, ack_batches)]))
        request = ShareAcknowledgeRequest("g", member, epoch, topics=topics, **fields)
        response = self.call(request, version, connection=member)
        if response is None:
            return None
        if response.error_code:
            return str(response.error_code)
        rows = []
        for topic in response.responses:
            name = self._topic_name(topic.topic_id)
            for row in topic.partitions:
                rows.append(f"{name}{row.partition_index}" + (f" !{row.error_code}" if row.error_code else ""))
        return " | ".join(sorted(rows))

    def _topic_name(self, topic_id: bytes) -> str:
        topic = self.metadata.topic_by_id(topic_id)
        return topic.name if topic else chr(topic_id[0])


def opened(broker: ShareBroker, member: str = "m1", *names: str) -> None:
    """Open a session without acquiring anything, with its share partitions loaded."""
    broker.fetch(member, 0, *(names or ("A0",)), wait_ms=10)
    broker.advance(10)
    assert broker.take_response(member) is not None
