"""The version in which Kafka writes each metadata record at a level of metadata.version. Source: MetadataVersion."""

from __future__ import annotations

from msgspec.structs import replace

from kwire.metadata_record import MetadataRecord
from kwire.records.metadata.broker_registration_change_record import BrokerRegistrationChangeRecord
from kwire.records.metadata.partition_change_record import PartitionChangeRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from mockbroker.metadata_log.tables import Message

#: Levels of metadata.version (3.3-IV3, 3.4-IV0, 3.7-IV2, 4.0-IV1 and 4.3-IV0) that brought newer versions of records.
_CONTROLLED_SHUTDOWN, _ZK_MIGRATION, _DIRECTORIES, _ELR, _CORDONED = 7, 8, 17, 23, 30


def with_version(record: Message, level: int) -> MetadataRecord:
    """A record in the version of a level, without the fields that this version does not have."""
    if isinstance(record, (PartitionRecord, PartitionChangeRecord)):
        return _partition_version(record, level)
    if isinstance(record, RegisterBrokerRecord):
        version = sum(level >= since for since in (_CONTROLLED_SHUTDOWN, _ZK_MIGRATION, _DIRECTORIES, _CORDONED))
        if version < 3:
            record = replace(record, log_dirs=())
        return MetadataRecord(replace(record, cordoned_log_dirs=None) if version < 4 else record, version)
    if isinstance(record, BrokerRegistrationChangeRecord):
        version = 3 if record.cordoned_log_dirs is not None else 2 if record.log_dirs else record.in_controlled_shutdown
        return MetadataRecord(record, version)
    return MetadataRecord(record, 0)


def _partition_version(record: PartitionRecord | PartitionChangeRecord, level: int) -> MetadataRecord:
    version = sum(level >= since for since in (_DIRECTORIES, _ELR))
    if version < 1:
        record = replace(record, directories=() if isinstance(record, PartitionRecord) else None)
    if version < 2:
        record = replace(record, eligible_leader_replicas=None, last_known_elr=None)
    return MetadataRecord(record, version)
