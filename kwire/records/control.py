"""Control batches: the records that a log writes for itself, and the markers that end transactions."""

from __future__ import annotations

import struct
from enum import IntEnum

import msgspec

from kwire.errors import Truncated
from kwire.records.faults import corrupt
from kwire.records.record import Record
from kwire.records.writer import write_batch

_KEY = struct.Struct(">hh")  # Version, type.
_MARKER = struct.Struct(">hi")  # Version, coordinator epoch.
_VALUE_VERSION = struct.Struct(">h")


class ControlType(IntEnum):
    """What a control record says, numbered as in Kafka 4.3."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ShareControlType(IntEnum):
    """What a control record says of share-partitions, where the second revision of KIP-932 keeps their state.

    Kafka gave the numbers to KRaft later.
    """

    SHARE_CHECKPOINT = 5
    SHARE_DELTA = 6


#: The edition in which share-partitions keep their state in control records of their own log.
SHARE_CONTROL_EDITION = "kip932-r2"


class ControlRecord(msgspec.Struct, frozen=True, gc=False):
    """A control record's key, and of a transaction marker its coordinator's epoch.

    `type` stays a number when nobody knows it. The values of the other types are messages of their own
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
    """The batch of one record that keeps the state of a share-partition. `timestamp` is in milliseconds.

    value: an encoded ShareCheckpointValue or ShareDeltaValue of version 0; the version precedes it, as in every control
    record.
    """
    record = Record(base_offset, timestamp, _KEY.pack(0, kind), _VALUE_VERSION.pack(0) + value)
    return write_batch([record], control=True)


def read_control(record: Record, *, edition: str = "4.3") -> ControlRecord:
    """Read a record of a control batch; what the numbers stand for depends on the edition.

    Raises: CorruptRecords or Truncated for a key or a marker that is too short or of a negative version.
    """
    version, number = _unpacked(_KEY, record.key, "key")
    value = record.value
    if number not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlRecord(_type(number, edition), version, None, value)
    _, epoch = _unpacked(_MARKER, value, "value")
    return ControlRecord(ControlType(number), version, epoch, value)


def _type(number: int, edition: str) -> ControlType | ShareControlType | int:
    kinds: tuple[type[ControlType | ShareControlType], ...] = (ControlType,)
    if edition == SHARE_CONTROL_EDITION:
        kinds = (ShareControlType, ControlType)
    return next((kind(number) for kind in kinds if number in kind._value2member_map_), number)


def _unpacked(shape: struct.Struct, data: bytes | None, what: str) -> tuple[int, int]:
    """Version and number; a later version may append to them, so bytes behind are no error."""
    path = f"control.{what}"
    if data is None:
        raise corrupt("is null", path=path)
    if len(data) < shape.size:
        raise Truncated(path, 0, shape.size, len(data))
    version, number = shape.unpack_from(data)
    if version < 0:
        raise corrupt(f"version {version}", 0, path)
    return version, number
