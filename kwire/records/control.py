"""Control records: transaction markers, records of KRaft, and share-group state of a draft of KIP-932."""

from __future__ import annotations

import struct
from enum import IntEnum

import msgspec

from kwire.errors import Truncated
from kwire.records.failures import corrupt_error
from kwire.records.record import Record
from kwire.records.writer import write_batch

_KEY = struct.Struct(">hh")  # Version, type.
_MARKER = struct.Struct(">hi")  # Version, coordinator epoch.
_VALUE_VERSION = struct.Struct(">h")


class ControlType(IntEnum):
    """The types of control records in Kafka 4.3."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ShareControlType(IntEnum):
    """The types of control records that hold the state of share-partitions in revision r2 of KIP-932.

    Kafka later used the numbers for KRaft.
    """

    SHARE_CHECKPOINT = 5
    SHARE_DELTA = 6


#: The edition that stores the state of share-partitions in control records of the topic-partition.
SHARE_CONTROL_EDITION = "kip932-r2"


class ControlRecord(msgspec.Struct, frozen=True, gc=False):
    """The key of a control record, and the coordinator epoch of a transaction marker.

    `type` is an int when it is unknown. The values of the other types are messages
    (LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord, KRaftVersionRecord, VotersRecord; in the edition
    kip932-r2 ShareCheckpointValue and ShareDeltaValue).
    """

    type: ControlType | ShareControlType | int
    version: int
    coordinator_epoch: int | None
    value: bytes | None


def write_marker(
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """The batch of one record that ends a transaction on a partition. `timestamp` is in milliseconds.

    Source: Kafka's MemoryRecords.writeEndTransactionalMarker: transactional, control, no sequence.
    """
    assert kind in (ControlType.ABORT, ControlType.COMMIT)
    record = Record(base_offset, timestamp, _KEY.pack(0, kind), _MARKER.pack(0, coordinator_epoch))
    return write_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        transactional=True,
        control=True,
    )


def write_share_control(kind: ShareControlType, value: bytes, *, timestamp: int, base_offset: int = 0) -> bytes:
    """The batch of one record with the state of a share-partition. `timestamp` is in milliseconds.

    value: an encoded ShareCheckpointValue or ShareDeltaValue of version 0; the version precedes it, as in every control
    record.
    """
    record = Record(base_offset, timestamp, _KEY.pack(0, kind), _VALUE_VERSION.pack(0) + value)
    return write_batch([record], control=True)


def read_control(record: Record, *, edition: str | None = None) -> ControlRecord:
    """Read a record of a control batch; the meaning of the type depends on the edition, None for all releases.

    Raises: CorruptRecords or Truncated for a key or a marker that is too short or of a negative version.
    """
    version, number = _unpack(_KEY, record.key, "key")
    value = record.value
    if number not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlRecord(_control_type(number, edition), version, None, value)
    _, epoch = _unpack(_MARKER, value, "value")
    return ControlRecord(ControlType(number), version, epoch, value)


def _control_type(number: int, edition: str | None) -> ControlType | ShareControlType | int:
    kinds: tuple[type[ControlType | ShareControlType], ...] = (ControlType,)
    if edition == SHARE_CONTROL_EDITION:
        kinds = (ShareControlType, ControlType)
    return next((kind(number) for kind in kinds if number in kind._value2member_map_), number)


def _unpack(layout: struct.Struct, data: bytes | None, what: str) -> tuple[int, int]:
    """Version and number; a later version may append fields, so further bytes are not an error."""
    path = f"control.{what}"
    if data is None:
        raise corrupt_error("is null", path=path)
    if len(data) < layout.size:
        raise Truncated(path, 0, layout.size, len(data))
    version, number = layout.unpack_from(data)
    if version < 0:
        raise corrupt_error(f"version {version}", 0, path)
    return version, number
