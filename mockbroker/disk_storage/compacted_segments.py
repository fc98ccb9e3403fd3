"""Writes the segments that the log cleaner has compacted: `.cleaned` while they are written, `.swap` when complete.

After a crash, and while it cannot be renamed, a `.swap` file is used instead of the segments that it replaces.
Source: Kafka's Cleaner.cleanSegments and LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.records import parse_header
from mockbroker.disk_storage.packed_indexes import PackedIndexes
from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.disk_storage.segment_log import SegmentLog
from mockbroker.kafka_error import KafkaError
from mockbroker.log_directory.formats import names
from mockbroker.state.storage.batches.batch_storage import CleanedSegment
from mockbroker.state.storage.producers import AbortedTransaction
from mockbroker.state.storage.segments import LogSegment
from mockbroker.state.storage.stored_batch import StoredBatch

_SUFFIXES = (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX, names.LOG)
_WRITE_SIZE = 1 << 20


def write_compacted(
    folders: ReplicaFolders, cleaned: Iterable[CleanedSegment], aborted: Sequence[AbortedTransaction], interval: int
) -> list[SegmentLog]:
    """Write the segments, synced, up to `.swap`; the ones that they replace are in use still.

    aborted: filled while the batches are read. interval: the bytes between entries of an index.
    Raises: OSError, KAFKA_STORAGE_ERROR; then nothing is left of them.
    """
    _remove_incomplete(folders)
    written: list[SegmentLog] = []
    try:
        for meta, batches in cleaned:
            written.append(SegmentLog(folders, meta, PackedIndexes(meta.base_offset, interval)))
            first = len(aborted)
            _write_log(folders, written[-1], meta, batches)
            written[-1].write_indexes(aborted[first:], names.CLEANED)
        for segment in written:
            _rename(folders, segment, names.CLEANED, names.SWAP)
    except BaseException:
        for segment in written:
            for suffix in _SUFFIXES:
                with suppress(OSError):  # What is left is removed by the next compaction, or at the next start.
                    folders.remove(segment.name(suffix) + names.SWAP)
                    folders.remove(segment.name(suffix) + names.CLEANED)
        raise
    for segment in written:
        segment.set_suffix(names.SWAP)
    return written


class Swap(msgspec.Struct):
    """Segments that are used instead of others, and the names of files of those that are not renamed yet."""

    segments: list[SegmentLog]
    replaced_names: list[str]

    def finish(self, folders: ReplicaFolders, remove_file: Callable[[str], None]) -> None:
        """Give the segments their names. Raises: OSError; it can be called again then.

        remove_file: renames a file of a replaced segment, which is removed later.
        """
        while self.replaced_names:
            remove_file(self.replaced_names[-1])
            self.replaced_names.pop()
        while self.segments:
            _rename(folders, self.segments[-1], names.SWAP, "")
            self.segments.pop().set_suffix("")


def _remove_incomplete(folders: ReplicaFolders) -> None:
    """Remove what a compaction that failed has left. Raises: OSError."""
    for name in folders.files.list_names(folders.first):
        if name.endswith((names.SWAP, names.CLEANED)):
            folders.remove(name)


def _write_log(folders: ReplicaFolders, segment: SegmentLog, meta: LogSegment, batches: Iterable[StoredBatch]) -> None:
    name = segment.name(names.LOG) + names.CLEANED
    folders.remove(name)
    folders.create_file(name)
    packed, pending, next_offset = segment.load_indexes(), bytearray(), meta.base_offset
    for batch in batches:
        raw = batch.raw  # Read once: another time its bytes may be others.
        _check_batch(batch, raw, folders.path(name), next_offset)
        next_offset = batch.last_offset + 1
        packed.add_batch(meta.size, batch.size, batch.last_offset, batch.max_timestamp)
        meta.add_batch(batch.size, batch.max_timestamp)
        pending += raw
        if len(pending) >= _WRITE_SIZE:
            folders.open_files.find_file(folders.path(name)).append(pending)
            pending = bytearray()
    file = folders.open_files.find_file(folders.path(name))
    file.append(pending)
    file.sync()


def _check_batch(batch: StoredBatch, raw: memoryview, path: str, next_offset: int) -> None:
    """A batch that was not read as it was written must not replace the one in the file.

    raw: its bytes; their offset and leader epoch, which are in no checksum, must be those of the batch. next_offset:
    behind the batch before. Raises: KAFKA_STORAGE_ERROR.
    """
    problem = None if batch.base_offset >= next_offset else f"it is behind offset {next_offset - 1}"
    try:
        header = parse_header(raw)
        header.check_crc()
        if (header.base_offset, header.partition_leader_epoch) != (batch.base_offset, batch.leader_epoch):
            problem = f"it has offset {header.base_offset} and leader epoch {header.partition_leader_epoch} now"
    except WireError as error:
        problem = str(error)
    if problem is not None:
        text = f"{path}: not compacted, the batch with offset {batch.base_offset} is damaged: {problem}"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)


def _rename(folders: ReplicaFolders, segment: SegmentLog, old: str, new: str) -> None:
    for suffix in _SUFFIXES:
        # There may be no aborted transactions, and an attempt before may have failed at the next file.
        if folders.exists(segment.name(suffix) + old):
            folders.rename(segment.name(suffix) + old, segment.name(suffix) + new)
