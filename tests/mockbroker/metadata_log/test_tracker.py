"""A cluster as records: any operations are restored, changes are as small as Kafka's, a real log is understood."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.metadata_record import decode_metadata_record, encode_metadata_record
from kwire.records.metadata.config_record import ConfigRecord
from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.producer_ids_record import ProducerIdsRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.topic_record import TopicRecord
from mockbroker.metadata_log.brokers import stored_broker_ids
from mockbroker.metadata_log.image import MetadataImage
from mockbroker.metadata_log.restoration import restore_cluster
from mockbroker.metadata_log.tables import Tables
from mockbroker.metadata_log.tracker import MetadataTracker
from tests.kwire.test_metadata_record import LOG, values_of
from tests.support.brokers.broker import Broker
from tests.support.stored.admin_operations import AUTHORIZED, OPERATIONS, create, operate


class LoggedBroker(Broker):
    """A cluster whose records are collected after every operation."""

    def __init__(self, *, nodes: int = 3, image: MetadataImage | None = None) -> None:
        super().__init__(nodes=nodes, config=AUTHORIZED)
        self.log: list[bytes] = []
        self.tracker = MetadataTracker(self.core.state, image or MetadataImage())

    def collect(self) -> list[Any]:
        """The messages of the records since the last time."""
        records = self.tracker.collect_changes(len(self.log))
        self.log += [encode_metadata_record(record.message, record.version) for record in records]
        return [record.message for record in records]

    def names(self) -> list[str]:
        """The types of the records since the last time."""
        return [type(message).__name__ for message in self.collect()]


def image_of(log: list[bytes]) -> MetadataImage:
    return MetadataImage(decode_metadata_record(value).message for value in log)


def restored(log: list[bytes]) -> LoggedBroker:
    broker = LoggedBroker(image=image_of(log))
    restore_cluster(broker.tracker.image, broker.core.state)
    return broker


def contents(tables: Tables) -> dict[str, Any]:
    """All records but registrations, which a new run replaces."""
    return {one.__name__: table for one, table in tables.items() if one is not RegisterBrokerRecord}


@settings(deadline=None, max_examples=60)
@given(operations=st.lists(OPERATIONS, max_size=12))
def test_the_records_of_any_operations_restore_the_cluster(operations: list[tuple[Any, ...]]) -> None:
    broker = LoggedBroker()
    broker.collect()
    for operation in operations:
        operate(broker, operation)
        broker.collect()

    image = image_of(broker.log)
    described = broker.tracker.describe()
    again = restored(broker.log)

    assert {one: image.tables[one] for one in described} == described
    again_described = contents(again.tracker.describe())
    offline = broker.metadata.fenced
    assert again_described == contents(described)
    assert [topic.name for topic in again.metadata.topics()] == [topic.name for topic in broker.metadata.topics()]
    if not offline:
        assert again.metadata.topics() == broker.metadata.topics()


@settings(deadline=None, max_examples=20)
@given(operations=st.lists(OPERATIONS, max_size=8))
def test_records_at_the_end_equal_those_after_each_operation(operations: list[tuple[Any, ...]]) -> None:
    broker = LoggedBroker()
    before = MetadataTracker(broker.core.state, MetadataImage())
    for operation in operations:
        operate(broker, operation)

    records = before.collect_changes(0)
    image = MetadataImage(record.message for record in records)

    assert MetadataImage(image.records()).tables == image.tables == before.image.tables
    assert before.collect_changes(len(records)) == []


def test_a_snapshot_gives_the_image_again() -> None:
    broker = LoggedBroker()
    for operation in [("create", "a", 2, 3), ("acl", "a", True), ("scram", "a", False), ("producer id",)]:
        operate(broker, operation)
    broker.collect()

    snapshot = [encode_metadata_record(one.message, one.version) for one in broker.tracker.snapshot()]

    assert image_of(snapshot).tables == broker.tracker.image.tables


@pytest.mark.parametrize(
    ("operations", "records"),
    [
        ([("create", "a", 2, 1)], ["TopicRecord", "PartitionRecord", "PartitionRecord"]),
        ([("create", "a", 2, 1), ("delete", "a")], ["RemoveTopicRecord"]),
        ([("create", "a", 1, 1), ("topic config", "a", "1000")], ["ConfigRecord"]),
        ([("create", "a", 1, 1), ("topic config", "a", "1000"), ("delete", "a")], ["RemoveTopicRecord"]),
        ([("create", "a", 1, 1), ("grow", "a", 2)], ["PartitionRecord"]),
        ([("acl", "a", True)], ["AccessControlEntryRecord"]),
        ([("acl", "a", True), ("acl", "a", False)], ["RemoveAccessControlEntryRecord"]),
        ([("acl", "a", False)], []),
        ([("scram", "a", False)], ["UserScramCredentialRecord"]),
        ([("scram", "a", False), ("scram", "a", True)], ["RemoveUserScramCredentialRecord"]),
        ([("quota", None, 2.0)], ["ClientQuotaRecord"]),
        ([("token", "a")], ["DelegationTokenRecord"]),
        ([("producer id",)], ["ProducerIdsRecord"]),
        ([("producer id",), ("producer id",)], []),
        ([("stop", 1)], ["BrokerRegistrationChangeRecord"]),
        ([("stop", 1), ("start", 1)], ["RegisterBrokerRecord"]),
    ],
)
def test_an_operation_writes_only_what_it_changes(operations: list[tuple[Any, ...]], records: list[str]) -> None:
    broker = LoggedBroker()
    for operation in operations[:-1]:
        operate(broker, operation)
    broker.collect()

    operate(broker, operations[-1])

    assert broker.names() == records
    assert broker.names() == []


def test_a_stopped_leader_is_a_change_of_its_partition_with_leader_isr_and_epoch() -> None:
    broker = LoggedBroker()
    create(broker, "a")
    broker.collect()
    leader = broker.leader("a")
    epoch = broker.topic("a").partitions[0].leader_epoch

    broker.kill_node(leader)
    broker.advance(10_000)
    registration, change = broker.collect()

    assert (registration.broker_id, registration.fenced) == (leader, 1)
    assert change.leader == broker.leader("a") != leader
    assert sorted(change.isr) == sorted({0, 1, 2} - {leader})
    assert (change.replicas, change.directories, change.eligible_leader_replicas) == (None, None, None)
    partition = broker.tracker.image.tables[PartitionRecord][broker.topic("a").topic_id, 0]
    assert (partition.leader_epoch, partition.partition_epoch) == (epoch + 1, 1)


def test_the_epoch_of_a_registration_is_the_offset_of_its_record() -> None:
    broker = LoggedBroker(nodes=1)
    broker.collect()

    decoded = [decode_metadata_record(value).message for value in broker.log]
    offset = next(at for at, message in enumerate(decoded) if isinstance(message, RegisterBrokerRecord))

    assert broker.tracker.image.tables[RegisterBrokerRecord][0].broker_epoch == offset


def test_brokers_of_a_new_process_register_again() -> None:
    broker = LoggedBroker()
    create(broker, "a")
    broker.collect()

    again = restored(broker.log)

    assert again.names() == ["RegisterBrokerRecord"] * 3


def test_the_log_of_a_real_broker_gives_its_topics_ids_and_configurations() -> None:
    image = image_of(values_of(LOG))
    broker = LoggedBroker(nodes=1, image=image)
    restore_cluster(image, broker.core.state)

    assert stored_broker_ids(image) == (0,)
    topics = {topic.name: len(topic.partitions) for topic in broker.metadata.topics()}
    assert topics == {
        **dict.fromkeys(["codec-none", "codec-gzip", "codec-snappy", "codec-lz4", "codec-zstd"], 1),
        "plain": 2,
        "txn": 1,
        "compacted": 1,
        "__consumer_offsets": 2,
        "__transaction_state": 2,
    }
    stored = {record.name: record.topic_id for record in image.tables[TopicRecord].values()}
    assert {topic.name: topic.topic_id for topic in broker.metadata.topics()} == stored
    assert stored["plain"].hex() == "6163ef519ec24efe8e78fb192828b485"
    configs = broker.core.state.configs
    assert (configs.topic("plain")["segment.ms"], configs.topic("compacted")["cleanup.policy"]) == (200, ["compact"])
    assert broker.core.state.broker_storage.next_producer_id == image.tables[ProducerIdsRecord][()].next_producer_id
    assert len(contents(broker.tracker.describe())["ConfigRecord"]) == len(image.tables[ConfigRecord])
    assert {name: record.feature_level for name, record in image.tables[FeatureLevelRecord].items()} == {
        name: level for name, level in broker.core.state.features.items() if name != "kraft.version"
    }
