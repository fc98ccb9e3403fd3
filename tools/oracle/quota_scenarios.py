"""Series of requests over and below quotas, which a real Kafka and mockbroker have to throttle alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from kwire.messages import alter_client_quotas as alter
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch

#: The connection that sets quotas and creates topics.
ADMIN = "admin"
#: How long a real broker may take until a quota is in effect, milliseconds.
_SETTLE_MS = 1000
#: When the records were written, which no result depends on.
_TIMESTAMP_MS = 1_600_000_000_000


class Step(NamedTuple):
    """A request that is sent after a pause, when its connection has the answers to the earlier ones.

    connection: its client id is "client-" and this name. is_answered: False for a Produce with acks=0.
    """

    connection: str
    request: msgspec.Struct
    version: int
    pause_ms: int = 0
    is_answered: bool = True


def scenarios() -> Mapping[str, list[Step]]:
    """The steps of each scenario. Each has topics and clients of its own."""
    return {
        "produce-rate": list(_produce_rate()),
        "produce-rate-of-default-client": list(_default_client()),
        "produce-rate-of-user": list(_user_rate()),
        "produce-without-answer": list(_produce_without_answer()),
        "produce-refused": list(_produce_refused()),
        "quota-raised": list(_quota_raised()),
        "fetch-rate": list(_fetch_rate()),
        "fetch-session": list(_fetch_session()),
        "mutations-strict": list(_mutations_strict()),
        "mutations-permissive": list(_mutations_permissive()),
        "mutations-checked": list(_mutations_checked()),
        "mutations-by-metadata": list(_mutations_by_metadata()),
    }


def set_quota(entity: Mapping[str, str | None], key: str, value: float | None) -> alter.AlterClientQuotasRequest:
    """The request that sets a quota, or removes it for None."""
    parts = [alter.EntityData(kind, name) for kind, name in entity.items()]
    change = alter.OpData(key, value or 0.0, remove=value is None)
    return alter.AlterClientQuotasRequest([alter.AlterClientQuotasRequestEntryData(parts, [change])])


def _quota(entity: Mapping[str, str | None], key: str, value: float | None) -> Step:
    return Step(ADMIN, set_quota(entity, key, value), 1)


def _creation(topics: Mapping[str, int], *, validate_only: bool = False) -> CreateTopicsRequest:
    rows = [CreatableTopic(name, count, 1) for name, count in topics.items()]
    return CreateTopicsRequest(topics=rows, timeout_ms=10_000, validate_only=validate_only)


def _topic(name: str) -> Step:
    return Step(ADMIN, _creation({name: 1}), 7)


def _produce(topic: str, size: int, *, acks: int = 1) -> ProduceRequest:
    data = write_batch([Record(0, _TIMESTAMP_MS, None, bytes(size))])
    return ProduceRequest(None, acks, 10_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, data)])])


def _fetch(topic: str, offset: int, *, epoch: int = -1, max_bytes: int = 1 << 20) -> FetchRequest:
    row = FetchPartition(0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=epoch,
        topics=[FetchTopic(topic, partitions=[row])],
    )


def _produce_rate() -> Iterator[Step]:
    """Each request is throttled from the fourth on, by what the ones before it have left of the windows."""
    yield _topic("produce-rate")
    yield _quota({"client-id": "client-pr"}, "producer_byte_rate", 10_000)
    yield Step("pr", _produce("produce-rate", 30_000), 9, _SETTLE_MS)
    for _ in range(5):
        yield Step("pr", _produce("produce-rate", 30_000), 9)
    yield Step("pr", _produce("produce-rate", 30_000), 9, 3_000)
    yield Step("pr", _produce("produce-rate", 100), 9)


def _default_client() -> Iterator[Step]:
    yield _topic("default-client")
    yield _quota({"client-id": None}, "producer_byte_rate", 10_000)
    yield Step("dc", _produce("default-client", 120_000), 9, _SETTLE_MS)
    yield Step("dd", _produce("default-client", 90_000), 9)
    yield Step("dd", _produce("default-client", 30_000), 9)
    yield Step("dc", _produce("default-client", 100), 9)
    yield _quota({"client-id": None}, "producer_byte_rate", None)


def _user_rate() -> Iterator[Step]:
    """All clients of a user count together, and a quota of user and client comes before it."""
    yield _topic("user-rate")
    yield _quota({"user": "ANONYMOUS"}, "producer_byte_rate", 20_000)
    yield Step("ua", _produce("user-rate", 150_000), 9, _SETTLE_MS)
    yield Step("ub", _produce("user-rate", 100_000), 9)
    yield Step("ub", _produce("user-rate", 100), 9)
    yield _quota({"user": "ANONYMOUS", "client-id": "client-uc"}, "producer_byte_rate", 1_000)
    yield Step("uc", _produce("user-rate", 15_000), 9, _SETTLE_MS)
    yield Step("uc", _produce("user-rate", 100), 9)
    yield _quota({"user": "ANONYMOUS"}, "producer_byte_rate", None)
    yield _quota({"user": "ANONYMOUS", "client-id": "client-uc"}, "producer_byte_rate", None)


def _produce_without_answer() -> Iterator[Step]:
    """The channel is muted after a request without an answer: the next request waits."""
    yield _topic("no-answer")
    yield _quota({"client-id": "client-na"}, "producer_byte_rate", 10_000)
    yield Step("na", MetadataRequest(topics=[]), 9, _SETTLE_MS)
    yield Step("na", _produce("no-answer", 120_000, acks=0), 9, is_answered=False)
    yield Step("na", MetadataRequest(topics=[]), 9)


def _produce_refused() -> Iterator[Step]:
    """The bytes of a request for an unknown topic count as well."""
    yield _quota({"client-id": "client-re"}, "producer_byte_rate", 10_000)
    yield Step("re", _produce("no-such-topic", 120_000), 9, _SETTLE_MS)
    yield Step("re", MetadataRequest(topics=[]), 9)


def _quota_raised() -> Iterator[Step]:
    """A higher quota is in effect for the next request; the time of the last one goes on."""
    yield _topic("raised")
    yield _quota({"client-id": "client-ra"}, "producer_byte_rate", 10_000)
    yield Step("ra", _produce("raised", 130_000), 9, _SETTLE_MS)
    yield _quota({"client-id": "client-ra"}, "producer_byte_rate", 100_000)
    yield Step("ra", _produce("raised", 30_000), 9, _SETTLE_MS)
    yield _quota({"client-id": "client-ra"}, "producer_byte_rate", None)
    yield Step("ra", _produce("raised", 900_000), 9, _SETTLE_MS)


def _fetch_rate() -> Iterator[Step]:
    """A response over the quota is empty, and does not count; none is larger than what all windows allow."""
    yield _topic("fetch-rate")
    for _ in range(8):
        yield Step(ADMIN, _produce("fetch-rate", 40_000), 9)
    yield _quota({"client-id": "client-fr"}, "consumer_byte_rate", 10_000)
    # At most 10 windows of 10,000 bytes: two batches.
    yield Step("fr", _fetch("fetch-rate", 0), 12, _SETTLE_MS)
    yield Step("fr", _fetch("fetch-rate", 2, max_bytes=50_000), 12)
    yield Step("fr", _fetch("fetch-rate", 2, max_bytes=50_000), 12)
    yield Step("fr", _fetch("fetch-rate", 3, max_bytes=50_000), 12)
    yield Step("fr", _fetch("fetch-rate", 3, max_bytes=50_000), 12, 4_000)
    yield Step("fr", _fetch("fetch-rate", 8), 12)


def _fetch_session() -> Iterator[Step]:
    """A throttled fetch opens no session, and an error of a session is not named."""
    yield _topic("fetch-session")
    for _ in range(4):
        yield Step(ADMIN, _produce("fetch-session", 60_000), 9)
    yield _quota({"client-id": "client-fs"}, "consumer_byte_rate", 10_000)
    yield Step("fs", _fetch("fetch-session", 0, max_bytes=70_000), 12, _SETTLE_MS)
    yield Step("fs", _fetch("fetch-session", 1, epoch=0, max_bytes=70_000), 12)
    yield Step("fs", FetchRequest(max_wait_ms=0, session_id=77, session_epoch=5), 12)
    yield Step("fs", _fetch("fetch-session", 1, epoch=0, max_bytes=70_000), 12, 3_000)


def _mutations_strict() -> Iterator[Step]:
    """Newer requests are refused once the credits are used up."""
    yield _quota({"client-id": "client-ms"}, "controller_mutation_rate", 1.0)
    yield Step("ms", _creation({"ms-0": 8}), 7, _SETTLE_MS)
    yield Step("ms", _creation({"ms-1": 6, "ms-2": 1}), 7)
    yield Step("ms", _creation({"ms-3": 1}), 7)
    yield Step("ms", DeleteTopicsRequest([DeleteTopicState("ms-0")], timeout_ms=10_000), 6)
    yield Step("ms", CreatePartitionsRequest([CreatePartitionsTopic("ms-1", 9, None)], 10_000), 3)
    yield Step("ms", DeleteTopicsRequest([DeleteTopicState("ms-1")], timeout_ms=10_000), 6)
    yield Step("ms", MetadataRequest(topics=[]), 9)


def _mutations_permissive() -> Iterator[Step]:
    """Older requests are never refused, and throttled instead."""
    yield _quota({"client-id": "client-mp"}, "controller_mutation_rate", 2.0)
    yield Step("mp", _creation({"mp-0": 12}), 5, _SETTLE_MS)
    yield Step("mp", _creation({"mp-1": 12, "mp-2": 1}), 5)
    yield Step("mp", CreatePartitionsRequest([CreatePartitionsTopic("mp-1", 14, None)], 10_000), 2)
    yield Step("mp", DeleteTopicsRequest(topic_names=("mp-2",), timeout_ms=10_000), 4)
    yield Step("mp", MetadataRequest(topics=[]), 9)


def _mutations_checked() -> Iterator[Step]:
    """A request that only checks uses credits, one that fails none."""
    yield _quota({"client-id": "client-mc"}, "controller_mutation_rate", 1.0)
    yield Step("mc", _creation({"bad name": 8}), 7, _SETTLE_MS)
    yield Step("mc", DeleteTopicsRequest([DeleteTopicState("no-topic")], timeout_ms=10_000), 6)
    yield Step("mc", _creation({"mc-0": 13}, validate_only=True), 7)
    yield Step("mc", _creation({"mc-1": 1}, validate_only=True), 7)
    yield Step("mc", MetadataRequest(topics=[]), 9)


def _mutations_by_metadata() -> Iterator[Step]:
    """Topics that the broker creates for a client count, and the answer does not name the error."""
    yield _quota({"client-id": "client-mm"}, "controller_mutation_rate", 1.0)
    yield Step("mm", _creation({"mm-0": 13}), 7, _SETTLE_MS)
    wanted = MetadataRequest([MetadataRequestTopic(name="mm-1")], allow_auto_topic_creation=True)
    yield Step("mm", wanted, 9)
    yield Step("mm", MetadataRequest([MetadataRequestTopic(name="mm-1")]), 9, 500)
    yield Step("mm", wanted, 9, 3_000)
    yield Step("mm", MetadataRequest([MetadataRequestTopic(name="mm-1")]), 9, 500)
