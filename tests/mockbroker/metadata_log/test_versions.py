"""Versions of metadata records by level: as MetadataVersion of Kafka 4.4.0 says for each of its levels."""

from __future__ import annotations

import pytest

from kwire.records.metadata.partition_change_record import PartitionChangeRecord
from kwire.records.metadata.partition_record import PartitionRecord
from kwire.records.metadata.register_broker_record import RegisterBrokerRecord
from kwire.records.metadata.topic_record import TopicRecord
from mockbroker.metadata_log.versions import with_version

#: Level, registerBrokerRecordVersion, partitionRecordVersion and partitionChangeRecordVersion.
_LEVELS = [
    (7, 1, 0),
    (8, 2, 0),
    *((level, 2, 0) for level in range(9, 17)),
    *((level, 3, 1) for level in range(17, 23)),
    *((level, 3, 2) for level in range(23, 30)),
    *((level, 4, 2) for level in range(30, 35)),
]


@pytest.mark.parametrize(("level", "broker", "partition"), _LEVELS)
def test_records_have_the_version_of_the_level(level: int, broker: int, partition: int) -> None:
    assert with_version(RegisterBrokerRecord(), level).version == broker
    assert with_version(PartitionRecord(), level).version == partition
    assert with_version(PartitionChangeRecord(), level).version == partition
    assert with_version(TopicRecord(), level).version == 0


def test_fields_that_a_version_does_not_have_are_left_out() -> None:
    record = PartitionRecord(replicas=(0,), directories=(b"\1" * 16,), eligible_leader_replicas=(0,))

    old, middle, new = (with_version(record, level).message for level in (8, 17, 23))

    assert (old.directories, old.eligible_leader_replicas) == ((), None)  # type: ignore[attr-defined]
    assert (middle.directories, middle.eligible_leader_replicas) == ((b"\1" * 16,), None)  # type: ignore[attr-defined]
    assert new == record
