"""A driver with a small consumer of 2017: Fetch 4 and ListOffsets 1, so no sessions, topic ids or leader epochs.

Each poll sends one Fetch request, shows the error that it gets, and goes on at the same offset with the next poll.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kwire.client import Client
from kwire.error_codes import ErrorCode
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.messages.metadata import MetadataRequest
from kwire.records import read_batches

HELLO = {
    "protocol": 1,
    "name": "old-client",
    "version": "1.0",
    "language": "Python",
    "capabilities": ["consumer.assign", "compression.gzip"],
    "settings": ["bootstrap_servers", "client_id", "auto_offset_reset"],
}
TIMESTAMPS = {"earliest": -2, "latest": -1}


class KafkaError(Exception):
    """An error code in an answer."""


class Consumer:
    """Reads one partition of a cluster of one node."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.client = Client(",".join(settings["bootstrap_servers"]), client_id=settings["client_id"])
        self.client.send(MetadataRequest(topics=None), version=1)
        self.topic, self.partition, self.start = "", 0, -2
        self.offset: int | None = None

    def assign(self, partition: dict[str, Any]) -> None:
        """Read a partition from its first or last offset on, or from a number."""
        self.topic, self.partition = partition["topic"], partition["partition"]
        self.start = TIMESTAMPS.get(partition["offset"], 0)
        self.offset = None if self.start else partition["offset"]

    def poll(self, timeout_ms: int) -> list[dict[str, Any]]:
        """Send one Fetch request. Raises: KafkaError."""
        if self.offset is None:
            self.offset = self._find_start()
        wanted = FetchPartition(partition=self.partition, fetch_offset=self.offset, partition_max_bytes=1_000_000)
        topics = [FetchTopic(topic=self.topic, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=min(timeout_ms, 500), min_bytes=1, topics=topics)
        [row] = self.client.send(request, version=4).responses[0].partitions
        _check(row.error_code)
        records = [record for batch in read_batches(row.records or b"") for record in batch.records()]
        found = [record for record in records if record.offset >= self.offset]
        self.offset = found[-1].offset + 1 if found else self.offset
        return [self._describe(record) for record in found]

    def _find_start(self) -> int:
        wanted = ListOffsetsPartition(partition_index=self.partition, timestamp=self.start)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=self.topic, partitions=[wanted])])
        [row] = self.client.send(request, version=1).topics[0].partitions
        _check(row.error_code)
        return int(row.offset)

    def _describe(self, record: Any) -> dict[str, Any]:
        key, value = (None if data is None else bytes(data).decode() for data in (record.key, record.value))
        place = {"topic": self.topic, "partition": self.partition, "offset": record.offset}
        return {**place, "key": key, "value": value, "timestamp": record.timestamp}


def _check(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode(code).name)


def answer(consumers: dict[str, Consumer], method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    if method == "hello":
        return {"result": HELLO}
    name = params["client"]
    if method == "open":
        consumers[name] = Consumer(params["settings"])
    elif method == "assign":
        consumers[name].assign(params["partitions"][0])
    elif method == "poll":
        try:
            return {"result": {"records": consumers[name].poll(params["timeout_ms"])}}
        except KafkaError as error:
            return {"error": {"name": str(error), "message": "in an answer", "retriable": True}}
    elif method == "close":
        consumers.pop(name).client.close()
    else:
        return {"error": {"name": "LOCAL_UNSUPPORTED", "message": method}}
    return {"result": {}}


def main() -> None:
    """Answer requests until stdin ends."""
    consumers: dict[str, Consumer] = {}
    for line in sys.stdin:
        request = json.loads(line)
        reply = answer(consumers, request["method"], request["params"])
        sys.stdout.write(json.dumps({"id": request["id"], **reply}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
