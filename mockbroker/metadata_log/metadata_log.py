"""`MetadataLog`: the log `__cluster_metadata-0` of a cluster in files, and its snapshots, in Kafka's format.

The folder is that of the first node, the only voter of the quorum. A change of the cluster is one batch, so that it is
in the log as a whole or not at all. A snapshot replaces the segments before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from kwire.metadata_record import MetadataRecord
from kwire.records.metadata.abort_transaction_record import AbortTransactionRecord
from mockbroker.log_directory.file_layer import FileLayer, OpenFile
from mockbroker.log_directory.formats.checkpoints import LEADER_EPOCHS, write_leader_epochs
from mockbroker.log_directory.formats.names import LOG, file_name, parse_file_name
from mockbroker.log_directory.formats.properties import PARTITION_METADATA, write_partition_metadata
from mockbroker.metadata_log.batches import (
    Quorum,
    quorum_messages,
    write_control,
    write_leader_change,
    write_records,
)
from mockbroker.metadata_log.image import MetadataImage
from mockbroker.metadata_log.recovery import CLEAN_END, load_log
from mockbroker.metadata_log.snapshots import SnapshotId, parse_snapshot_name, write_snapshot

FOLDER = "__cluster_metadata-0"
#: The id of the topic `__cluster_metadata`. Source: Kafka's Uuid.METADATA_TOPIC_ID.
TOPIC_ID = bytes(15) + b"\x01"
#: A snapshot is written when the log behind the last one has so many bytes, and twice as many as that snapshot.
SNAPSHOT_AFTER_BYTES = 1 << 20
_SNAPSHOT_FACTOR = 2
#: At a clean end a snapshot is written for a log of so many bytes, so that the next start need not read it.
_SNAPSHOT_AT_END_BYTES = 64 << 10


class MetadataLog:
    """An open metadata log. All methods that write raise OSError; then the log is as before.

    image: the records of the log. end_offset: of the next record. epoch: that of this process, once it has been
    started. fsync: a write returns when it is on the disk. snapshot_after: the most bytes of the log between two
    snapshots. checks_end: the mark of the last clean end holds still. report: is called with a line for everything that
    was mended.
    Raises: as `load_log`.
    """

    def __init__(
        self,
        files: FileLayer,
        node_folder: str,
        *,
        fsync: bool = False,
        repair: bool = False,
        checks_end: bool = True,
        snapshot_after: int = SNAPSHOT_AFTER_BYTES,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._files = files
        self._folder = f"{node_folder}/{FOLDER}"
        self._fsync = fsync
        self._snapshot_after = min(snapshot_after, SNAPSHOT_AFTER_BYTES)
        files.create_folder(self._folder)
        if not checks_end:
            files.remove(self._path(CLEAN_END))
        loaded = load_log(files, self._folder, repair=repair, report=report)
        self.is_new = loaded.end_offset == 0
        self.image: MetadataImage = loaded.image
        self.end_offset = loaded.end_offset
        self.kraft_version = loaded.kraft_version
        self.epoch = loaded.epoch
        self._epochs = loaded.epochs
        self._timestamp = loaded.timestamp
        self._snapshot_size = loaded.snapshot_size
        self._log_bytes = loaded.log_bytes
        base = loaded.segments[-1] if loaded.segments else loaded.end_offset
        self._file: OpenFile = files.open_file(self._path(file_name(base, LOG)))
        self._size = self._file.size
        self._quorum: Quorum | None = None

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def start_epoch(self, quorum: Quorum, *, now_ms: int) -> None:
        """Begin the next epoch, in which this process leads the quorum. now_ms: of the cluster's clock."""
        epoch, offset = self.epoch + 1, self.end_offset
        data = write_leader_change(quorum, base_offset=offset, epoch=epoch, timestamp=now_ms)
        count = 1
        if self.image.has_open_transaction:
            record = MetadataRecord(AbortTransactionRecord("the controller has ended"), 0)
            data += write_records([record], base_offset=offset + count, epoch=epoch, timestamp=now_ms)
            count += 1
        self._files.remove(self._path(CLEAN_END))
        self._files.write_file(self._path(PARTITION_METADATA), write_partition_metadata(TOPIC_ID))
        self._append(data, count, now_ms)
        if self.image.has_open_transaction:
            self.image.apply(AbortTransactionRecord())
        self.epoch, self._quorum = epoch, quorum
        self._epochs.append((epoch, offset))
        self._write_epochs()

    @property
    def has_started(self) -> bool:
        """Whether this process has begun its epoch."""
        return self._quorum is not None

    def append(self, records: Sequence[MetadataRecord], *, now_ms: int) -> None:
        """Write records as one batch, and apply them to the image."""
        data = write_records(records, base_offset=self.end_offset, epoch=self.epoch, timestamp=now_ms)
        self._append(data, len(records), now_ms)
        for record in records:
            self.image.apply(record.message)

    def set_kraft_version(self, level: int, *, now_ms: int) -> None:
        """Write another level of kraft.version, with the voters, unless it is the present one."""
        if level == self.kraft_version:
            return
        assert self._quorum is not None
        quorum = self._quorum._replace(kraft_version=level)
        messages = quorum_messages(quorum)
        if messages:
            data = write_control(messages, base_offset=self.end_offset, epoch=self.epoch, timestamp=now_ms)
            self._append(data, len(messages), now_ms)
        self._quorum, self.kraft_version = quorum, level

    @property
    def needs_snapshot(self) -> bool:
        """Whether the log behind the last snapshot is long."""
        return self._log_bytes >= max(self._snapshot_after, _SNAPSHOT_FACTOR * self._snapshot_size)

    @property
    def needs_snapshot_at_end(self) -> bool:
        """Whether the next start should not have to read the log."""
        return self._log_bytes >= min(self._snapshot_after, _SNAPSHOT_AT_END_BYTES)

    def postpone_snapshot(self) -> None:
        """A snapshot could not be written: the next attempt is made when the log has grown as much again."""
        self._log_bytes = 0

    def write_snapshot(self, records: Sequence[MetadataRecord], *, now_ms: int) -> None:
        """Write what the log leads to, begin a new segment, and delete what is before it."""
        assert self._quorum is not None
        snapshot = SnapshotId(self.end_offset, self.epoch)
        data = write_snapshot(records, self._quorum, epoch=self.epoch, last_timestamp=self._timestamp, timestamp=now_ms)
        self._files.write_file(self._path(snapshot.file_name), data, sync=True)
        file = self._files.open_file(self._path(file_name(self.end_offset, LOG)))
        if self._fsync:
            self._files.sync_folder(self._folder)
        self._file.close()
        self._file, self._size = file, file.size
        self._snapshot_size, self._log_bytes = len(data), 0
        self._delete_before(snapshot)
        self._epochs = [(self.epoch, self.end_offset)]
        self._write_epochs()

    def sync(self) -> None:
        """Return when everything is on the disk."""
        self._file.sync()

    def mark_end(self) -> None:
        """Write where the log ends, at a clean end."""
        self._files.write_file(self._path(CLEAN_END), b"%d" % self.end_offset)

    def close(self) -> None:
        """Close the file; closing twice is no error."""
        self._file.close()

    def _append(self, data: bytes, count: int, now_ms: int) -> None:
        if self._file.size != self._size:
            self._file.truncate(self._size)  # What is left of a write that failed, and could not be cut then.
        self._file.append(data)
        if self._fsync:
            try:
                self._file.sync()
            except OSError:
                with suppress(OSError):
                    self._file.truncate(self._size)
                raise
        self._size += len(data)
        self.end_offset += count
        self._timestamp = now_ms
        self._log_bytes += len(data)

    def _delete_before(self, snapshot: SnapshotId) -> None:
        for name in self._files.list_names(self._folder):
            segment, other = parse_file_name(name), parse_snapshot_name(name)
            is_old = segment is not None and segment[0] < snapshot.end_offset
            if is_old or (other is not None and other < snapshot):
                self._files.remove(self._path(name))

    def _write_epochs(self) -> None:
        self._files.write_file(self._path(LEADER_EPOCHS), write_leader_epochs(self._epochs))
