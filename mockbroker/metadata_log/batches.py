"""Record batches of the metadata log: records of the cluster's state, and the control records of KRaft.

Source: BatchAccumulator, RecordsSnapshotWriter and MemoryRecordsBuilder of Kafka 4.4.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from kwire import decode, encode, uuids
from kwire.errors import WireError
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.messages.leader_change_message import Voter as LeaderVoter
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.messages.voters_record import KRaftVersionFeature, Voter, VotersRecord
from kwire.metadata_record import MetadataRecord, decode_metadata_record, encode_metadata_record
from kwire.records import Batch, Record, write_batch
from kwire.records.control import ControlType, read_control
from mockbroker.metadata_log.tables import MetadataLogError

#: From this level of kraft.version on the log has the voters, with their directories.
_VOTERS_IN_LOG = 1
_TYPES: dict[type[msgspec.Struct], ControlType] = {
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    VotersRecord: ControlType.KRAFT_VOTERS,
}
_CLASSES = {number: cls for cls, number in _TYPES.items()}
#: An old version of the LeaderChangeMessage, which has no directories.
_NO_DIRECTORIES = 0


class Quorum(NamedTuple):
    """The only voter of the metadata quorum. directory_id: 16 bytes. kraft_version: the level of the feature."""

    node_id: int
    directory_id: bytes
    kraft_version: int


class LogMessage(NamedTuple):
    """A message with its offset; control records have other types than those of the cluster's state."""

    offset: int
    message: msgspec.Struct


def write_records(records: Sequence[MetadataRecord], *, base_offset: int, epoch: int, timestamp: int) -> bytes:
    """One batch of records. Raises: WireError for a record that cannot be encoded in its version."""
    values = [encode_metadata_record(record.message, record.version) for record in records]
    made = [Record(offset, timestamp, None, value) for offset, value in enumerate(values, base_offset)]
    return write_batch(made, base_offset=base_offset, partition_leader_epoch=epoch)


def write_control(
    messages: Sequence[msgspec.Struct], *, base_offset: int, epoch: int, timestamp: int, version: int = 0
) -> bytes:
    """One batch of control records, whose values are messages of a version."""
    made = []
    for offset, message in enumerate(messages, base_offset):
        key = bytes((0, 0)) + int(_TYPES[type(message)]).to_bytes(2, "big")
        made.append(Record(offset, timestamp, key, encode(message, version)))
    return write_batch(made, base_offset=base_offset, partition_leader_epoch=epoch, control=True)


def write_leader_change(quorum: Quorum, *, base_offset: int, epoch: int, timestamp: int) -> bytes:
    """The first batch of an epoch: the voter has elected itself."""
    version = 1 if quorum.kraft_version >= _VOTERS_IN_LOG else _NO_DIRECTORIES
    voter = LeaderVoter(quorum.node_id, quorum.directory_id if version else uuids.ZERO)
    message = LeaderChangeMessage(version, quorum.node_id, [voter], [voter])
    return write_control([message], base_offset=base_offset, epoch=epoch, timestamp=timestamp, version=version)


def quorum_messages(quorum: Quorum) -> list[msgspec.Struct]:
    """The level of kraft.version and the voters, where the log has them. The voter has no socket of its own."""
    if quorum.kraft_version < _VOTERS_IN_LOG:
        return []
    voter = Voter(quorum.node_id, quorum.directory_id, [], KRaftVersionFeature(0, quorum.kraft_version))
    return [KRaftVersionRecord(0, quorum.kraft_version), VotersRecord(0, [voter])]


def read_messages(batch: Batch) -> Iterator[LogMessage]:
    """The messages of a batch whose checksum is right.

    Raises: MetadataLogError for what this release does not read, with the offset of the record.
    """
    try:
        for record in batch.records():
            yield LogMessage(record.offset, _read_message(record, is_control=batch.is_control))
    except WireError as error:
        raise MetadataLogError(f"offset {batch.base_offset} to {batch.last_offset}: {error}") from error


def _read_message(record: Record, *, is_control: bool) -> msgspec.Struct:
    if not is_control:
        return decode_metadata_record(record.value or b"").message
    control = read_control(record)
    cls = next((cls for kind, cls in _CLASSES.items() if kind == control.type), None)
    if cls is None:
        raise MetadataLogError(f"offset {record.offset}: a control record of type {int(control.type)}")
    value = control.value or b""
    # The first field of each of these messages is its version.
    return decode(cls.__name__, int.from_bytes(value[:2], "big"), value)
