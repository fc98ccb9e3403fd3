"""`SegmentLog`: one segment of a log on disk: its batches, and its indexes in memory or in their files."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Sequence

from kwire.error_codes import ErrorCode
from kwire.records.batch import HEADER_SIZE, PREFIX_SIZE
from mockbroker.disk_storage.packed_indexes import PackedIndexes, are_in_order
from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.file_layer import Data, OpenFile
from mockbroker.log_directory.formats import indexes, names
from mockbroker.log_directory.formats.indexes import OffsetEntry
from mockbroker.state.storage.batch_index import BatchIndex
from mockbroker.state.storage.producers import AbortedTransaction
from mockbroker.state.storage.segments import LogSegment
from mockbroker.state.storage.stored_batch import StoredBatch

#: Bytes that are read at once to find batches; more if a batch is larger.
_WINDOW = 1 << 20
_MAGIC = 2
#: Bytes between entries of an index that is built again, if they are not known. Source: `index.interval.bytes`.
_INDEX_INTERVAL = 4096
#: Base offset, length, leader epoch, magic, last offset delta and largest timestamp, in the header of a batch.
_INDEXED_FIELDS = struct.Struct(">qiib6xi8xq")


class SegmentLog:
    """The files of one segment. meta: its size and times. indexes: None while they are only in their files.

    The files are read and written by `folders`; what is appended is in the file when `append` returns. A suffix behind
    their names shows that they have not replaced others yet.
    """

    def __init__(self, folders: ReplicaFolders, meta: LogSegment, packed: PackedIndexes | None) -> None:
        self.meta = meta
        self.indexes = packed
        self._interval = _INDEX_INTERVAL if packed is None else packed.interval
        self.is_unsynced = False
        # Bytes before this are on the disk; after a failed sync those behind have to be written again.
        self._synced_size = 0
        self._has_failed_sync = False
        self._folders = folders
        self._first_folder = self._path = self._suffix = ""
        self._is_removed = False

    @property
    def base_offset(self) -> int:
        """The offset where it begins."""
        return self.meta.base_offset

    def name(self, suffix: str) -> str:
        """The name of one of its files."""
        return names.file_name(self.meta.base_offset, suffix)

    def file_names(self, *, is_replaced: bool = False) -> list[str]:
        """All of its files. is_replaced: by a segment that begins at the same offset, and keeps the snapshot."""
        suffixes = (names.LOG, *names.INDEXES, *(() if is_replaced else (names.SNAPSHOT,)))
        return [self.name(suffix) for suffix in suffixes]

    def set_suffix(self, suffix: str) -> None:
        """Its files have other names now."""
        self._suffix, self._first_folder = suffix, ""

    def append(self, data: Data, *, last_offset: int, max_timestamp: int) -> int:
        """Append a batch to the file; returns its position. Raises: OSError, and then nothing has changed."""
        file, position = self._open_log(), self.meta.size
        if file.size != position:
            file.truncate(position)  # What is left of an append that failed, and could not be cut then.
        file.append(data)
        self.is_unsynced = True
        self.load_indexes().add_batch(position, len(data), last_offset, max_timestamp)
        self.meta.add_batch(len(data), max_timestamp)
        return position

    def load_indexes(self) -> PackedIndexes:
        """The indexes, read from their files if they are not in memory, which they stay. Raises: OSError."""
        if self.indexes is None:
            offsets, times = (
                self._folders.files.read_file(self._folders.path(self.name(suffix) + self._suffix)) or b""
                for suffix in (names.OFFSET_INDEX, names.TIME_INDEX)
            )
            if are_in_order(offsets, times):
                self.indexes = PackedIndexes(self.base_offset, self._interval, offsets, times)
            else:
                self._rebuild_indexes()
        assert self.indexes is not None
        return self.indexes

    def find_position(self, offset: int) -> int:
        """A position at or before the batch that contains an offset. Raises: OSError, KAFKA_STORAGE_ERROR."""
        entry = self.load_indexes().find_entry(offset)
        if entry is None:
            return 0
        if not self._has_batch(entry):
            self._rebuild_indexes()
            entry = self.load_indexes().find_entry(offset)
        return 0 if entry is None else entry.position

    def _has_batch(self, entry: OffsetEntry) -> bool:
        """Whether the batch that an entry of the offset index names is there."""
        if not 0 <= entry.position <= self.meta.size - HEADER_SIZE:
            return False
        try:
            batch = FileWindow(self, entry.position, HEADER_SIZE).batch_at(entry.position)
        except KafkaError:
            return False
        return batch is not None and batch.last_offset == entry.offset

    def _rebuild_indexes(self) -> None:
        """Build the offset index and the time index from the log, in memory and in their files.

        Raises: OSError, KAFKA_STORAGE_ERROR.
        """
        self._folders.report(f"{self._folders.path(self.name(names.OFFSET_INDEX))}: damaged, built again")
        packed = PackedIndexes(self.base_offset, self._interval)
        for batch in self.scan(0):
            packed.add_batch(batch.at, batch.size, batch.last_offset, batch.max_timestamp)
        self.indexes = packed
        self.write_offset_indexes(self._suffix)

    def read(self, position: int, size: int) -> memoryview:
        """Bytes of the log file. Raises: KAFKA_STORAGE_ERROR."""
        if self._is_removed:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name(names.LOG)} has been removed")
        try:
            data = self._open_log().read(position, size)
            if len(data) < size:
                raise OSError(errno.EIO, f"{len(data)} bytes at {position}, not {size}", self.name(names.LOG))
        except OSError as error:
            raise storage_error(error) from error
        return memoryview(data)

    def __getitem__(self, span: slice) -> memoryview:
        """The bytes from one position of the file up to, not including, another. Raises: KAFKA_STORAGE_ERROR."""
        return self.read(span.start, span.stop - span.start)

    def drop_cached(self) -> None:
        """Have the indexes in their files only."""
        self.indexes = None

    def scan(
        self, position: int, *, window_size: int = _WINDOW, end_offset: int | None = None
    ) -> Iterator[StoredBatch]:
        """The batches from a position on, with their bytes, as far as they are not larger than a window.

        end_offset: of the segment, if it is known. Raises: KAFKA_STORAGE_ERROR, also for offsets that do not increase
        or are behind the end: no checksum covers them.
        """
        next_offset = self.base_offset
        while position < self.meta.size:
            window = FileWindow(self, position, min(window_size, self.meta.size - position))
            while (batch := window.batch_at(position)) is not None:
                is_behind = end_offset is not None and batch.last_offset >= end_offset
                if batch.base_offset < next_offset or is_behind:
                    raise window.invalid_batch(position)
                next_offset = batch.last_offset + 1
                yield batch
                position += batch.size

    def truncate_to(self, position: int, offset: int) -> None:
        """Cut the log file at a batch that begins at an offset, and adapt indexes, size and times. Raises: OSError."""
        packed = self.load_indexes()
        self._open_log().truncate(position)
        self.is_unsynced = True
        self._synced_size = min(self._synced_size, position)
        packed.truncate_to(position, offset)
        self.meta.size = position
        last, last_time = packed.last_indexed, packed.last_time
        if not position:
            self.meta.first_timestamp = -1
        self.meta.max_timestamp = -1 if last_time is None else last_time.timestamp
        for batch in self.scan(0 if last is None else last.position):
            packed.add_batch(batch.at, batch.size, batch.last_offset, batch.max_timestamp)
            self.meta.max_timestamp = max(self.meta.max_timestamp, batch.max_timestamp)

    def write_indexes(self, aborted: Sequence[AbortedTransaction], suffix: str = "") -> None:
        """Write the index files, with the aborted transactions whose markers are in this segment, if there are any.

        suffix: of files that replace others later. Raises: OSError.
        """
        self.write_offset_indexes(suffix)
        self.write_transactions(aborted, suffix)

    def write_transactions(self, aborted: Sequence[AbortedTransaction], suffix: str = "") -> None:
        """Write the transaction index, as `write_indexes`. Raises: OSError."""
        transactions = self.name(names.TRANSACTION_INDEX) + suffix
        if aborted:
            self._folders.write_file(transactions, indexes.write_transaction_index(aborted))
        else:
            self._folders.remove(transactions)

    def write_offset_indexes(self, suffix: str = "") -> None:
        """Write the offset index and the time index. suffix: as of `write_indexes`. Raises: OSError."""
        packed = self.load_indexes()
        packed.add_newest_time()
        self._folders.write_file(self.name(names.OFFSET_INDEX) + suffix, packed.offsets)
        self._folders.write_file(self.name(names.TIME_INDEX) + suffix, packed.times)

    def sync(self) -> None:
        """Return when the log file is on the disk. Raises: OSError."""
        if not self.is_unsynced:
            return
        file = self._open_log()
        if self._has_failed_sync:
            file.rewrite(self._synced_size)
        self._has_failed_sync = True
        file.sync()
        self._has_failed_sync = self.is_unsynced = False
        self._synced_size = self.meta.size

    def mark_unwritten(self, offset: int) -> None:
        """Batches from an offset on may not be on the disk: they are written again before the next sync."""
        self.is_unsynced = self._has_failed_sync = True
        self._synced_size = 0 if offset <= self.base_offset else self.load_indexes().find_position(offset)

    def sync_indexes(self) -> None:
        """Return when the index files, and the snapshot at the beginning, are on the disk. Raises: OSError."""
        present = self._folders.files.list_names(self._folders.first)
        for suffix in (*names.INDEXES, names.SNAPSHOT):
            if self.name(suffix) in present:
                path = self._folders.path(self.name(suffix))
                self._folders.open_files.find_file(path).sync()
                self._folders.open_files.close_file(path)

    def sync_name(self) -> None:
        """Have its name on the disk: if it is empty, its name is the end of the log. Raises: OSError."""
        if self.meta.size:
            return
        self._open_log().sync()
        for folder in self._folders.folders:
            self._folders.files.sync_folder(folder)

    def mark_removed(self) -> None:
        """Its files are not used any more."""
        self._is_removed = True

    def _open_log(self) -> OpenFile:
        first = self._folders.first
        if first is not self._first_folder:
            # Not for each append: reassigned replicas have another first folder.
            self._first_folder, self._path = first, self._folders.path(self.name(names.LOG) + self._suffix)
        return self._folders.open_files.find_file(self._path)


class FileWindow:
    """A part of a segment that is in memory; other parts are read from the file."""

    __slots__ = ("_data", "_segment", "_start")

    def __init__(self, segment: SegmentLog, start: int, size: int) -> None:
        self._segment = segment
        self._start = start
        self._data = segment.read(start, size)

    def __getitem__(self, span: slice) -> memoryview:
        """The bytes from one position of the file up to, not including, another. Raises: KAFKA_STORAGE_ERROR."""
        first, end = span.start - self._start, span.stop - self._start
        if first >= 0 and end <= len(self._data):
            return self._data[first:end]
        return self._segment.read(span.start, span.stop - span.start)

    def add_batches(self, position: int, end: int, index: BatchIndex) -> int:
        """Add the batches whose headers are in the window, up to the one that ends behind `end`.

        Returns: the position behind the last one. Raises: KAFKA_STORAGE_ERROR for what is no batch.
        """
        data, unpack, add = self._data, _INDEXED_FIELDS.unpack_from, index.append
        shift, limit = self._start, self._start + len(data) - HEADER_SIZE
        file_end = self._segment.meta.size
        if position > limit:
            raise self.invalid_batch(position)
        while position <= limit and position <= end:
            base_offset, length, epoch, magic, last_delta, max_timestamp = unpack(data, position - shift)
            size = length + PREFIX_SIZE
            if size < HEADER_SIZE or last_delta < 0 or magic != _MAGIC or position + size > file_end:
                raise self.invalid_batch(position)
            add(StoredBatch(base_offset, base_offset + last_delta, size, self, position, max_timestamp, epoch))
            position += size
        return position

    def batch_at(self, position: int) -> StoredBatch | None:
        """The batch at a position; None if it is not in the window as a whole, unless it is the first one.

        Raises: KAFKA_STORAGE_ERROR for what is no batch.
        """
        at = position - self._start
        if at + HEADER_SIZE > len(self._data) and at:
            return None
        if at + HEADER_SIZE > len(self._data):
            raise self.invalid_batch(position)
        base_offset, length, epoch, magic, last_delta, max_timestamp = _INDEXED_FIELDS.unpack_from(self._data, at)
        size = length + PREFIX_SIZE
        if at + size > len(self._data) and at:
            return None
        if size < HEADER_SIZE or last_delta < 0 or magic != _MAGIC or position + size > self._segment.meta.size:
            raise self.invalid_batch(position)
        return StoredBatch(base_offset, base_offset + last_delta, size, self, position, max_timestamp, epoch)

    def invalid_batch(self, position: int) -> KafkaError:
        """The error for what is no batch."""
        where = f"{self._segment.name(names.LOG)}, byte {position}"
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{where}: no valid batch")


def storage_error(error: OSError) -> KafkaError:
    """The error that clients get when a file cannot be read or written."""
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{error.filename or 'a log file'}: {error.strerror or error}")
