"""Share-group members that a test leads by the hand, over sockets, on a broker that writes a capture."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Iterator
from typing import Any

from kwire import Client, uuids
from kwire.codec import from_json, to_json
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch

Json = dict[str, Any]
#: First and last offset, and what is said of them: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
Word = tuple[int, int, list[int]]

FETCH_VERSION = ACKNOWLEDGE_VERSION = 2


def ask(client: Client, name: str, version: int, body: Json) -> Json:
    """Send a request given as JSON; the answer as JSON."""
    answer: Json = to_json(client.send(from_json(f"{name}Request", version, body), version), version)
    return answer


def topic_id_of(client: Client, topic: str) -> str:
    """The id of a topic, as text."""
    topics = client.send(MetadataRequest(topics=None)).topics
    return next(uuids.to_text(each.topic_id) for each in topics if each.name == topic)


def produce(client: Client, topic_id: str, partition: int, count: int) -> None:
    """Write one batch of so many records."""
    now_ms = time.time_ns() // 1_000_000  # What is old would be cleaned away.
    records = write_batch([Record(index, now_ms, None, b"v", ()) for index in range(count)])
    data = TopicProduceData(
        topic_id=uuids.from_text(topic_id), partition_data=[PartitionProduceData(index=partition, records=records)]
    )
    response = client.send(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), 13)
    assert response.responses[0].partition_responses[0].error_code == 0


def begin_group(client: Client, group: str, topic: str, partitions: int) -> None:
    """Have a group begin at the start of a topic, without any member."""
    rows = [{"partitionIndex": index, "startOffset": 0} for index in range(partitions)]
    body = {"groupId": group, "topics": [{"topicName": topic, "partitions": rows}]}
    answer = ask(client, "AlterShareGroupOffsets", 0, body)
    assert answer["errorCode"] == 0, answer


class Member:
    """One member with one connection; it knows what it was given, and not that a lock has run out."""

    def __init__(self, bootstrap: str, number: int, group: str, topic_id: str, partitions: Iterable[int]) -> None:
        self.client = Client(bootstrap, client_id=f"member-{number}")
        self.member_id = base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
        self.group, self.topic_id, self.partitions = group, topic_id, list(partitions)
        self.epoch = 0
        self.held: set[tuple[int, int]] = set()
        #: The partitions of the session, where the caller keeps them.
        self.listed: set[int] = set()

    def fetch(self, words: dict[int, list[Word]] | None = None, **more: Any) -> Json:
        """Fetch, with acknowledgements by partition; keeps what it is given."""
        return self.take(ask(self.client, "ShareFetch", FETCH_VERSION, self.fetch_body(words, **more)))

    def fetch_body(self, words: dict[int, list[Word]] | None = None, **more: Any) -> Json:
        """A ShareFetch of the next epoch; the first lists all partitions, later ones those with words."""
        numbers = self.partitions if self.epoch == 0 else sorted(words or {})
        body = {
            "groupId": self.group,
            "memberId": self.member_id,
            "shareSessionEpoch": self.epoch,
            "maxWaitMs": 0,
            "minBytes": 0,
            "maxBytes": 1 << 20,
            "maxRecords": 500,
            "batchSize": 500,
            "topics": self._topics(numbers, words or {}),
            "forgottenTopicsData": [],
            **more,
        }
        self.epoch += 1
        return body

    def take(self, answer: Json) -> Json:
        """Keep what a response gives."""
        for topic in answer["responses"]:
            for row in topic["partitions"]:
                for run in row["acquiredRecords"]:
                    self.held |= {
                        (row["partitionIndex"], offset) for offset in range(run["firstOffset"], run["lastOffset"] + 1)
                    }
        return answer

    def acknowledge(self, words: dict[int, list[Word]], *, renews: bool = False) -> Json:
        """Say something of records, without a fetch."""
        answer = ask(self.client, "ShareAcknowledge", ACKNOWLEDGE_VERSION, self._body(self.epoch, words, renews))
        self.epoch += 1
        return answer

    def leave(self, words: dict[int, list[Word]] | None = None) -> Json:
        """End the session, with a last word."""
        answer = ask(self.client, "ShareAcknowledge", ACKNOWLEDGE_VERSION, self._body(-1, words or {}, renews=False))
        self.epoch, self.held = 0, set()
        return answer

    def _body(self, epoch: int, words: dict[int, list[Word]], renews: bool) -> Json:
        return {
            "groupId": self.group,
            "memberId": self.member_id,
            "shareSessionEpoch": epoch,
            "isRenewAck": renews,
            "topics": self._topics(sorted(words), words),
        }

    def _topics(self, numbers: Iterable[int], words: dict[int, list[Word]]) -> list[Json]:
        rows = [
            {
                "partitionIndex": number,
                "acknowledgementBatches": [
                    {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": types}
                    for first, last, types in words.get(number, [])
                ],
            }
            for number in numbers
        ]
        return [{"topicId": self.topic_id, "partitions": rows}] if rows else []


def runs_of(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The runs of consecutive offsets in a sorted order."""
    first = last = None
    for offset in offsets:
        if last is not None and first is not None and offset != last + 1:
            yield first, last
            first = offset
        first = offset if first is None else first
        last = offset
    if first is not None and last is not None:
        yield first, last
