"""Members of a share group in few words, over the tests' `Broker`: what they send, and what of the answer matters."""

from __future__ import annotations

from typing import Any

from kwire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
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
from mockbroker.state.metadata import CoordinatorKind
from mockbroker.state.share_coordinator import ShareKey
from tests.mockbroker.broker import Broker

Acks = dict[tuple[str, int], list[tuple[int, int, list[int]]]]


class ShareBroker(Broker):
    """A broker with topics A and B of two partitions, of which group "g" reads all from the start."""

    def __init__(self, **options: Any) -> None:
        super().__init__(topics={"A": 2, "B": 2}, **options)
        self.metadata = self.core.state.metadata
        for name in ("A", "B"):
            self.initialize(name)

    def topic_id(self, name: str) -> bytes:
        """The id of a topic; a name of one small letter stands for an id that nobody has."""
        topic = self.metadata.topic(name)
        return topic.topic_id if topic is not None else name.encode() * 16

    def initialize(self, name: str, *, start: int = 0, group: str = "g", epoch: int = 1) -> None:
        """Have the share coordinator know both partitions of a topic."""
        topic_id = self.topic_id(name)
        for index in (0, 1):
            key = str(ShareKey(group, topic_id, index))
            node = self.metadata.coordinator_for(CoordinatorKind.SHARE, key)
            rows = [InitializeStateData(topic_id, [InitializePartition(index, epoch, start)])]
            response = self.ask(InitializeShareGroupStateRequest(group, rows), 0, connection=f"admin-{node}", node=node)
            assert response.results[0].partitions[0].error_code == 0

    def produce(self, name: str, count: int, partition: int = 0) -> None:
        """Append one batch of `count` small records."""
        log = self.core.state.nodes[self.leader(name, partition)].logs.get(self.topic_id(name), partition)
        records = [Record(offset=n, timestamp=self.now_ms, key=None, value=b"value") for n in range(count)]
        log.append(write_batch(records), now_ms=self.now_ms)
        self.core._work()  # The append came past the broker's door; who waits for it is woken by hand.
        self._collect()

    def leader(self, name: str, partition: int) -> int:
        """Who leads a partition."""
        place = self.metadata.leader(self.topic_id(name), partition)
        assert place is not None
        return place.leader

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
        """Ask by names such as "A0"; the answer as text, None while parked. The member's own connection by default."""
        topics: dict[bytes, FetchTopic] = {}
        given = acks or {}
        for name, index in dict.fromkeys([(name[0], int(name[1:])) for name in names] + list(given)):
            batches = [
                AcknowledgementBatch(first, last, tuple(kinds)) for first, last, kinds in given.get((name, index), [])
            ]
            topic = topics.setdefault(self.topic_id(name), FetchTopic(self.topic_id(name)))
            topic.partitions.append(FetchPartition(index, acknowledgement_batches=batches))
        request = ShareFetchRequest(
            **{
                "group_id": "g",
                "member_id": member,
                "share_session_epoch": epoch,
                "max_wait_ms": wait_ms,
                "min_bytes": 1,
                "max_bytes": 1_000_000,
                "max_records": 500,
                "batch_size": 500,
                "topics": list(topics.values()),
                "forgotten_topics_data": [ForgottenTopic(self.topic_id(n[0]), (int(n[1:]),)) for n in forget],
                **fields,
            }
        )
        return self.fetched(self.ask(request, version, connection=connection or member))

    def fetched(self, response: ShareFetchResponse | None) -> str | None:
        """A response as text: "A0 0-2/1 | A1" or a top-level code; codes as "!3", acknowledgement codes as "?121"."""
        if response is None:
            return None
        if response.error_code:
            assert not response.responses
            return str(response.error_code)
        rows = []
        for topic in response.responses:
            known = self.metadata.topic_by_id(topic.topic_id)
            for row in topic.partitions:
                words = [f"{known.name if known else chr(topic.topic_id[0])}{row.partition_index}"]
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
        """Acknowledge alone; the answer as text: "A0 | A1 !121"."""
        topics = []
        for (name, index), batches in acks.items():
            partition = AcknowledgePartition(
                index, [AckBatch(first, last, tuple(kinds)) for first, last, kinds in batches]
            )
            topics.append(AcknowledgeTopic(self.topic_id(name), [partition]))
        request = ShareAcknowledgeRequest(
            group_id="g", member_id=member, share_session_epoch=epoch, topics=topics, **fields
        )
        response = self.ask(request, version, connection=member)
        if response is None:
            return None
        if response.error_code:
            return str(response.error_code)
        rows = []
        for topic in response.responses:
            known = self.metadata.topic_by_id(topic.topic_id)
            for row in topic.partitions:
                name = known.name if known else chr(topic.topic_id[0])
                rows.append(f"{name}{row.partition_index}" + (f" !{row.error_code}" if row.error_code else ""))
        return " | ".join(sorted(rows))


def opened(broker: ShareBroker, member: str = "m1", *names: str) -> None:
    """Open a session without acquiring anything, with its share partitions loaded."""
    broker.fetch(member, 0, *(names or ("A0",)), wait_ms=10)
    broker.advance(10)
    assert broker.answer(member) is not None
