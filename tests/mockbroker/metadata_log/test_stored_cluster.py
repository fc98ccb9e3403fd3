"""Clusters with a data directory: their restart, and changes that cannot be written."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kwire.error_codes import ErrorCode
from kwire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, OpData
from kwire.messages.alter_client_quotas import EntityData as QuotaEntityData
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kwire.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from mockbroker.config.keys import ConfigError
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.simulated_files import FileFault, SimulatedFiles
from mockbroker.metadata_log.metadata_log import MetadataLog
from mockbroker.metadata_log.restoration import revert_changes
from mockbroker.metadata_log.tracker import MetadataTracker
from tests.support.brokers.producer import produce, record_batch
from tests.support.stored.admin_operations import AUTHORIZED, OPERATIONS, create, operate
from tests.support.stored.stored_broker import FOLDER, LOG, FailingFiles, StoredBroker

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def new_files() -> SimulatedFiles:
    return SimulatedFiles(random.Random(1))


class AuthorizedBroker(StoredBroker):
    """A stored cluster with the operations of `operate`."""

    def __init__(self, files: SimulatedFiles, **options: Any) -> None:
        super().__init__(files, nodes=3, config=AUTHORIZED, **options)

    def described(self) -> dict[str, Any]:
        """The present state, as a tracker that has seen nothing describes it."""
        changed = self.metadata.changed_topics
        tables = MetadataTracker(self.core.state, self.image).describe()
        self.metadata.changed_topics = changed
        return {one.__name__: table for one, table in tables.items() if one is not RegisterBrokerRecord}


def without_epochs(tables: dict[str, Any]) -> dict[str, Any]:
    """Partitions without their leaders and epochs, which change at a start."""
    partitions = {key: (row.replicas, row.adding_replicas) for key, row in tables["PartitionRecord"].items()}
    return {**tables, "PartitionRecord": partitions}


@settings(deadline=None, max_examples=30)
@given(
    operations=st.lists(OPERATIONS, max_size=12), is_clean=st.booleans(), snapshot_after=st.sampled_from([200, 1 << 20])
)
@example(operations=[("create", "a", 1, 1), ("stop", 1), ("cluster config", "2")], is_clean=False, snapshot_after=200)
def test_any_operations_are_there_after_a_restart(
    operations: list[tuple[Any, ...]], is_clean: bool, snapshot_after: int
) -> None:
    files = new_files()
    broker = AuthorizedBroker(files, snapshot_after=snapshot_after)
    for operation in operations:
        operate(broker, operation)
    broker.core.requests.write_metadata()
    before, topics = broker.described(), broker.metadata.topics()
    epochs = {node: row.broker_epoch for node, row in broker.image.tables[RegisterBrokerRecord].items()}
    if is_clean:
        broker.end()

    again = AuthorizedBroker(files, snapshot_after=snapshot_after)

    assert again.lines == []
    assert without_epochs(again.described()) == without_epochs(before)
    assert again.core.state.cluster_id == broker.core.state.cluster_id
    for node, row in again.image.tables[RegisterBrokerRecord].items():
        assert row.broker_epoch > epochs[node]
        assert row.log_dirs == broker.image.tables[RegisterBrokerRecord][node].log_dirs
    for topic, former in zip(again.metadata.topics(), topics, strict=True):
        for partition, old in zip(topic.partitions, former.partitions, strict=True):
            if not old.isr and not old.elr:
                # A change of min.insync.replicas has emptied the ELR: no replica may lead, as in Kafka.
                assert (partition.leader, partition.leader_epoch, partition.isr) == (-1, old.leader_epoch, ())
                continue
            assert partition.leader_epoch > old.leader_epoch
            assert partition.leader in partition.replicas
            assert sorted(partition.isr) == sorted(partition.replicas)


@settings(deadline=None, max_examples=40)
@given(
    operations=st.lists(st.tuples(OPERATIONS, st.booleans()), max_size=12),
    fault=st.sampled_from([FileFault.WRITE_FAILS, FileFault.SHORT_WRITE]),
)
def test_what_cannot_be_written_has_not_happened_after_a_kill(
    operations: list[tuple[tuple[Any, ...], bool]], fault: FileFault
) -> None:
    files = FailingFiles()
    broker = AuthorizedBroker(files)
    for operation, fails in operations:
        before = broker.described()
        files.fault = fault if fails else None
        operate(broker, operation)
        with suppress(KafkaError):  # Of a change outside a request.
            broker.core.requests.write_metadata()
        files.fault = None
        if fails and operation[0] not in ("stop", "start", "cluster config"):
            assert without_epochs(broker.described()) == without_epochs(before)
    broker.advance(1_000)
    state = broker.described()

    again = AuthorizedBroker(files)

    assert again.lines == []
    assert without_epochs(again.described()) == without_epochs(state)


RATE = OpData("producer_byte_rate", 1.0, remove=False)
CHANGES = {
    "create topic": (
        CreateTopicsRequest([CreatableTopic("b", 1, 1, configs=[CreatableTopicConfig("segment.ms", "1")])]),
        7,
    ),
    "create partitions": (CreatePartitionsRequest([CreatePartitionsTopic("a", 3, None)], timeout_ms=30_000), 3),
    "delete topic": (DeleteTopicsRequest([DeleteTopicState("a")], timeout_ms=30_000), 6),
    "quota": (
        AlterClientQuotasRequest([AlterClientQuotasRequestEntryData([QuotaEntityData("user", "u")], [RATE])]),
        1,
    ),
    "user": (AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion("u", 1, 4096, b"s", b"p" * 32)]), 0),
    "acl": (CreateAclsRequest([AclCreation(2, "a", 3, "User:u", "*", 3, 3)]), 3),
    "feature": (UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("share.version", 1, upgrade_type=2)]), 2),
    "kraft.version": (
        UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("kraft.version", 1, upgrade_type=1)]),
        2,
    ),
    "coordinator": (FindCoordinatorRequest("", 0, ("g",)), 4),
    "producer id": (InitProducerIdRequest(None, 60_000), 4),
}


@pytest.mark.parametrize(("request_", "version"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_that_cannot_be_written_is_refused_and_done_when_it_is_sent_again(request_: Any, version: int) -> None:
    files = FailingFiles()
    broker = AuthorizedBroker(files)
    create(broker, "a", 1, 1)
    before, levels = broker.described(), dict(broker.core.state.features)

    files.fault = FileFault.WRITE_FAILS
    refused = broker.call(request_, version)
    described = broker.described()
    files.fault = None
    accepted = broker.call(request_, version)

    assert STORAGE_ERROR in error_codes(refused)
    assert described == before
    assert STORAGE_ERROR not in error_codes(accepted)
    assert (broker.described(), broker.core.state.features) != (before, levels)
    assert without_epochs(AuthorizedBroker(files).described()) == without_epochs(broker.described())


def error_codes(response: Any) -> set[int]:
    """All error codes in a response, at any depth."""
    found: set[int] = set()
    for name in response.__struct_fields__:
        value = getattr(response, name)
        if name == "error_code":
            found.add(value)
        for row in value if isinstance(value, list) else ():
            found |= error_codes(row)
    return found


def test_producer_ids_of_a_block_that_was_not_written_are_not_given_out() -> None:
    files = FailingFiles()
    broker = AuthorizedBroker(files)
    files.fault = FileFault.WRITE_FAILS

    refused = [broker.call(InitProducerIdRequest(None, 60_000), 4) for _ in range(3)]

    assert {one.error_code for one in refused} == {STORAGE_ERROR}
    files.fault = None
    assert broker.call(InitProducerIdRequest(None, 60_000), 4).producer_id == 0


def test_the_leader_of_a_stopped_broker_moves_though_it_cannot_be_written_and_is_written_later() -> None:
    files = FailingFiles()
    broker = AuthorizedBroker(files)
    create(broker, "a", 1, 3)
    leader = broker.leader("a")
    files.fault = FileFault.WRITE_FAILS

    broker.stop_node(1 if leader == 1 else 2)
    fenced = {1 if leader == 1 else 2}
    broker.advance(5_000)
    assert not any(row.fenced for row in broker.image.tables[RegisterBrokerRecord].values())

    files.fault = None
    broker.advance(1_000)

    assert {node for node, row in broker.image.tables[RegisterBrokerRecord].items() if row.fenced} == fenced
    assert broker.core.next_deadline_ms() != broker.now_ms


def test_records_are_served_while_the_metadata_log_is_full() -> None:
    files = FailingFiles()
    broker = AuthorizedBroker(files)
    create(broker, "a", 1, 3)
    files.fault = FileFault.WRITE_FAILS
    broker.call(CreateTopicsRequest([CreatableTopic("b", 1, 1)]), 7)

    produced = broker.call(produce(broker.topic("a"), record_batch()), 13, connection="b", node=broker.leader("a"))

    assert error_codes(produced) == {0}


def test_a_full_disk_refuses_topics_until_there_is_space() -> None:
    files = new_files()
    broker = StoredBroker(files)
    files.capacity = files.used + 30

    refused = broker.call(CreateTopicsRequest([CreatableTopic("a", 3, 1)]), 7)
    files.capacity = None
    accepted = broker.call(CreateTopicsRequest([CreatableTopic("a", 3, 1)]), 7)

    assert [refused.topics[0].error_code, accepted.topics[0].error_code] == [STORAGE_ERROR, 0]
    assert [topic.name for topic in StoredBroker(files).metadata.topics()] == ["a"]


def test_a_topic_that_is_stored_is_not_created_again() -> None:
    files = new_files()
    first = StoredBroker(files, topics={"a": 2})
    again = StoredBroker(files, topics={"a": 2, "b": 1})

    assert again.topic("a").topic_id == first.topic("a").topic_id
    assert [topic.name for topic in again.metadata.topics()] == ["a", "b"]
    with pytest.raises(ConfigError, match="topic a: 3 partitions; in the data directory it has 2"):
        StoredBroker(files, topics={"a": 3})


def test_more_nodes_are_added_and_fewer_are_refused() -> None:
    files = new_files()
    StoredBroker(files, nodes=2, topics={"a": 2})

    more = StoredBroker(files, nodes=3)

    assert list(more.core.state.nodes) == [0, 1, 2]
    assert sorted(more.image.tables[RegisterBrokerRecord]) == [0, 1, 2]
    with pytest.raises(ConfigError, match=r"it has the nodes \[0, 1, 2\], and this cluster only \[0, 1\]"):
        StoredBroker(files, nodes=2)


def test_a_directory_of_a_newer_metadata_version_is_refused_and_an_older_one_stays() -> None:
    newer, older = new_files(), new_files()
    StoredBroker(newer)
    StoredBroker(older, release="4.3")

    with pytest.raises(ConfigError, match=r"stored by another release: it has metadata.version 33; .* 7 to 30"):
        StoredBroker(newer, release="4.3")
    assert StoredBroker(older).core.state.features["metadata.version"] == 30


def test_stored_feature_levels_count_and_not_those_of_a_new_cluster() -> None:
    files = new_files()
    StoredBroker(files, features=("share.version=0",))

    assert "share.version" not in StoredBroker(files).core.state.features


def test_the_level_of_kraft_version_is_a_control_record_that_survives() -> None:
    files = new_files()
    broker = StoredBroker(files)
    update = FeatureUpdateKey("kraft.version", 1, upgrade_type=1)
    broker.call(UpdateFeaturesRequest(feature_updates=[update]), 2)

    assert MetadataLog(files, "node-0").kraft_version == 1
    assert StoredBroker(files).core.state.features["kraft.version"] == 1


def test_a_seed_makes_other_ids_after_a_restart() -> None:
    files = new_files()
    first = StoredBroker(files, topics={"a": 1})
    first.call(DeleteTopicsRequest([DeleteTopicState("a")], timeout_ms=30_000), 6)

    again = StoredBroker(files, topics={"a": 1})

    assert again.topic("a").topic_id not in (topic.topic_id for topic in first.metadata.topics())
    assert again.core.state.cluster_id == first.core.state.cluster_id


def test_logs_of_topics_without_a_metadata_log_are_refused() -> None:
    files = new_files()
    broker = StoredBroker(files, topics={"a": 1})
    broker.call(produce(broker.topic("a"), record_batch()), 13)
    broker.end()
    files.remove_folder(FOLDER)

    with pytest.raises(
        ConfigError, match="node-0 has logs of topics, and the metadata log __cluster_metadata-0 is missing"
    ):
        StoredBroker(files)


def test_a_process_that_was_killed_before_its_first_write_leaves_a_new_directory() -> None:
    files = FailingFiles()
    for folder in ("node-0", FOLDER):
        files.create_folder(folder)
    files.open_file(LOG)
    files.fault = FileFault.WRITE_FAILS
    with pytest.raises(Exception, match="metadata log"):
        StoredBroker(files)
    files.fault = None

    again = StoredBroker(files, topics={"a": 1})

    assert again.stored.is_new
    assert [topic.name for topic in StoredBroker(files).metadata.topics()] == ["a"]


def test_reverting_without_a_change_changes_nothing() -> None:
    broker = AuthorizedBroker(new_files())
    create(broker, "a", 2, 3)
    before = broker.described()
    version, generation = broker.metadata.version, broker.core.state.configs.generation

    revert_changes(broker.image, broker.core.state)

    assert broker.described() == before
    assert (broker.metadata.version, broker.core.state.configs.generation) == (version, generation)
