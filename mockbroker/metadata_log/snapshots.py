"""Snapshots of the metadata log: files `<end offset>-<epoch>.checkpoint`. Source: Kafka's Snapshots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kwire.errors import WireError
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.metadata_record import MetadataRecord
from kwire.records import Batch, read_batches
from mockbroker.log_directory.formats.damage import DamagedFileError
from mockbroker.metadata_log.batches import (
    LogMessage,
    Quorum,
    quorum_messages,
    read_messages,
    write_control,
    write_records,
)
from mockbroker.metadata_log.tables import MetadataLogError

#: Records of one batch.
_BATCH_RECORDS = 1_000
SNAPSHOT_SUFFIX = ".checkpoint"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """The offset behind the last record that a snapshot contains, and the epoch of that record."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The name of the file."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class Snapshot(NamedTuple):
    """What a file contains. messages: those of the cluster's state. problem: the damage behind them, or None."""

    messages: list[LogMessage]
    kraft_version: int
    timestamp: int
    problem: DamagedFileError | None


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """The snapshot of a file, None for a name that is not of a snapshot."""
    found = _NAME.fullmatch(name)
    return None if found is None else SnapshotId(int(found[1]), int(found[2]))


def write_snapshot(
    records: Sequence[MetadataRecord], quorum: Quorum, *, epoch: int, last_timestamp: int, timestamp: int
) -> bytes:
    """The file of a snapshot. last_timestamp: of the last record of the log that it contains, milliseconds."""
    header = [SnapshotHeaderRecord(0, last_timestamp), *quorum_messages(quorum)]
    parts = [write_control(header, base_offset=0, epoch=epoch, timestamp=timestamp)]
    offset = len(header)
    for start in range(0, len(records), _BATCH_RECORDS):
        batch = records[start : start + _BATCH_RECORDS]
        parts.append(write_records(batch, base_offset=offset, epoch=epoch, timestamp=timestamp))
        offset += len(batch)
    parts.append(write_control([SnapshotFooterRecord(0)], base_offset=offset, epoch=epoch, timestamp=timestamp))
    return b"".join(parts)


def read_snapshot(data: bytes, name: str) -> Snapshot:
    """The records of a file, as far as they can be read.

    Raises: MetadataLogError for records that this release does not read.
    """
    messages: list[LogMessage] = []
    position, next_offset, kraft_version, timestamp, is_complete = 0, 0, 0, 0, False
    problem = None
    try:
        for batch in read_batches(data):
            if batch.base_offset != next_offset:
                raise DamagedFileError(name, position, f"a batch at offset {batch.base_offset}; expected {next_offset}")
            next_offset = batch.last_offset + 1
            for message in _read_batch(batch, name):
                match message.message:
                    case SnapshotHeaderRecord(last_contained_log_timestamp=last_ms):
                        timestamp = last_ms
                    case KRaftVersionRecord(k_raft_version=level):
                        kraft_version = level
                    case SnapshotFooterRecord():
                        is_complete = True
                    case _ if not batch.is_control:
                        messages.append(message)
            position += batch.size
        if not is_complete:
            problem = DamagedFileError(name, position, "the snapshot has no end")
    except WireError as error:
        problem = DamagedFileError(name, position, f"no valid batch: {error}")
    except DamagedFileError as error:
        problem = error
    return Snapshot(messages, kraft_version, timestamp, problem)


def _read_batch(batch: Batch, name: str) -> list[LogMessage]:
    try:
        return list(read_messages(batch))
    except MetadataLogError as error:
        raise MetadataLogError(f"{name}: {error}") from error
