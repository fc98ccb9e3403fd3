"""The records in effect after those of a metadata log or snapshot. Source: Kafka's MetadataDelta and its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kwire.records.metadata.abort_transaction_record import AbortTransactionRecord
from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.begin_transaction_record import BeginTransactionRecord
from kwire.records.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.records.metadata.clear_elr_record import ClearElrRecord
from kwire.records.metadata.client_quota_record import ClientQuotaRecord
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
from mockbroker.metadata_log.grouped_table import GroupedTable
from mockbroker.metadata_log.tables import (
    KEYS,
    Key,
    Message,
    MetadataLogError,
    acl_fields,
    config_resource,
    quota_entity,
)
from mockbroker.state.metadata.configs import ResourceKind

#: No new leader in a PartitionChangeRecord.
LEADER_UNCHANGED = -2
_TOPIC = int(ResourceKind.TOPIC)


class MetadataImage:
    """The records in effect, by type and key.

    Partition and leader epochs are counted as Kafka counts them. Records of an open transaction take effect at its end.
    configs: by resource too. quotas: by entity. acls: by what they say.
    """

    def __init__(self, records: Iterable[Message] = ()) -> None:
        self.configs = GroupedTable(config_resource)
        self.quotas = GroupedTable(quota_entity)
        self.acls = GroupedTable(acl_fields)
        self.tables: dict[type[msgspec.Struct], dict[Key, Message]] = {record_type: {} for record_type in KEYS}
        self.tables |= {
            ConfigRecord: self.configs,
            ClientQuotaRecord: self.quotas,
            AccessControlEntryRecord: self.acls,
        }
        self._transaction: list[Message] | None = None
        for record in records:
            self.apply(record)

    @property
    def has_open_transaction(self) -> bool:
        """Whether records wait for the end of their transaction."""
        return self._transaction is not None

    def records(self) -> list[Message]:
        """The records of a snapshot: these, applied to an empty image, give this one."""
        return [record for table in self.tables.values() for record in table.values()]

    def apply(self, record: Message) -> None:
        """Apply the next record of the log.

        Raises: MetadataLogError for a change of something that does not exist, and for transactions in each other.
        """
        if isinstance(record, BeginTransactionRecord):
            if self._transaction is not None:
                raise MetadataLogError("BeginTransactionRecord: a transaction is open already")
            self._transaction = []
        elif isinstance(record, (EndTransactionRecord, AbortTransactionRecord)):
            if self._transaction is None:
                raise MetadataLogError(f"{type(record).__name__}: no transaction is open")
            pending, self._transaction = self._transaction, None
            for one in pending if isinstance(record, EndTransactionRecord) else ():
                self._apply_now(one)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._apply_now(record)

    def _apply_now(self, record: Message) -> None:
        change = _CHANGES.get(type(record))
        if change is not None:
            change(self, record)
        elif type(record) in KEYS:
            self.tables[type(record)][KEYS[type(record)](record)] = record
        elif not isinstance(record, (NoOpRecord, ZkMigrationStateRecord)):
            raise MetadataLogError(f"{type(record).__name__} is not a record of the metadata log")

    def remove(self, record_type: type[msgspec.Struct], key: Key, cause: Message) -> Message:
        """Remove a record that must exist, and return it. Raises: MetadataLogError that names the cause."""
        record = self.find(record_type, key, cause)
        del self.tables[record_type][key]
        return record

    def find(self, record_type: type[msgspec.Struct], key: Key, cause: Message) -> Message:
        """A record that must exist. Raises: MetadataLogError that names the cause."""
        record = self.tables[record_type].get(key)
        if record is None:
            raise MetadataLogError(f"{type(cause).__name__}: no {record_type.__name__} has the key {key!r}")
        return record


def merge_partition(before: PartitionRecord, change: PartitionChangeRecord) -> PartitionRecord:
    """A partition after a change. Source: Kafka's PartitionRegistration.merge."""

    def given(name: str) -> Message:
        value = getattr(change, name)
        return getattr(before, name) if value is None else value

    is_elected = change.leader != LEADER_UNCHANGED
    recovery = change.leader_recovery_state
    return replace(
        before,
        isr=given("isr"),
        replicas=given("replicas"),
        removing_replicas=given("removing_replicas"),
        adding_replicas=given("adding_replicas"),
        directories=given("directories"),
        eligible_leader_replicas=given("eligible_leader_replicas") or None,
        last_known_elr=given("last_known_elr") or None,
        leader=change.leader if is_elected else before.leader,
        leader_epoch=before.leader_epoch + is_elected,
        leader_recovery_state=before.leader_recovery_state if recovery == -1 else recovery,
        partition_epoch=before.partition_epoch + 1,
    )


