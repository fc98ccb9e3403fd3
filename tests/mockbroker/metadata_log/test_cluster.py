"""A cluster as records: any operations are restored, changes are as small as Kafka's, a real log is understood."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, OpData
from kwire.messages.alter_client_quotas import EntityData as QuotaEntityData
from kwire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.metadata_record import decode_metadata_record, encode_metadata_record
from kwire.records.metadata.config_record import ConfigRecord
from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.producer_ids_record import ProducerIdsRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.topic_record import TopicRecord
from mockbroker.metadata_log.brokers import stored_broker_ids
from mockbroker.metadata_log.cluster import MetadataTracker, restore_cluster
from mockbroker.metadata_log.image import MetadataImage
from mockbroker.metadata_log.tables import Tables
from tests.kwire.test_metadata_record import LOG, values_of
from tests.support.brokers.broker import Broker

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "key",
}


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

    def create(self, name: str, partitions: int = 1, factor: int = 3) -> None:
        self.call(CreateTopicsRequest([CreatableTopic(name, partitions, factor)]), 7)

    def configure(self, kind: int, name: str, key: str, value: str | None) -> None:
        change = AlterableConfig(key, 0 if value is not None else 1, value)
        self.call(IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, [change])]), 1)


def image_of(log: list[bytes]) -> MetadataImage:
    return MetadataImage(decode_metadata_record(value).message for value in log)


def restored(log: list[bytes]) -> LoggedBroker:
    broker = LoggedBroker(image=image_of(log))
    restore_cluster(broker.tracker.image, broker.core.state)
    return broker


def contents(tables: Tables) -> dict[str, Any]:
    """All records but registrations, which a new run replaces."""
    return {one.__name__: table for one, table in tables.items() if one is not RegisterBrokerRecord}


NAMES, NODES = ["a", "b.c", "d"], [0, 1, 2]
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(NAMES), st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("grow"), st.sampled_from(NAMES), st.integers(2, 5)),
    st.tuples(st.just("topic config"), st.sampled_from(NAMES), st.sampled_from(["1000", "2000", None])),
    st.tuples(st.just("group config"), st.sampled_from(NAMES), st.sampled_from(["40000", "50000", None])),
    st.tuples(st.just("cluster config"), st.sampled_from(["1", "2", None])),
    st.tuples(st.just("stop"), st.sampled_from(NODES)),
    st.tuples(st.just("start"), st.sampled_from(NODES)),
    st.tuples(st.just("quota"), st.sampled_from([*NAMES, None]), st.sampled_from([1.0, 2.0, None])),
    st.tuples(st.just("scram"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("acl"), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("token"), st.sampled_from(NAMES)),
    st.tuples(st.just("share version"), st.integers(0, 2)),
    st.tuples(st.just("producer id")),
)


def operate(broker: LoggedBroker, operation: tuple[Any, ...]) -> None:
    """Do one operation; those that the cluster refuses change nothing."""
    match operation:
        case ("create", name, count, factor):
            broker.create(name, count, factor)
        case ("delete", name):
            broker.call(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=30_000), 6)
        case ("grow", name, count):
            broker.call(CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], timeout_ms=30_000), 3)
        case ("topic config", name, value):
            broker.configure(2, name, "segment.ms", value)
        case ("group config", name, value):
            broker.configure(32, name, "consumer.session.timeout.ms", value)
        case ("cluster config", value):
            broker.configure(4, "", "min.insync.replicas", value)
        case _:
            operate_brokers(broker, operation)


def operate_brokers(broker: LoggedBroker, operation: tuple[Any, ...]) -> None:
    nodes = broker.core.state.inter_broker.nodes
    match operation:
        case ("stop", stopped) if stopped in nodes and stopped != 0:
            broker.stop_node(stopped)
        case ("start", started) if started not in nodes:
            broker.start_node(started)
        case ("quota", name, value):
            change = OpData("producer_byte_rate", value or 0.0, value is None)
            broker.call(
                AlterClientQuotasRequest(
                    [AlterClientQuotasRequestEntryData([QuotaEntityData("user", name)], [change])]
                ),
                1,
            )
        case ("share version", level):
            update = FeatureUpdateKey("share.version", level, upgrade_type=1)
            broker.call(UpdateFeaturesRequest(feature_updates=[update]), 2)
        case ("producer id",):
            broker.call(InitProducerIdRequest(None, 60_000), 4)
        case _:
            operate_security(broker, operation)


def operate_security(broker: LoggedBroker, operation: tuple[Any, ...]) -> None:
    match operation:
        case ("scram", name, is_deleted):
            deletions = [ScramCredentialDeletion(name, 1)] if is_deleted else []
            upsertions = [] if is_deleted else [ScramCredentialUpsertion(name, 1, 4096, b"salt", b"p" * 32)]
            broker.call(AlterUserScramCredentialsRequest(deletions, upsertions), 0)
        case ("acl", name, True):
            broker.call(CreateAclsRequest([AclCreation(2, name, 3, "User:u", "*", 3, 3)]), 3)
        case ("acl", name, False):
            broker.call(DeleteAclsRequest([DeleteAclsFilter(2, name, 3, None, None, 1, 1)]), 3)
        case ("token", name):
            times = {"lifetime_ms": 0, "now_ms": broker.now_ms}
            tokens = broker.core.state.security.tokens
            tokens.create_token(name, owner="User:o", requester="User:r", renewers=("User:n",), **times)


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
        ([("stop", 1), ("start", 1)], ["BrokerRegistrationChangeRecord"]),
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
    broker.create("a")
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
    broker.create("a")
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
