"""The records that lead from one state to another, as small as Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.records.metadata.client_quota_record import ClientQuotaRecord
from kwire.records.metadata.config_record import ConfigRecord
from kwire.records.metadata.delegation_token_record import DelegationTokenRecord
from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.partition_change_record import PartitionChangeRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.records.metadata.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.records.metadata.remove_topic_record import RemoveTopicRecord
from kwire.records.metadata.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kwire.records.metadata.topic_record import TopicRecord
from kwire.records.metadata.unregister_broker_record import UnregisterBrokerRecord
from kwire.records.metadata.user_scram_credential_record import UserScramCredentialRecord
from mockbroker.metadata_log.brokers import is_new_registration
from mockbroker.metadata_log.image import MetadataImage
from mockbroker.metadata_log.tables import KEYS, Key, Message, MetadataLogError, Tables
from mockbroker.state.metadata.configs import ResourceKind

#: The record that removes another one; a topic's removal removes its partitions and configuration too.
_REMOVALS: Mapping[type[msgspec.Struct], Callable[[Message], Message]] = {
    RegisterBrokerRecord: lambda record: UnregisterBrokerRecord(record.broker_id, record.broker_epoch),
    TopicRecord: lambda record: RemoveTopicRecord(record.topic_id),
    ConfigRecord: lambda record: replace(record, value=None),
    ClientQuotaRecord: lambda record: replace(record, value=0.0, remove=True),
    FeatureLevelRecord: lambda record: replace(record, feature_level=0),
    AccessControlEntryRecord: lambda record: RemoveAccessControlEntryRecord(record.id),
    UserScramCredentialRecord: lambda record: RemoveUserScramCredentialRecord(record.name, record.mechanism),
    DelegationTokenRecord: lambda record: RemoveDelegationTokenRecord(record.token_id),
}

#: The fields of a partition that a PartitionChangeRecord sets to new values, where null is unchanged.
_LISTS = ("isr", "replicas", "removing_replicas", "adding_replicas", "directories")
_ELR_LISTS = ("eligible_leader_replicas", "last_known_elr")


def find_changes(
    before: MetadataImage,
    after: Tables,
    *,
    compared: Mapping[type[msgspec.Struct], Collection[Key]] = MappingProxyType({}),
) -> Iterator[Message]:
    """The records that lead from an image to these tables, in the order of the log.

    Tables that `after` does not have stay as they are. compared: by type, the keys of all records that `after` would
    have; a type that is missing is compared as a whole.
    Raises: MetadataLogError for a leader epoch that went back.
    """
    removed = _removed_topics(before, after, compared.get(TopicRecord))
    yield from map(_REMOVALS[TopicRecord], removed)
    names = frozenset(topic.name for topic in removed)
    for record_type in KEYS:
        if record_type not in after:
            continue
        table, wanted = before.tables[record_type], after[record_type]
        if record_type in _REMOVALS and record_type is not TopicRecord:
            gone = [table[key] for key in compared.get(record_type, table) if key in table and key not in wanted]
            yield from (_REMOVALS[record_type](record) for record in gone if not _is_of_topic(record, names))
        for key, record in wanted.items():
            known = table.get(key)
            if known is None or _is_of_topic(record, names):
                yield record
            elif known != record:
                yield from _changes_of(known, record)


def _removed_topics(before: MetadataImage, after: Tables, topic_ids: Collection[bytes] | None) -> list[Message]:
    wanted = after.get(TopicRecord)
    if wanted is None:
        return []
    table = before.tables[TopicRecord]
    candidates = table if topic_ids is None else [topic_id for topic_id in topic_ids if topic_id in table]
    return [table[topic_id] for topic_id in candidates if topic_id not in wanted]


def _is_of_topic(record: Message, names: frozenset[str]) -> bool:
    """Whether a record is configuration of one of these topics, which is removed with it."""
    return (
        isinstance(record, ConfigRecord)
        and record.resource_type == ResourceKind.TOPIC
        and record.resource_name in names
    )


def _changes_of(before: Message, after: Message) -> Iterator[Message]:
    if isinstance(after, PartitionRecord):
        yield from change_partition_records(before, after)
    elif isinstance(after, RegisterBrokerRecord) and not is_new_registration(before, after):
        change = change_registration_record(before, after)
        if change != BrokerRegistrationChangeRecord(after.broker_id, before.broker_epoch):
            yield change
    else:
        yield after


def change_registration_record(
    before: RegisterBrokerRecord, after: RegisterBrokerRecord
) -> BrokerRegistrationChangeRecord:
    """The change of a registration that stays valid. A controlled shutdown ends only with a new registration."""
    change = BrokerRegistrationChangeRecord(after.broker_id, before.broker_epoch)
    if before.fenced != after.fenced:
        change.fenced = 1 if after.fenced else -1
    if after.in_controlled_shutdown and not before.in_controlled_shutdown:
        change.in_controlled_shutdown = 1
    if (before.cordoned_log_dirs or ()) != (after.cordoned_log_dirs or ()):
        change.cordoned_log_dirs = after.cordoned_log_dirs or ()
    return change


def change_partition_records(before: PartitionRecord, after: PartitionRecord) -> Iterator[PartitionChangeRecord]:
    """The changes of a partition: one record, and one more for each further leader epoch in between.

    Raises: MetadataLogError when the leader epoch went back, or the leader changed within an epoch.
    """
    elections = after.leader_epoch - before.leader_epoch
    if elections < 0 or (elections == 0 and before.leader != after.leader):
        raise MetadataLogError(
            f"partition {after.partition_id}: from leader {before.leader} in epoch {before.leader_epoch} "
            f"to {after.leader} in {after.leader_epoch}"
        )
    where = (after.partition_id, after.topic_id)
    for _ in range(elections - 1):
        yield PartitionChangeRecord(*where, leader=after.leader)
    change = PartitionChangeRecord(*where)
    for name in (*_LISTS, *_ELR_LISTS):
        if getattr(before, name) != getattr(after, name):
            setattr(change, name, getattr(after, name) or ())
    if elections:
        change.leader = after.leader
    if before.leader_recovery_state != after.leader_recovery_state:
        change.leader_recovery_state = after.leader_recovery_state
    if change != PartitionChangeRecord(*where):
        yield change