def merge_registration(before: RegisterBrokerRecord, change: BrokerRegistrationChangeRecord) -> RegisterBrokerRecord:
    """A broker's registration after a change. Source: Kafka's BrokerRegistrationFencingChange and its siblings."""
    return replace(
        before,
        fenced=before.fenced if change.fenced == 0 else change.fenced == 1,
        in_controlled_shutdown=before.in_controlled_shutdown or change.in_controlled_shutdown == 1,
        log_dirs=change.log_dirs or before.log_dirs,
        cordoned_log_dirs=before.cordoned_log_dirs if change.cordoned_log_dirs is None else change.cordoned_log_dirs,
    )


def _add_partition(image: MetadataImage, record: PartitionRecord) -> None:
    image.find(TopicRecord, record.topic_id, record)
    elr, last_known = record.eligible_leader_replicas or None, record.last_known_elr or None
    record = replace(record, eligible_leader_replicas=elr, last_known_elr=last_known)
    image.tables[PartitionRecord][record.topic_id, record.partition_id] = record


def _change_partition(image: MetadataImage, record: PartitionChangeRecord) -> None:
    key = (record.topic_id, record.partition_id)
    image.tables[PartitionRecord][key] = merge_partition(image.find(PartitionRecord, key, record), record)


def _remove_topic(image: MetadataImage, record: RemoveTopicRecord) -> None:
    topic = image.remove(TopicRecord, record.topic_id, record)
    partitions, index = image.tables[PartitionRecord], 0
    while partitions.pop((record.topic_id, index), None) is not None:
        index += 1
    for key in image.configs.keys_of((_TOPIC, topic.name)):
        del image.configs[key]


def _clear_elr(image: MetadataImage, record: ClearElrRecord) -> None:
    topics, partitions = image.tables[TopicRecord], image.tables[PartitionRecord]
    for key, partition in partitions.items():
        is_named = record.topic_name in ("", topics[key[0]].name)
        if is_named and (partition.eligible_leader_replicas or partition.last_known_elr):
            change = PartitionChangeRecord(eligible_leader_replicas=(), last_known_elr=())
            partitions[key] = merge_partition(partition, change)


def _change_registration(image: MetadataImage, record: BrokerRegistrationChangeRecord) -> None:
    before = image.find(RegisterBrokerRecord, record.broker_id, record)
    image.tables[RegisterBrokerRecord][record.broker_id] = merge_registration(before, record)


def _fence_broker(image: MetadataImage, record: FenceBrokerRecord | UnfenceBrokerRecord) -> None:
    before = image.find(RegisterBrokerRecord, record.id, record)
    is_fenced = isinstance(record, FenceBrokerRecord)
    image.tables[RegisterBrokerRecord][record.id] = replace(before, fenced=is_fenced)


def _set_or_remove(is_removal: Callable[[Message], bool]) -> Callable[[MetadataImage, Message], None]:
    """A record type whose records also remove what they set. Removing what does not exist changes nothing."""

    def change(image: MetadataImage, record: Message) -> None:
        table, key = image.tables[type(record)], KEYS[type(record)](record)
        if is_removal(record):
            table.pop(key, None)
        else:
            table[key] = record

    return change


def _remove(
    record_type: type[msgspec.Struct], key_of: Callable[[Message], Key]
) -> Callable[[MetadataImage, Message], None]:
    def change(image: MetadataImage, record: Message) -> None:
        image.remove(record_type, key_of(record), record)

    return change


#: The records that change others, or more than the table of their own type.
_CHANGES: Mapping[type[msgspec.Struct], Callable[[MetadataImage, Message], None]] = {
    PartitionRecord: _add_partition,
    PartitionChangeRecord: _change_partition,
    RemoveTopicRecord: _remove_topic,
    ClearElrRecord: _clear_elr,
    BrokerRegistrationChangeRecord: _change_registration,
    FenceBrokerRecord: _fence_broker,
    UnfenceBrokerRecord: _fence_broker,
    ConfigRecord: _set_or_remove(lambda record: record.value is None),
    ClientQuotaRecord: _set_or_remove(lambda record: record.remove),
    FeatureLevelRecord: _set_or_remove(lambda record: record.feature_level == 0),
    UnregisterBrokerRecord: _remove(RegisterBrokerRecord, lambda record: record.broker_id),
    UnregisterControllerRecord: _remove(RegisterControllerRecord, lambda record: record.controller_id),
    RemoveAccessControlEntryRecord: _remove(AccessControlEntryRecord, lambda record: record.id),
    RemoveUserScramCredentialRecord: _remove(UserScramCredentialRecord, lambda record: (record.name, record.mechanism)),
    RemoveDelegationTokenRecord: _remove(DelegationTokenRecord, lambda record: record.token_id),
}
