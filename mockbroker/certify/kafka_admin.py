"""Topics, records and groups of a real Kafka, by the raw client: what a case finds there, and what it leaves behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from kwire.client import Client, ClientError, RequestTimedOut
from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch

#: The limit of each step, seconds.
STEP_S = 30.0
#: The limit of the end of members whose client was killed, seconds: the coordinator expires their sessions after 45 s.
_EXPIRY_S = 60.0
#: How long an answer to DeleteGroups may take, seconds: for share groups Kafka 4.4.0 sometimes gives none.
_DELETION_S = 5.0
_REPLICAS_MAX = 3
_PAUSE_S = 0.05
#: The last version of DeleteTopics with names alone, of FindCoordinator with one key; the first of Produce with ids.
_DELETE_BY_NAME = 5
_FIND_ONE = 3
#: A new partition, whose leader does not know it yet.
_NOT_YET = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
#: A group that still has members, or whose coordinator is not ready.
_NOT_DELETED_YET = (
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_PRODUCE_BY_ID = 13


class KafkaUnavailable(Exception):
    """The cluster refuses what the cases need, or cannot be reached."""


class KafkaAdmin:
    """Administers a real cluster. bootstrap: HOST:PORT of a broker, without TLS and logins."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def node_count(self) -> int:
        """The number of brokers. Raises: KafkaUnavailable."""
        return len(self._metadata([]).brokers)

    def topic_names(self) -> set[str]:
        """The names of all topics. Raises: KafkaUnavailable."""
        return {topic.name for topic in self._metadata(None).topics if topic.error_code == 0}

    def groups(self) -> set[str]:
        """The ids of all groups. Raises: KafkaUnavailable."""
        found: set[str] = set()
        for broker in self._metadata([]).brokers:
            with self._connect(f"{broker.host}:{broker.port}") as client:
                found.update(group.group_id for group in self._send(client, ListGroupsRequest()).groups)
        return found

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics with this many partitions, and wait until all have leaders. Raises: KafkaUnavailable."""
        if not topics:
            return
        factor = min(self.node_count(), _REPLICAS_MAX)
        made = [CreatableTopic(name, partitions, factor) for name, partitions in topics.items()]
        with self._connect() as client:
            answer = self._send(client, CreateTopicsRequest(made, timeout_ms=int(STEP_S * 1000)))
        for topic in answer.topics:
            _check(topic.error_code, f"topic {topic.name} cannot be created", topic.error_message)
        self._wait(lambda: self._have_leaders(topics), f"leaders of {', '.join(topics)}")

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete topics, those that do not exist too, and wait until they are gone. Raises: KafkaUnavailable."""
        if not topics:
            return
        request = DeleteTopicsRequest(topic_names=tuple(topics), timeout_ms=int(STEP_S * 1000))
        with self._connect() as client:
            answer = self._send(client, request, min(client.version_for(DeleteTopicsRequest), _DELETE_BY_NAME))
        for topic in answer.responses:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                _check(topic.error_code, f"topic {topic.name} cannot be deleted", topic.error_message)
        self._wait(lambda: self.topic_names().isdisjoint(topics), f"the deletion of {', '.join(topics)}")

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups; one with members first waits for the end of their sessions. Raises: KafkaUnavailable."""
        for group in groups:
            self._wait(partial(self._delete_group, group), f"the deletion of group {group}", _EXPIRY_S)

    def _delete_group(self, group: str) -> bool:
        """Returns: whether it is gone; if not, to be tried again. Raises: KafkaUnavailable."""
        with self._connect() as client:
            where = self._send(client, FindCoordinatorRequest(key=group), _FIND_ONE)
        with self._connect(f"{where.host}:{where.port}") as client:
            try:
                [result] = client.send(DeleteGroupsRequest((group,)), timeout_s=_DELETION_S).results
            except RequestTimedOut:
                return False
            except (ClientError, WireError, OSError) as error:
                raise _unavailable(client, "DeleteGroupsRequest", error) from error
        if result.error_code in _NOT_DELETED_YET:
            return False
        if result.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            _check(result.error_code, f"group {group} cannot be deleted", None)
        return True

    def produce(self, topic: str, values: Sequence[str | None], partition: int) -> None:
        """Append records, as soon as the leader of a new partition takes them. Raises: KafkaUnavailable."""
        now_ms = time.time_ns() // 1_000_000
        records = [
            Record(offset, now_ms, None, None if value is None else value.encode())
            for offset, value in enumerate(values)
        ]
        data = write_batch(records)
        codes: list[int] = []

        def is_taken() -> bool:
            codes.append(self._produce_batch(topic, partition, data))
            return codes[-1] not in _NOT_YET

        self._wait(is_taken, f"the leader of {topic}-{partition}")
        _check(codes[-1], f"records for {topic}-{partition} are refused", "")

    def _produce_batch(self, topic: str, partition: int, batch: bytes) -> int:
        """Send a batch to the leader. Returns: its error code."""
        metadata = self._metadata([topic])
        [found] = metadata.topics
        leader = next((each.leader_id for each in found.partitions if each.partition_index == partition), -1)
        address = next((f"{each.host}:{each.port}" for each in metadata.brokers if each.node_id == leader), None)
        if address is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        rows = [PartitionProduceData(partition, batch)]
        with self._connect(address) as client:
            version = client.version_for(ProduceRequest)
            is_by_id = version >= _PRODUCE_BY_ID
            data = TopicProduceData("" if is_by_id else topic, found.topic_id if is_by_id else bytes(16), rows)
            answer = self._send(client, ProduceRequest(None, -1, int(STEP_S * 1000), [data]), version)
        return int(answer.responses[0].partition_responses[0].error_code)

    def _have_leaders(self, topics: Mapping[str, int]) -> bool:
        found = self._metadata(list(topics)).topics
        return all(
            topic.error_code == 0
            and len(topic.partitions) == topics[topic.name]
            and all(each.error_code == 0 and each.leader_id >= 0 for each in topic.partitions)
            for topic in found
        )

    def _metadata(self, topics: Sequence[str] | None) -> Any:
        """Metadata of topics, of all with None, without creating them."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        with self._connect() as client:
            return self._send(client, MetadataRequest(asked, allow_auto_topic_creation=False))

    def _connect(self, address: str | None = None) -> Client:
        try:
            return Client(address or self.bootstrap, timeout_s=STEP_S, client_id="mockbroker-certify")
        except (ClientError, OSError, ValueError) as error:
            raise KafkaUnavailable(f"{address or self.bootstrap}: {error}") from error

    def _send(self, client: Client, request: msgspec.Struct, version: int | None = None) -> Any:
        try:
            return client.send(request, version)
        except (ClientError, WireError, OSError) as error:
            raise _unavailable(client, type(request).__name__, error) from error

    def _wait(self, is_done: Callable[[], bool], what: str, limit_s: float = STEP_S) -> None:
        deadline = time.monotonic() + limit_s
        while not is_done():
            if time.monotonic() > deadline:
                raise KafkaUnavailable(f"waited {limit_s:g} s for {what}")
            time.sleep(_PAUSE_S)


def _unavailable(client: Client, request: str, error: Exception) -> KafkaUnavailable:
    return KafkaUnavailable(f"{client.address}: {request}: {error}")


def _check(code: int, what: str, message: str | None) -> None:
    if code:
        raise KafkaUnavailable(f"{what}: {ErrorCode(code).name}{f' ({message})' if message else ''}")
