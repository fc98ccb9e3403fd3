"""Writes the segments that the log cleaner has compacted: `.cleaned` while they are written, `.swap` when complete.

After a crash a `.swap` file is used instead of the segments that it replaces. Source: Kafka's Cleaner.cleanSegments and
LocalLog.replaceSegments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mockbroker.disk_storage.packed_indexes import PackedIndexes
from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.disk_storage.segment_log import SegmentLog
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
                folders.remove(segment.name(suffix) + names.CLEANED)
                folders.remove(segment.name(suffix) + names.SWAP)
        raise
    return written


def finish_swap(folders: ReplicaFolders, segments: Iterable[SegmentLog]) -> None:
    """Use the segments instead of those that have been removed. Raises: OSError."""
    for segment in segments:
        _rename(folders, segment, names.SWAP, "")


def _write_log(folders: ReplicaFolders, segment: SegmentLog, meta: LogSegment, batches: Iterable[StoredBatch]) -> None:
    name = segment.name(names.LOG) + names.CLEANED
    folders.remove(name)
    folders.create_file(name)
    packed, pending = segment.load_indexes(), bytearray()
    for batch in batches:
        packed.add_batch(meta.size, batch.size, batch.last_offset, batch.max_timestamp)
        meta.add_batch(batch.size, batch.max_timestamp)
        pending += batch.raw
        if len(pending) >= _WRITE_SIZE:
            folders.open_files.find_file(folders.path(name)).append(pending)
            pending = bytearray()
    file = folders.open_files.find_file(folders.path(name))
    file.append(pending)
    file.sync()


def _rename(folders: ReplicaFolders, segment: SegmentLog, old: str, new: str) -> None:
    for suffix in _SUFFIXES:
        if suffix != names.TRANSACTION_INDEX or folders.exists(segment.name(suffix) + old):
            folders.rename(segment.name(suffix) + old, segment.name(suffix) + new)
