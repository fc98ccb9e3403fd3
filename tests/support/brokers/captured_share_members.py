"""Share-group members that are controlled by a test, over sockets, on a broker whose traffic is captured."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from kwire import Client, uuids
from kwire.codec import from_json, to_json
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch

Json = dict[str, Any]
#: First offset, last offset and acknowledge types: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
Acknowledgement = tuple[int, int, list[int]]

#: The acknowledgements of a request by partition.
Acknowledgements = dict[int, list[Acknowledgement]]
_BATCH_KEYS = ("firstOffset", "lastOffset", "acknowledgeTypes")

FETCH_VERSION = ACKNOWLEDGE_VERSION = 2


def send_json(client: Client, name: str, version: int, body: Json) -> Json:
    """Send a request in JSON form; returns the response in JSON form."""
    response: Json = to_json(client.send(from_json(f"{name}Request", version, body), version), version)
    return response


def topic_id_of(client: Client, topic: str) -> str:
    """The id of a topic, as text."""
    topics = client.send(MetadataRequest(topics=None)).topics
    return next(uuids.to_text(each.topic_id) for each in topics if each.name == topic)


def produce(client: Client, topic_id: str, partition: int, count: int) -> None:
    """Produce one batch with a number of records."""
    now_ms = time.time_ns() // 1_000_000  # Old records would be deleted.
    records = write_batch([Record(index, now_ms, None, b"v", ()) for index in range(count)])
    rows = [PartitionProduceData(index=partition, records=records)]
    data = TopicProduceData(topic_id=uuids.from_text(topic_id), partition_data=rows)
    response = client.send(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), 13)
    assert response.responses[0].partition_responses[0].error_code == 0


def initialize_group(client: Client, group: str, topic: str, partitions: int) -> None:
    """Set the start offsets of a group without members to 0."""
    rows = [{"partitionIndex": index, "startOffset": 0} for index in range(partitions)]
    body = {"groupId": group, "topics": [{"topicName": topic, "partitions": rows}]}
    response = send_json(client, "AlterShareGroupOffsets", 0, body)
    assert response["errorCode"] == 0, response


class Member:
    """One member with one connection. It stores the acquired offsets, without the expiry of locks."""

    def __init__(self, bootstrap: str, number: int, group: str, topic_id: str, partitions: Iterable[int]) -> None:
        self.client = Client(bootstrap, client_id=f"member-{number}")
        self.member_id = base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
        self.group, self.topic_id, self.partitions = group, topic_id, list(partitions)
        self.epoch = 0
        self.acquired: set[tuple[int, int]] = set()
        #: The partitions of the session, set by the caller.
        self.session_partitions: set[int] = set()

    def fetch(self, acknowledgements: dict[int, list[Acknowledgement]] | None = None, **more: Any) -> Json:
        """Fetch, with acknowledgements by partition, and store the acquired offsets."""
        body = self.fetch_body(acknowledgements, **more)
        return self.store_acquired(send_json(self.client, "ShareFetch", FETCH_VERSION, body))

    def fetch_body(self, acknowledgements: dict[int, list[Acknowledgement]] | None = None, **more: Any) -> Json:
        """A ShareFetch of the next epoch; the first lists all partitions, later ones those with acknowledgements."""
        partition_indexes = self.partitions if self.epoch == 0 else sorted(acknowledgements or {})
        names = {"groupId": self.group, "memberId": self.member_id, "shareSessionEpoch": self.epoch}
        limits = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20, "maxRecords": 500, "batchSize": 500}
        topics = self._topics(partition_indexes, acknowledgements or {})
        body = {**names, **limits, "topics": topics, "forgottenTopicsData": [], **more}
        self.epoch += 1
        return body

    def store_acquired(self, response: Json) -> Json:
        """Store the acquired offsets of a response."""
        for topic in response["responses"]:
            for row in topic["partitions"]:
                for run in row["acquiredRecords"]:
                    offsets = range(run["firstOffset"], run["lastOffset"] + 1)
                    self.acquired |= {(row["partitionIndex"], offset) for offset in offsets}
        return response

    def acknowledge(self, acknowledgements: dict[int, list[Acknowledgement]], *, renews: bool = False) -> Json:
        """Acknowledge records by ShareAcknowledge."""
        response = self._send_acknowledgements(self.epoch, acknowledgements, renews=renews)
        self.epoch += 1
        return response

    def close_session(self, acknowledgements: dict[int, list[Acknowledgement]] | None = None) -> Json:
        """Close the session, with acknowledgements."""
        response = self._send_acknowledgements(-1, acknowledgements or {}, renews=False)
        self.epoch, self.acquired = 0, set()
        return response

    def _send_acknowledgements(self, epoch: int, acknowledgements: Acknowledgements, *, renews: bool) -> Json:
        body = {"groupId": self.group, "memberId": self.member_id, "shareSessionEpoch": epoch, "isRenewAck": renews}
        body["topics"] = self._topics(sorted(acknowledgements), acknowledgements)
        return send_json(self.client, "ShareAcknowledge", ACKNOWLEDGE_VERSION, body)

    def _topics(self, partition_indexes: Iterable[int], acknowledgements: Acknowledgements) -> list[Json]:
        rows = []
        for number in partition_indexes:
            batches = [dict(zip(_BATCH_KEYS, batch, strict=True)) for batch in acknowledgements.get(number, [])]
            rows.append({"partitionIndex": number, "acknowledgementBatches": batches})
        return [{"topicId": self.topic_id, "partitions": rows}] if rows else []


def consecutive_runs(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The runs of consecutive offsets in a sorted order."""
    # Within a run the difference between an offset and its index stays the same.
    for _, pairs in groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0]):
        run = [offset for _, offset in pairs]
        yield run[0], run[-1]
