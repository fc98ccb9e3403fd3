"""The records that together describe a cluster: by type, and by the key under which a later one replaces them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from kwire.records.metadata.access_control_entry_record import AccessControlEntryRecord
from kwire.records.metadata.client_quota_record import ClientQuotaRecord
from kwire.records.metadata.config_record import ConfigRecord
from kwire.records.metadata.delegation_token_record import DelegationTokenRecord
from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.producer_ids_record import ProducerIdsRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.register_controller_record import RegisterControllerRecord
from kwire.records.metadata.topic_record import TopicRecord
from kwire.records.metadata.user_scram_credential_record import UserScramCredentialRecord

#: A record of the metadata log; every type has fields of its own.
Message = Any
Key = Any
#: The records by type and key. A type that is missing is unknown; an empty table has no record.
Tables = Mapping[type[msgspec.Struct], Mapping[Key, Message]]

#: The key of each type of record that stays in effect, in the order of Kafka's snapshots.
KEYS: Mapping[type[msgspec.Struct], Callable[[Message], Key]] = {
    FeatureLevelRecord: lambda record: record.name,
    RegisterControllerRecord: lambda record: record.controller_id,
    RegisterBrokerRecord: lambda record: record.broker_id,
    TopicRecord: lambda record: record.topic_id,
    PartitionRecord: lambda record: (record.topic_id, record.partition_id),
    ConfigRecord: lambda record: (record.resource_type, record.resource_name, record.name),
    ClientQuotaRecord: lambda record: (quota_entity(record), record.key),
    ProducerIdsRecord: lambda _: (),
    AccessControlEntryRecord: lambda record: record.id,
    UserScramCredentialRecord: lambda record: (record.name, record.mechanism),
    DelegationTokenRecord: lambda record: record.token_id,
}


class MetadataLogError(ValueError):
    """A record of the metadata log that does not fit those before it, or that this cluster cannot represent."""


def make_table(records: Iterable[Message], record_type: type[msgspec.Struct]) -> dict[Key, Message]:
    """Records of one type by their keys."""
    key_of = KEYS[record_type]
    return {key_of(record): record for record in records}


def config_resource(record: ConfigRecord) -> tuple[int, str]:
    """The resource of a configuration: its type and name."""
    return record.resource_type, record.resource_name


def acl_fields(record: AccessControlEntryRecord) -> tuple[int, str, int, str, str, int, int]:
    """What an entry says, without its id: the fields of an `Acl`, to which it is equal."""
    return (
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def quota_entity(record: ClientQuotaRecord) -> tuple[tuple[str, str | None], ...]:
    """The entity of a quota: types with names, sorted by type."""
    return tuple(sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda part: part[0]))
