"""Requests that show which records a broker of 4.0.0 writes; `python -m ...early_record_script HOST:PORT` prints them.

The broker is one that `KAFKA_VERSION=4.0.0 tools/oracle/start-kafka PORT` has just started. Topics have their names for
ids in the output.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import kwire
from kwire import Client, uuids
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, read_batches, write_batch

EDITION = "4.0-early-access"
TOPICS = {"T": 2, "U": 1}
Json = dict[str, Any]
T = TypeVar("T")

_WAIT_S = 30.0
_BYTES = 1 << 20
_METADATA = {9: "ShareGroupPartitionMetadata", 10: "ShareGroupMemberMetadata", 11: "ShareGroupMetadata"}
_TARGETS = {12: "ShareGroupTargetAssignmentMetadata", 13: "ShareGroupTargetAssignmentMember"}
_GROUPS = {**_METADATA, **_TARGETS, 14: "ShareGroupCurrentMemberAssignment"}
_STATES = {0: "ShareSnapshot", 1: "ShareUpdate"}
#: By topic, the names of its records by the types of their keys.
RECORDS = {"__consumer_offsets": _GROUPS, "__share_group_state": _STATES}
#: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
_LOADING = (14, 15, 16)


def _until(look: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + _WAIT_S
    while (found := look()) is None:
        assert time.monotonic() < deadline, "it never came to pass"
    return found


class Script:
    """One client, and its topics by name."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.session_epoch = 0
        if "T" not in self._ids():
            topics = [CreatableTopic(name, count, 1) for name, count in TOPICS.items()]
            client.send(CreateTopicsRequest(topics, 5_000), 7)
        self.topic_ids = _until(lambda: ids if TOPICS.keys() <= (ids := self._ids()).keys() else None)

    def _ids(self) -> dict[str, bytes]:
        topics = self.client.send(MetadataRequest(topics=None)).topics
        return {topic.name: topic.topic_id for topic in topics if topic.name is not None and not topic.error_code}

    def ask(self, name: str, tree: Json, version: int = 0) -> Json:
        """Send a request of the edition; the answer as JSON."""
        request = kwire.from_json(f"{name}Request", version, tree, edition=EDITION)
        answer = kwire.to_json(self.client.send(request, version), version)
        assert isinstance(answer, dict)
        return answer

    def beat(self, member: int, epoch: int, names: list[str] | None = None, group: str = "G") -> int:
        """A heartbeat, once there is a coordinator; the member's epoch from now on."""
        asked = {"groupId": group, "memberId": _member_id(member), "memberEpoch": epoch, "subscribedTopicNames": names}

        def answer() -> Json | None:
            self.ask("FindCoordinator", {"keyType": 0, "coordinatorKeys": [group]}, 4)
            found = self.ask("ShareGroupHeartbeat", asked)
            return None if found["errorCode"] in _LOADING else found

        found = _until(answer)
        assert found["errorCode"] == 0, found
        return int(found["memberEpoch"])

    def fetch(self) -> list[Json]:
        """What member 1 acquires of T-0."""
        wanted = {"partitionIndex": 0, "partitionMaxBytes": _BYTES}
        limits = {"maxWaitMs": 500, "minBytes": 1, "maxBytes": _BYTES}

        def answer() -> list[Json] | None:
            rows = self._session("ShareFetch", wanted, **limits)
            return [run for row in rows for run in row["acquiredRecords"]] or None

        return _until(answer)

    def settle(self, first: int, last: int, kind: int) -> None:
        """Acknowledge a run of offsets of T-0."""
        batch = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": [kind]}
        [row] = self._session("ShareAcknowledge", {"partitionIndex": 0, "acknowledgementBatches": [batch]})
        assert row["errorCode"] == 0

    def _session(self, name: str, partition: Json, **fields: int) -> list[Json]:
        topics = [{"topicId": uuids.to_text(self.topic_ids["T"]), "partitions": [partition]}]
        tree = {"groupId": "G", "memberId": _member_id(1), "shareSessionEpoch": self.session_epoch, "topics": topics}
        answer = self.ask(name, tree | fields)
        self.session_epoch += answer["errorCode"] == 0
        return [row for topic in answer["responses"] for row in topic["partitions"]]

    def play(self) -> None:
        """Run the script: members join, change subscriptions, read and leave; groups are deleted."""
        one = self.beat(1, 0, ["T"])
        one = self.beat(1, one)
        two = self.beat(2, 0, ["T", "U"])
        one = self.beat(1, one)
        one = self.beat(1, one, ["T", "U"])
        self.beat(2, two)
        config = {"name": "share.auto.offset.reset", "configOperation": 0, "value": "earliest"}
        resource = {"resourceType": 32, "resourceName": "G", "configs": [config]}
        assert not self.ask("IncrementalAlterConfigs", {"resources": [resource]}, 1)["responses"][0]["errorCode"]
        batch = write_batch([Record(offset, 0, None, b"value") for offset in range(10)])
        data = [TopicProduceData("T", partition_data=[PartitionProduceData(0, batch)])]
        self.client.send(ProduceRequest(acks=-1, timeout_ms=3_000, topic_data=data), 9)
        assert [(run["firstOffset"], run["lastOffset"]) for run in self.fetch()] == [(0, 9)]
        for first, last, kind in ((0, 0, 1), (3, 3, 2), (5, 6, 3), (1, 2, 1), (4, 4, 1)):
            self.settle(first, last, kind)
        self.beat(2, -1)
        self.beat(1, one)
        self.beat(1, -1)
        self.beat(3, 0, ["nowhere"], "H")
        self.beat(3, -1, group="H")
        for group in ("G", "H"):
            assert not self.ask("DeleteGroups", {"groupsNames": [group]}, 2)["results"][0]["errorCode"]

    def read_records(self) -> Iterator[Json]:
        """The records of share groups and their states: by topic, batches numbered in each partition."""
        names = {uuids.to_text(topic_id): name for name, topic_id in self.topic_ids.items()}
        for topic, kinds in RECORDS.items():
            [known] = [each for each in self.client.send(MetadataRequest(topics=None)).topics if each.name == topic]
            for partition in sorted(each.partition_index for each in known.partitions):
                for number, batch in enumerate(self._batches(topic, partition)):
                    for record in batch.records():
                        line = _line(record, kinds)
                        text = json.dumps({"topic": topic, "batch": number, **line})
                        for topic_id, name in names.items():
                            text = text.replace(topic_id, f"id-{name}")
                        yield json.loads(text)

    def _batches(self, topic: str, partition: int) -> Iterator[Any]:
        offset = 0
        while True:
            wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=_BYTES)
            topics = [FetchTopic(topic, partitions=[wanted])]
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=_BYTES, topics=topics)
            row = self.client.send(request, 12).responses[0].partitions[0]
            batches = list(read_batches(row.records or b"", partial_ok=True))
            if not batches:
                return
            yield from batches
            offset = batches[-1].last_offset + 1


def _member_id(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


def _line(record: Any, kinds: dict[int, str]) -> Json:
    key, value = bytes(record.key), record.value
    kind = kinds[int.from_bytes(key[:2], "big")]
    line: Json = {"kind": kind, "key": _json(f"{kind}Key", 0, key[2:]), "value": None}
    if value is not None:
        version = int.from_bytes(value[:2], "big")
        line["value"] = {"version": version, "data": _json(f"{kind}Value", version, value[2:])}
    return line


def _json(name: str, version: int, data: bytes) -> Any:
    return kwire.to_json(kwire.decode(name, version, data, edition=EDITION), version)


def main() -> None:
    """Run the script, and print the records."""
    with Client(sys.argv[1], edition=EDITION) as client:
        script = Script(client)
        script.play()
        for line in script.read_records():
            print(json.dumps(line))


if __name__ == "__main__":
    main()
