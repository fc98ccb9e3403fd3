"""The records from one state to another: as few as Kafka writes, in the order of the log, and nothing for no change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.records.metadata.client_quota_record import ClientQuotaRecord, EntityData
from kwire.records.metadata.config_record import ConfigRecord
from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.partition_change_record import PartitionChangeRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.records.metadata.remove_topic_record import RemoveTopicRecord
from kwire.records.metadata.topic_record import TopicRecord
from kwire.records.metadata.unregister_broker_record import UnregisterBrokerRecord
from mockbroker.metadata_log.changes import change_partition_records, find_changes
from mockbroker.metadata_log.image import MetadataImage
from mockbroker.metadata_log.tables import KEYS, MetadataLogError, Tables

A, B = b"a" * 16, b"b" * 16
PARTITION = PartitionRecord(partition_id=0, topic_id=A, replicas=(0, 1), isr=(0, 1), leader=0, leader_epoch=3)
BROKER = RegisterBrokerRecord(broker_id=1, incarnation_id=B, broker_epoch=7, fenced=False, log_dirs=(A,))


def changes(before: list[Any], after: list[Any], *only: type) -> list[Any]:
    """The records between two states; only: the types that the second one describes, by default all."""
    tables: dict[type, dict[Any, Any]] = {record_type: {} for record_type in only or KEYS}
    for record in after:
        tables[type(record)][KEYS[type(record)](record)] = record
    return list(find_changes(MetadataImage(before), tables))


STATE = [
    FeatureLevelRecord("metadata.version", 33),
    BROKER,
    TopicRecord("t", A),
    PARTITION,
    ConfigRecord(2, "t", "segment.ms", "1"),
    ClientQuotaRecord([EntityData("user", None)], "producer_byte_rate", 1.0, remove=False),
    AccessControlEntryRecord(id=A),
]


def test_no_change_needs_no_record() -> None:
    assert changes(STATE, STATE) == []


def test_a_new_state_is_written_as_it_is_in_the_order_of_a_snapshot() -> None:
    assert changes([], list(reversed(STATE))) == STATE


def test_types_that_are_not_described_stay_as_they_are() -> None:
    assert changes(STATE, [], AccessControlEntryRecord) == [RemoveAccessControlEntryRecord(A)]


def test_everything_that_is_gone_is_removed_by_the_fewest_records() -> None:
    assert changes(STATE, []) == [
        RemoveTopicRecord(A),
        FeatureLevelRecord("metadata.version", 0),
        UnregisterBrokerRecord(1, 7),
        ClientQuotaRecord([EntityData("user", None)], "producer_byte_rate", 0.0, remove=True),
        RemoveAccessControlEntryRecord(A),
    ]


def test_a_removed_configuration_is_a_record_without_a_value() -> None:
    config = ConfigRecord(4, "", "min.insync.replicas", "1")

    assert changes([config], []) == [replace(config, value=None)]


def test_a_topic_of_the_same_name_again_gets_its_configuration_again() -> None:
    config = ConfigRecord(2, "t", "segment.ms", "1")
    before = [TopicRecord("t", A), PARTITION, config]
    after = [TopicRecord("t", B), replace(PARTITION, topic_id=B), config]

    assert changes(before, after) == [RemoveTopicRecord(A), *after]


def test_only_the_named_topics_are_compared() -> None:
    image = MetadataImage([TopicRecord("t", A), PARTITION, TopicRecord("u", B)])

    nothing: Tables = {TopicRecord: {}, PartitionRecord: {}}
    assert list(find_changes(image, nothing, compared={TopicRecord: [A]})) == [RemoveTopicRecord(A)]
    assert list(find_changes(image, nothing, compared={TopicRecord: [b"c" * 16]})) == []


@pytest.mark.parametrize(
    ("after", "record"),
    [
        (replace(BROKER, fenced=True), BrokerRegistrationChangeRecord(1, 7, fenced=1)),
        (replace(BROKER, in_controlled_shutdown=True), BrokerRegistrationChangeRecord(1, 7, in_controlled_shutdown=1)),
        (replace(BROKER, cordoned_log_dirs=(A,)), BrokerRegistrationChangeRecord(1, 7, cordoned_log_dirs=(A,))),
        (
            replace(BROKER, fenced=True, in_controlled_shutdown=True),
            BrokerRegistrationChangeRecord(1, 7, fenced=1, in_controlled_shutdown=1),
        ),
    ],
)
def test_a_broker_that_goes_on_is_changed_and_one_that_started_again_registers(after: Any, record: Any) -> None:
    assert changes([BROKER], [after]) == [record]
    again = replace(after, incarnation_id=A, broker_epoch=9)
    assert changes([BROKER], [again]) == [again]


def test_the_end_of_a_controlled_shutdown_alone_is_no_change() -> None:
    assert changes([replace(BROKER, in_controlled_shutdown=True)], [BROKER]) == []


def test_fenced_and_unfenced_again_leads_back() -> None:
    fenced = replace(BROKER, fenced=True)

    assert changes([fenced], [BROKER]) == [BrokerRegistrationChangeRecord(1, 7, fenced=-1)]


def test_each_leader_epoch_is_a_record_of_its_own() -> None:
    after = replace(PARTITION, leader=1, leader_epoch=6, isr=(1,))

    assert list(change_partition_records(PARTITION, after)) == [
        PartitionChangeRecord(0, A, leader=1),
        PartitionChangeRecord(0, A, leader=1),
        PartitionChangeRecord(0, A, leader=1, isr=(1,)),
    ]


@pytest.mark.parametrize(
    "after", [replace(PARTITION, leader_epoch=2), replace(PARTITION, leader=1)], ids=["epoch back", "same epoch"]
)
def test_leaders_that_do_not_follow_are_an_error(after: Any) -> None:
    with pytest.raises(MetadataLogError, match="from leader 0 in epoch 3"):
        list(change_partition_records(PARTITION, after))


NODES = st.lists(st.integers(0, 3), unique=True, max_size=4).map(tuple)
ELR = NODES.map(lambda nodes: nodes or None)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionRecord:
    return PartitionRecord(
        partition_id=0,
        topic_id=A,
        replicas=draw(NODES),
        isr=draw(NODES),
        removing_replicas=draw(NODES),
        adding_replicas=draw(NODES),
        leader=draw(st.integers(-1, 3)),
        leader_recovery_state=draw(st.integers(0, 1)),
        leader_epoch=3,
        partition_epoch=0,
        directories=draw(st.lists(st.sampled_from([A, B]), max_size=3).map(tuple)),
        eligible_leader_replicas=draw(ELR),
        last_known_elr=draw(ELR),
    )


@given(before=partitions(), after=partitions(), elections=st.integers(1, 3))
def test_the_records_between_any_two_partitions_lead_from_one_to_the_other(
    before: PartitionRecord, after: PartitionRecord, elections: int
) -> None:
    after.leader_epoch = before.leader_epoch + elections
    image = MetadataImage([TopicRecord("t", A), before])

    records = list(change_partition_records(before, after))
    for record in records:
        image.apply(record)

    assert len(records) == elections
    assert image.tables[PartitionRecord][A, 0] == replace(after, partition_epoch=elections)
