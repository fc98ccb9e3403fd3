"""The image of a metadata log: every type of record, what it changes, and what does not fit those before it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.records.metadata.abort_transaction_record import AbortTransactionRecord
from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.begin_transaction_record import BeginTransactionRecord
from kwire.records.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.records.metadata.clear_elr_record import ClearElrRecord
from kwire.records.metadata.client_quota_record import ClientQuotaRecord, EntityData
from kwire.records.metadata.config_record import ConfigRecord
from kwire.records.metadata.delegation_token_record import DelegationTokenRecord
from kwire.records.metadata.end_transaction_record import EndTransactionRecord
from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.fence_broker_record import FenceBrokerRecord
from kwire.records.metadata.no_op_record import NoOpRecord
from kwire.records.metadata.partition_change_record import PartitionChangeRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.register_controller_record import RegisterControllerRecord
from kwire.records.metadata.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.records.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.records.metadata.remove_topic_record import RemoveTopicRecord
from kwire.records.metadata.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kwire.records.metadata.topic_record import TopicRecord
from kwire.records.metadata.unfence_broker_record import UnfenceBrokerRecord
from kwire.records.metadata.unregister_broker_record import UnregisterBrokerRecord
from kwire.records.metadata.unregister_controller_record import UnregisterControllerRecord
from kwire.records.metadata.user_scram_credential_record import UserScramCredentialRecord
from kwire.records.metadata.zk_migration_state_record import ZkMigrationStateRecord
from mockbroker.metadata_log.image import MetadataImage, merge_registration
from mockbroker.metadata_log.tables import MetadataLogError

A, B = b"a" * 16, b"b" * 16
TOPIC = TopicRecord("t", A)
PARTITION = PartitionRecord(
    partition_id=0, topic_id=A, replicas=(0, 1), isr=(0, 1), leader=0, leader_epoch=3, partition_epoch=5
)
BROKER = RegisterBrokerRecord(broker_id=1, incarnation_id=B, broker_epoch=7, fenced=False, log_dirs=(A,))


def partition_of(image: MetadataImage) -> Any:
    return image.tables[PartitionRecord][A, 0]


@pytest.mark.parametrize(
    "record",
    [
        FeatureLevelRecord("share.version", 1),
        RegisterControllerRecord(controller_id=3),
        BROKER,
        TOPIC,
        ConfigRecord(4, "", "min.insync.replicas", "1"),
        ClientQuotaRecord([EntityData("user", None)], "producer_byte_rate", 1.0, remove=False),
        AccessControlEntryRecord(id=A, resource_type=2, resource_name="t"),
        UserScramCredentialRecord("alice", 1, b"s", b"k", b"v", 4096),
        DelegationTokenRecord(token_id="id"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_is_in_effect_until_a_later_one_of_its_key(record: Any) -> None:
    image = MetadataImage([record])

    assert image.records() == [record]
    image.apply(record)
    assert image.records() == [record]


@pytest.mark.parametrize(
    ("record", "removal"),
    [
        (FeatureLevelRecord("share.version", 1), FeatureLevelRecord("share.version", 0)),
        (RegisterControllerRecord(controller_id=3), UnregisterControllerRecord(controller_id=3)),
        (BROKER, UnregisterBrokerRecord(1, 7)),
        (ConfigRecord(4, "", "k", "v"), ConfigRecord(4, "", "k", None)),
        (
            ClientQuotaRecord([EntityData("user", "u"), EntityData("client-id", "c")], "k", 1.0, remove=False),
            ClientQuotaRecord([EntityData("client-id", "c"), EntityData("user", "u")], "k", 0.0, remove=True),
        ),
        (AccessControlEntryRecord(id=A), RemoveAccessControlEntryRecord(A)),
        (UserScramCredentialRecord("alice", 1), RemoveUserScramCredentialRecord("alice", 1)),
        (DelegationTokenRecord(token_id="id"), RemoveDelegationTokenRecord("id")),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_removal_ends_the_effect_of_a_record(record: Any, removal: Any) -> None:
    assert MetadataImage([record, removal]).records() == []


@pytest.mark.parametrize(
    "record",
    [
        PARTITION,
        PartitionChangeRecord(0, A),
        RemoveTopicRecord(A),
        UnregisterBrokerRecord(1, 7),
        UnregisterControllerRecord(controller_id=3),
        BrokerRegistrationChangeRecord(1, 7, fenced=1),
        FenceBrokerRecord(1, 7),
        UnfenceBrokerRecord(1, 7),
        RemoveAccessControlEntryRecord(A),
        RemoveUserScramCredentialRecord("alice", 1),
        RemoveDelegationTokenRecord("id"),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_change_of_what_does_not_exist_is_an_error_that_names_it(record: Any) -> None:
    with pytest.raises(MetadataLogError, match=type(record).__name__):
        MetadataImage([record])


@pytest.mark.parametrize("record", [NoOpRecord(), ZkMigrationStateRecord(0)], ids=["no-op", "zk"])
def test_records_without_effect_change_nothing(record: Any) -> None:
    assert MetadataImage([record]).records() == []


def test_a_message_of_another_kind_is_no_record_of_the_log() -> None:
    with pytest.raises(MetadataLogError, match="LeaderChangeMessage is not a record"):
        MetadataImage([LeaderChangeMessage()])


def test_a_removed_topic_takes_its_partitions_and_configuration_with_it() -> None:
    others = [TopicRecord("u", B), replace(PARTITION, topic_id=B), ConfigRecord(2, "u", "k", "v"), BROKER]
    configs = [ConfigRecord(2, "t", "k", "v"), ConfigRecord(32, "t", "k", "v")]

    image = MetadataImage([TOPIC, PARTITION, *configs, *others, RemoveTopicRecord(A)])

    assert image.tables[TopicRecord].keys() == {B}
    assert image.tables[PartitionRecord].keys() == {(B, 0)}
    assert image.tables[ConfigRecord].keys() == {(32, "t", "k"), (2, "u", "k")}


def test_a_leader_in_a_partition_change_is_an_election_and_every_change_counts() -> None:
    image = MetadataImage([TOPIC, PARTITION])

    image.apply(PartitionChangeRecord(0, A, leader=1))
    image.apply(PartitionChangeRecord(0, A, leader=1))
    image.apply(PartitionChangeRecord(0, A, isr=(1,)))

    partition = partition_of(image)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 5, 8)
    assert (partition.isr, partition.replicas) == ((1,), (0, 1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("isr", (0,)),
        ("replicas", (0, 1, 2)),
        ("removing_replicas", (1,)),
        ("adding_replicas", (2,)),
        ("directories", (A, B)),
        ("eligible_leader_replicas", (1,)),
        ("last_known_elr", (1,)),
        ("leader_recovery_state", 1),
    ],
)
def test_a_partition_change_sets_only_what_it_has(name: str, value: Any) -> None:
    image = MetadataImage([TOPIC, PARTITION, PartitionChangeRecord(0, A, **{name: value})])

    assert partition_of(image) == replace(PARTITION, partition_epoch=6, **{name: value})


def test_an_empty_list_of_eligible_leader_replicas_is_none() -> None:
    given = replace(PARTITION, eligible_leader_replicas=(), last_known_elr=())
    image = MetadataImage([TOPIC, given])
    assert partition_of(image) == PARTITION

    image.apply(PartitionChangeRecord(0, A, eligible_leader_replicas=(1,), last_known_elr=(1,)))
    image.apply(PartitionChangeRecord(0, A, eligible_leader_replicas=(), last_known_elr=()))

    assert partition_of(image) == replace(PARTITION, partition_epoch=7)


@pytest.mark.parametrize(("name", "cleared"), [("", {A, B}), ("t", {A}), ("v", set())])
def test_eligible_leader_replicas_are_cleared_by_topic_or_for_all(name: str, cleared: set[bytes]) -> None:
    with_elr = replace(PARTITION, eligible_leader_replicas=(1,), last_known_elr=(0,))
    image = MetadataImage([TOPIC, with_elr, TopicRecord("u", B), replace(with_elr, topic_id=B), ClearElrRecord(name)])

    found = {key[0] for key, row in image.tables[PartitionRecord].items() if row.eligible_leader_replicas is None}
    assert found == cleared


def test_a_registration_change_sets_only_what_it_has() -> None:
    assert merge_registration(BROKER, BrokerRegistrationChangeRecord(1, 7)) == BROKER
    assert merge_registration(BROKER, BrokerRegistrationChangeRecord(1, 7, fenced=1)) == replace(BROKER, fenced=True)
    changed = BrokerRegistrationChangeRecord(1, 7, in_controlled_shutdown=1, log_dirs=(B,), cordoned_log_dirs=(B,))
    expected = replace(BROKER, in_controlled_shutdown=True, log_dirs=(B,), cordoned_log_dirs=(B,))
    assert merge_registration(BROKER, changed) == expected
    unfenced = merge_registration(expected, BrokerRegistrationChangeRecord(1, 7, fenced=-1, cordoned_log_dirs=()))
    assert unfenced == replace(expected, fenced=False, cordoned_log_dirs=())


def test_old_records_fence_a_broker_and_unfence_it() -> None:
    image = MetadataImage([BROKER, FenceBrokerRecord(1, 7)])
    assert image.tables[RegisterBrokerRecord][1].fenced

    image.apply(UnfenceBrokerRecord(1, 7))

    assert image.records() == [BROKER]


def test_records_of_a_transaction_take_effect_at_its_end() -> None:
    image = MetadataImage([BeginTransactionRecord("why"), TOPIC, PARTITION])
    opened, before = image.has_open_transaction, image.records()

    image.apply(EndTransactionRecord())

    assert (opened, image.has_open_transaction) == (True, False)
    assert (before, image.records()) == ([], [TOPIC, PARTITION])


def test_records_of_an_aborted_transaction_have_no_effect() -> None:
    image = MetadataImage([BROKER, BeginTransactionRecord("why"), TOPIC, AbortTransactionRecord("no")])

    assert image.records() == [BROKER]
    assert not image.has_open_transaction


@pytest.mark.parametrize("record", [EndTransactionRecord(), AbortTransactionRecord()], ids=["end", "abort"])
def test_the_end_of_no_transaction_is_an_error(record: Any) -> None:
    with pytest.raises(MetadataLogError, match="no transaction is open"):
        MetadataImage([record])


def test_a_transaction_in_a_transaction_is_an_error() -> None:
    with pytest.raises(MetadataLogError, match="open already"):
        MetadataImage([BeginTransactionRecord(), BeginTransactionRecord()])
