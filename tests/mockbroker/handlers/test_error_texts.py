"""The texts of errors have the facts that Kafka's have, in the same fields: clients' tests assert on names and numbers.

Source: the answers of Apache Kafka 4.4.0 to the same requests. The words are mockbroker's own.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kwire.messages.add_raft_voter import AddRaftVoterRequest
from kwire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.records import Record, write_batch
from tests.support.brokers.broker import Broker

TIMEOUT_MS = 1_000


def create(name: str, count: int = 1, factor: int = 1, *, replicas: Any = (), **configs: str) -> CreateTopicsRequest:
    rows = [CreatableReplicaAssignment(index, brokers) for index, brokers in replicas]
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreateTopicsRequest([CreatableTopic(name, count, factor, rows, settings)], TIMEOUT_MS)


def assign(*replicas: tuple[int, tuple[int, ...]]) -> CreateTopicsRequest:
    return create("n", -1, -1, replicas=replicas)


def add_partitions(count: int, *assignments: tuple[int, ...]) -> CreatePartitionsRequest:
    rows = [CreatePartitionsAssignment(brokers) for brokers in assignments] or None
    return CreatePartitionsRequest([CreatePartitionsTopic("t", count, rows)], TIMEOUT_MS, False)


def alter(kind: int, name: str, key: str, value: str | None, operation: int = 0) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, [AlterableConfig(key, operation, value)])])


def elect(name: str, partition: int) -> ElectLeadersRequest:
    return ElectLeadersRequest(0, [TopicPartitions(name, (partition,))], TIMEOUT_MS)


def reassign(name: str, partition: int, replicas: tuple[int, ...]) -> AlterPartitionReassignmentsRequest:
    topic = ReassignableTopic(name, [ReassignablePartition(partition, replicas)])
    return AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=[topic])


def update(name: str, level: int, kind: int = 1) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(timeout_ms=TIMEOUT_MS, feature_updates=[FeatureUpdateKey(name, level, False, kind)])


def delete(name: str | None, topic_id: bytes = bytes(16)) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name, topic_id)], timeout_ms=TIMEOUT_MS)


def messages(value: Any) -> list[str]:
    """All error messages of a response, in order."""
    if isinstance(value, list):
        return [text for one in value for text in messages(one)]
    if not isinstance(value, msgspec.Struct):
        return []
    own = [getattr(value, name) for name in value.__struct_fields__ if name.endswith("error_message")]
    nested = [text for name in value.__struct_fields__ for text in messages(getattr(value, name))]
    return [text for text in own if text] + nested


#: Request, its version, the code, and what the message contains.
CASES: tuple[tuple[str, msgspec.Struct, int, tuple[str, ...]], ...] = (
    ("a name that is too long", create("x" * 250), 7, ("x" * 249, "249", "250")),
    ("more replicas than brokers", create("n", 1, 3), 7, ("3", "1 broker(s)")),
    ("an unknown broker", assign((0, (7,))), 7, ("7", "registered")),
    ("a broker twice", assign((0, (1, 1))), 7, ("broker 1", "more than once")),
    ("a partition twice", assign((0, (0,)), (0, (1,))), 7, ("partition 0", "assigned")),
    ("an unknown setting", create("n", nosuch="1"), 7, ("nosuch",)),
    ("a value of another type", create("n", retention_ms="abc"), 7, ("retention.ms", "abc", "LONG")),
    ("a value that is too small", create("n", segment_bytes="1"), 7, ("segment.bytes", "1048576")),
    (
        "lags that contradict each other",
        create("n", min_compaction_lag_ms="100", max_compaction_lag_ms="10"),
        7,
        ("min.compaction.lag.ms (100)", "max.compaction.lag.ms (10)"),
    ),
    ("fewer partitions", add_partitions(1), 3, ("t", "2 partition(s)", "1")),
    ("too few assignments", add_partitions(4, (0,)), 3, ("2 partition(s)", "1 assignment(s)")),
    ("too many assignments", add_partitions(3, (0,), (1,)), 3, ("1 partition(s)", "2 assignment(s)")),
    ("an entry for what is no list", alter(2, "t", "retention.ms", "1", 2), 1, ("APPEND", "retention.ms", "LIST")),
    ("a value beyond the bounds", alter(32, "g", "share.session.timeout.ms", "1"), 1, ("45000", "60000")),
    ("another broker", alter(4, "7", "log.retention.ms", "1"), 1, ("0", "7")),
    ("a static setting", alter(4, "0", "num.partitions", "1"), 1, ("num.partitions",)),
    ("a level for a logger", alter(8, "0", "root", "LOUD"), 1, ("root", "LOUD", "DEBUG", "FATAL")),
    ("an entry for a logger", alter(8, "0", "root", "INFO", 2), 1, ("APPEND", "BROKER_LOGGER")),
    ("an election that is not needed", elect("t", 0), 2, ("not needed", "t-0")),
    ("an election of no topic", elect("nosuch", 0), 2, ("no topic nosuch",)),
    ("an election of no partition", elect("t", 9), 2, ("no partition t-9",)),
    ("a reassignment of no topic", reassign("nosuch", 0, (0,)), 0, ("nosuch",)),
    ("a reassignment to no broker", reassign("t", 0, (9,)), 0, ("broker 9", "registered")),
    ("an unknown feature", update("nosuch", 1), 1, ("nosuch", "version 1", "does not support")),
    ("a level that is too high", update("transaction.version", 99), 1, ("transaction.version", "99", "0 to 2")),
    ("a downgrade", update("metadata.version", 7, 2), 1, ("metadata.version", "downgrade from 33", "7")),
    ("a topic id", delete(None, b"1" * 16), 6, ("ID",)),
    ("a name and an id", delete("t", b"1" * 16), 6, ("name", "id")),
    ("the wrong type of endpoint", DescribeClusterRequest(False, 2), 1, ("type BROKER", "type CONTROLLER")),
    ("no type of endpoint", DescribeClusterRequest(False, 9), 1, ("endpoint type 9", "not supported")),
    ("another cluster", AddRaftVoterRequest("foreign", 1_000, 5, b"1" * 16, []), 1, ("foreign",)),
    ("no share group", ShareGroupHeartbeatRequest("sg", "m", 4), 1, ("Share group sg",)),
)


@pytest.mark.parametrize(
    ("request_", "version", "facts"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_text_of_an_error_names_what_kafka_names(
    request_: msgspec.Struct, version: int, facts: tuple[str, ...]
) -> None:
    texts = messages(Broker(topics={"t": 2}).call(request_, version))

    assert len(texts) == 1
    for fact in facts:
        assert fact in texts[0]


def refused(broker: Broker, *records: Record) -> tuple[str, dict[int, str]]:
    topic = TopicProduceData("t", bytes(16), [PartitionProduceData(0, write_batch(list(records)))])
    answer = broker.call(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic]), 9)
    row = answer.responses[0].partition_responses[0]
    return row.error_message, {one.batch_index: one.batch_index_error_message for one in row.record_errors}


def test_records_with_an_invalid_timestamp_are_named_with_offset_and_limits() -> None:
    broker = Broker()
    limited = create("t", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="500")
    assert broker.call(limited, 7).topics[0].error_code == 0

    summary, rows = refused(
        broker,
        Record(0, 7, b"k", b"v"),
        Record(1, broker.now_ms, b"k", b"v"),
        Record(2, broker.now_ms + 501, b"k", b"v"),
    )

    assert "invalid timestamp" in summary
    assert list(rows) == [0, 2]
    for fact in ("timestamp 7", "offset 0", str(broker.now_ms - 1_000), str(broker.now_ms + 500)):
        assert fact in rows[0]
    assert f"timestamp {broker.now_ms + 501}" in rows[2]
    assert "offset 2" in rows[2]


def test_records_without_a_key_are_named_with_their_partition() -> None:
    broker = Broker()
    assert broker.call(create("t", cleanup_policy="compact"), 7).topics[0].error_code == 0

    summary, rows = refused(broker, *(Record(at, broker.now_ms, None, b"v") for at in range(4)))

    assert "4 record(s)" in summary
    assert summary.count("without a key") == 3  # Kafka shows the first three as well.
    assert list(rows) == [0, 1, 2, 3]
    assert all("t-0" in text and "key" in text for text in rows.values())
