"""Record what Apache Kafka stores of groups: python -m tests.support.brokers.record_groups. Needs Java and Maven.

For each release it starts a broker, sends the requests of `group_history`, and writes the records of
`__consumer_offsets` beside the tests that compare them with ours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from kwire import Client, uuids
from kwire.error_codes import ErrorCode
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.records import read_batches
from kwire.registry import RELEASES
from tests.support.brokers import group_history
from tools.oracle.broker import run_broker
from tools.oracle.conversations.socket_brokers import wait_real_time
from tools.oracle.jars import KAFKA_VERSIONS

FOLDER = Path(__file__).parents[2] / "mockbroker" / "coordinators" / "group"
#: Kafka applies the effects of a request, such as new topics, some time after the response.
SETTLE_S = 1.0
WAIT_S = 30.0
OFFSETS = "__consumer_offsets"
#: Errors of a coordinator that is not active yet.
COORDINATOR_STARTS = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


class RealGroupClient:
    """Sends requests to a real broker."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def call(self, request: msgspec.Struct, version: int) -> Any:
        """The response, after the effects of the request. Raises: TimeoutError while groups are loaded."""
        deadline = time.monotonic() + WAIT_S
        while True:
            response = self._client.send(request, version)
            wait_real_time(SETTLE_S)
            if getattr(response, "error_code", 0) not in COORDINATOR_STARTS:
                return response
            if time.monotonic() > deadline:
                raise TimeoutError(f"the coordinator still loads its groups after {WAIT_S} s")

    def advance(self, ms: int) -> None:
        """Wait."""
        wait_real_time(ms / 1000)

    def topic_id(self, name: str) -> bytes:
        """The id of a topic."""
        return bytes(self._describe_topic(name).topic_id)

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics and the coordinator's topic. Raises: TimeoutError when that takes too long."""
        rows = [CreatableTopic(name, count, 1) for name, count in topics.items()]
        self._client.send(CreateTopicsRequest(rows, timeout_ms=30_000), 7)
        deadline = time.monotonic() + WAIT_S
        while (
            self._client.send(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4).coordinators[0].error_code
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{OFFSETS} has no coordinator after {WAIT_S} s")
            wait_real_time(0.1)

    def read_all_batches(self) -> Iterator[list[Any]]:
        """The records of `__consumer_offsets` by batch, one partition after another."""
        topic = self._describe_topic(OFFSETS)
        topic_id = bytes(topic.topic_id)
        for partition in range(len(topic.partitions)):
            offset = 0
            while batches := list(read_batches(self._fetch(topic_id, partition, offset))):
                yield from ([*batch.records()] for batch in batches)
                offset = batches[-1].last_offset + 1

    def _describe_topic(self, name: str) -> Any:
        return self._client.send(MetadataRequest([MetadataRequestTopic(name=name)]), 12).topics[0]

    def _fetch(self, topic_id: bytes, partition: int, offset: int) -> bytes:
        rows = [FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 24)]
        request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic_id=topic_id, partitions=rows)])
        row = self._client.send(request, 13).responses[0].partitions[0]
        if row.error_code:
            raise RuntimeError(f"{OFFSETS}-{partition}: {ErrorCode(row.error_code).name} at offset {offset}")
        return bytes(row.records or b"")


@contextmanager
def connect(version: str, config: Mapping[str, str], topics: Mapping[str, int]) -> Iterator[RealGroupClient]:
    """A client of a new broker with these topics."""
    with (
        run_broker(config, version=version) as addresses,
        Client(addresses["PLAINTEXT"], client_id="client-a", timeout_s=60) as client,
    ):
        broker = RealGroupClient(client)
        broker.create_topics(topics)
        yield broker


def record_groups(version: str) -> list[Any]:
    """The lines of all groups as stored by a release."""
    with connect(version, group_history.CONFIG, group_history.TOPICS) as broker:
        group_history.send_group_requests(broker)
        names = {uuids.to_text(broker.topic_id(name)): name for name in group_history.TOPICS}
        lines = group_history.group_lines(broker.read_all_batches(), names)
    return [line for _, lines_of_group in sorted(lines.items()) for line in lines_of_group]


def record_streams(version: str) -> list[Any]:
    """The lines of the streams group as stored by a release."""
    with connect(version, group_history.STREAMS_CONFIG, group_history.STREAMS_TOPICS) as broker:
        group_history.send_streams_requests(broker)
        return group_history.streams_lines(broker.read_all_batches())


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    """Write lines of JSON."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    print(path.name)


def main() -> None:
    """Record both releases."""
    for release in RELEASES:
        version = KAFKA_VERSIONS[release]
        write_lines(FOLDER / f"group_records_{release}.jsonl", record_groups(version))
        write_lines(FOLDER / f"streams_records_{release}.jsonl", record_streams(version))


if __name__ == "__main__":
    main()
