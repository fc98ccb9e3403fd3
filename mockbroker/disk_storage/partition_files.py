"""`PartitionFiles`: the batches of a log in the files of a partition, as the interface `BatchStorage` says.

Source: Kafka's UnifiedLog, LocalLog and LogSegments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kwire.records import patch_offset_and_epoch
from mockbroker.disk_storage.compacted_segments import Swap, write_compacted
from mockbroker.disk_storage.log_views import LogViews
from mockbroker.disk_storage.packed_indexes import PackedIndexes
from mockbroker.disk_storage.partition_identity import PartitionIdentity
from mockbroker.disk_storage.producer_files import ProducerFiles
from mockbroker.disk_storage.repeatable_batches import RepeatableBatches
from mockbroker.disk_storage.replica_folders import ReplicaFolders
from mockbroker.disk_storage.segment_log import SegmentLog, storage_error
from mockbroker.disk_storage.storage_services import StorageServices
from mockbroker.log_directory.formats import checkpoints, names
from mockbroker.state.storage.batch_index import BatchIndex
from mockbroker.state.storage.batches.batch_storage import CleanedSegment, Data
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.producers import AbortedTransaction, ProducerStates
from mockbroker.state.storage.segments import LogSegments, RollRules
from mockbroker.state.storage.stored_batch import NewBatch, StoredBatch

#: Offsets in index files are relative to the base offset, in 32 bits.
_RELATIVE_OFFSET_MAX = (1 << 31) - 1
#: After so many bytes the indexes of the active segment are written, so that less is read again after a kill.
_MARK_INTERVAL = 32 << 20
#: Enough for the header of a batch.
_HEADER_WINDOW = 64


class PartitionFiles:
    """The files of one partition.

    segment_logs: as loaded, in order. services: of the cluster. end_offset: of the log. on_removed: called when the
    topic is deleted, with the folders still there. indexed_end: the transaction indexes have what is below.
    """

    def __init__(
        self,
        identity: PartitionIdentity,
        folders: ReplicaFolders,
        services: StorageServices,
        segment_logs: Sequence[SegmentLog] = (),
        *,
        end_offset: int = 0,
    ) -> None:
        self.identity = identity
        self.folders = folders
        self.on_removed: Callable[[], None] = lambda: None
        self.segments = LogSegments()
        self.segments.replace_first(0, [segment.meta for segment in segment_logs])
        self.flushed_offset = segment_logs[-1].base_offset if segment_logs else 0
        self.indexed_end = 0
        self.producer_files = ProducerFiles(folders, services.report)
        self._services = services
        self._logs = list(segment_logs)
        self._views = LogViews(services.cache, end_offset)
        self._log: PartitionLog | None = None
        self._loaded_end = end_offset
        self._swap: Swap | None = None
        # The first segments that were dropped, and whose files are still there.
        self._dropped: list[SegmentLog] = []
        self._marked_size = segment_logs[-1].meta.size if segment_logs else 0

    @property
    def log(self) -> PartitionLog:
        """The log that these are the files of."""
        assert self._log is not None
        return self._log

    def bind(self, log: PartitionLog) -> None:
        """Use the producers and offsets of this log.

        Where acknowledgements wait for the disk, what a killed process has left in the page cache is written to it:
        a batch that is sent again is acknowledged as a duplicate. Raises: OSError.
        """
        self._log = log
        if self._services.schedule.fsync and self.flushed_offset < log.end_offset:
            self.sync()

    @property
    def active(self) -> SegmentLog:
        """The last segment."""
        return self._logs[-1]

    def append(self, data: Data, batch: NewBatch, rules: AppendRules, *, now_ms: int) -> None:
        """Write a batch at the end of the active segment. Raises: KAFKA_STORAGE_ERROR."""
        assert not batch.is_hidden
        size, timestamp = len(data), batch.max_timestamp
        try:
            if self._needs_roll(size, batch, rules.roll, now_ms):
                self._roll(batch.base_offset, rules.roll, now_ms=now_ms)
            active, copied = self._logs[-1], bytearray(data)
            patch_offset_and_epoch(copied, batch.base_offset, batch.leader_epoch)
            at = active.append(copied, last_offset=batch.last_offset, max_timestamp=timestamp)
            if rules.flush is not None and batch.last_offset + 1 - self.flushed_offset >= rules.flush.messages_max:
                self._flush_append(at, batch)
        except OSError as error:
            raise self._services.fail(error) from error
        active.meta.written_ms = now_ms
        base, last = batch.base_offset, batch.last_offset
        self._views.add_batch(StoredBatch(base, last, size, active, at, timestamp, batch.leader_epoch))
        self._services.schedule.mark_appended(self, base, rules.flush, now_ms=now_ms)
        if at - self._marked_size > _MARK_INTERVAL:
            self._marked_size = at
            self._services.schedule.mark_grown(self)

    def sync_unsynced(self) -> None:
        """Sync now, where acknowledgements wait for the disk. Raises: KAFKA_STORAGE_ERROR."""
        try:
            self._services.schedule.sync_now(self)
        except OSError as error:
            raise self._services.fail(error) from error

    def roll_segment(self, base_offset: int, rules: RollRules, *, now_ms: int) -> None:
        """Start a segment at the end of the log. Raises: KAFKA_STORAGE_ERROR."""
        try:
            self._roll(base_offset, rules, now_ms=now_ms)
        except OSError as error:
            raise self._services.fail(error) from error

    def _roll(self, base_offset: int, rules: RollRules, *, now_ms: int) -> None:
        """Start a segment; the active one gets its index files, and the producers a snapshot. Raises: OSError."""
        if self._logs and self.active.base_offset == base_offset and not self.active.meta.size:
            self.segments.roll_segment(base_offset, rules, now_ms=now_ms)
            self.active.meta = self.segments[-1]
            return
        if self._logs:
            self.write_active_indexes()
            self.producer_files.write_snapshot(base_offset, self.log.producers.all_states())
        self.folders.create_file(names.file_name(base_offset, names.LOG))
        if self._logs:
            self._services.cache.use(self.active, self.active.load_indexes().size)
            self._services.schedule.mark_rolled(self, is_large=self.active.meta.size > _MARK_INTERVAL, now_ms=now_ms)
        self.segments.roll_segment(base_offset, rules, now_ms=now_ms)
        meta = self.segments[-1]
        self._logs.append(SegmentLog(self.folders, meta, PackedIndexes(base_offset, rules.index_interval)))
        self._views.reset(base_offset)
        self._marked_size = 0

    def index_from(self, offset: int, size: int) -> BatchIndex:
        """Batches of one segment from the one that contains an offset on. Raises: KAFKA_STORAGE_ERROR."""
        index = self._views.find_index(offset, size)
        if index is not None:
            return index
        try:
            for at in range(self.segments.floor_index(offset), len(self._logs)):
                index = self._views.read_index(self._logs[at], offset, size, is_active=at == len(self._logs) - 1)
                if index is not None:
                    return index
        except OSError as error:
            raise storage_error(error) from error
        return BatchIndex()

    def batches_between(self, first: int, end: int | None = None) -> Iterable[StoredBatch]:
        """The batches that end at an offset or later, and before `end`. Reading raises KAFKA_STORAGE_ERROR."""
        return RepeatableBatches(lambda: self.iterate_batches(first, end))

    def iterate_batches(self, first: int, end: int | None) -> Iterator[StoredBatch]:
        """Read the batches that end at an offset or later, and before `end`. Raises: KAFKA_STORAGE_ERROR."""
        for at in range(self.segments.floor_index(first), len(self._logs)):
            segment, segment_end = self._logs[at], self._end_of(at)
            for batch in segment.scan(self._find_position(segment, first), end_offset=segment_end):
                if end is not None and batch.last_offset >= end:
                    return
                if batch.last_offset >= first:
                    yield batch

    def batches_since(self, timestamp: int) -> Iterable[StoredBatch]:
        """The batches from the first one on that has this timestamp or a later one; others can be before it."""
        for at, segment in enumerate(self._logs):
            if segment.meta.max_timestamp >= timestamp and segment.meta.size:
                try:
                    first = segment.load_indexes().find_time(timestamp)
                except OSError as error:
                    raise storage_error(error) from error
                return self.batches_between(max(first, self.segments[at].base_offset))
        return ()

    def newest_batches(self) -> tuple[int, Iterable[StoredBatch]]:
        """The largest timestamp of all segments, and the batches as of `batches_since`."""
        newest = max((segment.max_timestamp for segment in self.segments), default=-1)
        return newest, self.batches_since(newest)

    def last_of_next_indexed(self, offset: int, end: int) -> int | None:
        """The last offset of the first batch at or above `end` with an index entry, in the segment of an offset."""
        if not self._logs:
            return None
        segment = self._logs[self.segments.floor_index(offset)]
        try:
            entries = segment.load_indexes().find_entries_from(end)
        except OSError as error:
            raise storage_error(error) from error
        for entry in entries:
            if next(segment.scan(entry.position, window_size=_HEADER_WINDOW)).base_offset >= end:
                return entry.offset
        return None

    def delete_below(self, offset: int) -> None:
        """The log starts at this offset now, which is stored soon."""
        del offset
        self._services.schedule.mark_changed()

    def drop_first_segments(self, count: int) -> None:
        """Rename the files of the first segments, and remove them later. Raises: KAFKA_STORAGE_ERROR.

        If that fails they stay until the next time, with all behind them: at the next start the log must have no gap.
        """
        self._require_swapped()
        try:
            self._logs[count].sync_name()
        except OSError as error:
            raise self._services.fail(error) from error
        self._dropped += self._logs[:count]
        del self._logs[:count]
        self.segments.drop_first(count)
        while self._dropped and self._remove_segment(self._dropped[0]):
            del self._dropped[0]

    def replace_first_segments(
        self, count: int, end: int, cleaned: Iterable[CleanedSegment], aborted: Sequence[AbortedTransaction]
    ) -> None:
        """Replace the first segments by compacted ones. Raises: KAFKA_STORAGE_ERROR, and then they stay."""
        del end
        interval = self.active.load_indexes().interval
        self._require_swapped()
        try:
            compacted = write_compacted(self.folders, cleaned, aborted, interval)
        except OSError as error:
            raise self._services.fail(error) from error
        replaced, self._logs[:count] = self._logs[:count], compacted
        bases = {segment.base_offset for segment in compacted}
        replaced_names = []
        for segment in replaced:
            segment.mark_removed()
            self._services.cache.forget(segment)
            replaced_names += segment.file_names(is_replaced=segment.base_offset in bases)
        self._swap = Swap(list(compacted), replaced_names)
        self.segments.replace_first(count, [segment.meta for segment in compacted])
        self._views.reset(self.log.end_offset)
        self._services.schedule.mark_changed()
        self._services.schedule.mark_swapping(self)

    def finish_swap(self) -> None:
        """Have the files of compacted segments take the names of those that they replace. Raises: OSError."""
        if self._swap is not None:
            topic = self.identity.topic
            self._swap.finish(self.folders, lambda name: self._services.retire_file(self.folders, name, topic))
            self._swap = None

    def _require_swapped(self) -> None:
        try:
            self.finish_swap()
        except OSError as error:
            raise self._services.fail(error) from error

    def truncate_to(self, offset: int) -> list[StoredBatch]:
        """Remove and return the batches that end at an offset or later. Raises: KAFKA_STORAGE_ERROR."""
        self._require_swapped()
        found = self.iterate_batches(offset, None)
        removed = [batch.with_bytes(bytes(batch.raw), max_timestamp=batch.max_timestamp) for batch in found]
        if not self._logs:
            return removed
        keep = max(1, sum(segment.base_offset < offset for segment in self._logs))
        last = self._logs[keep - 1]
        try:
            position = next((batch.at for batch in self.iterate_batches(offset, None)), last.meta.size)
            in_last = bool(removed) and removed[0].base_offset < self._end_of(keep - 1)
            if in_last:
                # First: an entry of what is cut would be one of what is written there later.
                aborted = self.log.producers.all_aborted()
                last.write_transactions([one for one in aborted if last.base_offset <= one.last_offset < offset])
                last.truncate_to(position, removed[0].base_offset)
                last.sync()  # What was cut must not be there again after a crash of the machine.
            self.producer_files.remove_snapshots_after(offset)
        except OSError as error:
            raise self._services.fail(error) from error
        for segment in self._logs[keep:]:
            self._remove_segment(segment)
        del self._logs[keep:]
        self.segments.truncate_to(offset)
        self.flushed_offset = min(self.flushed_offset, offset)
        self.indexed_end = min(self.indexed_end, offset)
        self._services.schedule.mark_changed()
        self._views.reset(offset)
        self._marked_size = last.meta.size
        return removed

    def producers_until(self, offset: int, producers: ProducerStates) -> ProducerStates:
        """The producer states at an offset, from the newest snapshot and the batches after it."""
        aborted = [entry for entry in producers.all_aborted() if entry.last_offset < offset]
        return self.producer_files.restore_states(offset, aborted, self.batches_between)

    def remove(self) -> None:
        """The topic is deleted: its folders are renamed, and removed later."""
        self._services.schedule.forget(self)
        self._views.reset(0)
        for segment in self._logs:
            segment.mark_removed()
            self._services.cache.forget(segment)
        for folder in self.folders.folders:
            self._services.remove_folder(folder, self.identity.topic, self.identity.topic_id)
        self.on_removed()

    def set_replicas(self, node_ids: Sequence[int]) -> None:
        """The partition has its replicas on these nodes now. A failure is reported; the files stay where they are."""
        paths = [self._services.folder_of(node_id, self.identity.folder_name) for node_id in node_ids]
        try:
            for folder in self.folders.set_folders(paths):
                self._services.remove_folder(folder, self.identity.topic, self.identity.topic_id)
        except OSError as error:
            self._services.report(str(storage_error(error).message))

    def close(self) -> None:
        """Write everything to the disk: a clean shutdown. Raises: OSError."""
        self.finish_swap()
        if self._logs:
            self.write_active_indexes()
            self.producer_files.write_snapshot(self.log.end_offset, self.log.producers.all_states())
        self.sync()

    def write_active_indexes(self) -> None:
        """Write the index files of the active segment. Raises: OSError."""
        base = self.active.base_offset
        aborted = [one for one in self.log.producers.all_aborted() if one.last_offset >= base]
        self.active.write_indexes(aborted)
        self.indexed_end = self.log.end_offset

    def write_mark(self) -> None:
        """Write the indexes and producers up to here: a start after a kill reads what follows. Raises: OSError."""
        self.write_active_indexes()
        self.producer_files.write_snapshot(self.log.end_offset, self.log.producers.all_states())
        self.producer_files.remove_unused({segment.base_offset for segment in self._logs})

    def write_leader_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        """Store the leader epochs. A failure is reported: the batches have the epochs too."""
        try:
            self.folders.write_file(checkpoints.LEADER_EPOCHS, checkpoints.write_leader_epochs(entries))
        except OSError as error:
            self._services.report(str(storage_error(error)))

    def sync(self) -> None:
        """Return when all batches are on the disk. Raises: OSError."""
        for segment in self._logs:
            segment.sync()
        self.flushed_offset = self.log.end_offset

    def sync_closed(self) -> None:
        """Return when all segments but the active one are on the disk, with their indexes. Raises: OSError."""
        for segment in self._logs[:-1]:
            if segment.is_unsynced:
                segment.sync_indexes()
            segment.sync()
        self.flushed_offset = max(self.flushed_offset, self.active.base_offset)

    def _flush_append(self, position: int, batch: NewBatch) -> None:
        """Sync as `flush.messages` requires; if that fails, the batch is removed again. Raises: OSError."""
        try:
            for segment in self._logs:
                segment.sync()
        except OSError:
            self.active.truncate_to(position, batch.base_offset)
            raise
        self.flushed_offset = batch.last_offset + 1

    def _remove_segment(self, segment: SegmentLog) -> bool:
        """Rename its files, the log last, and remove them later: index files without a log show that it is lost.

        Returns: whether it is removed; if a file cannot be renamed the rest stays.
        """
        segment.mark_removed()
        self._services.cache.forget(segment)
        file_names = reversed(segment.file_names())
        return all(self._services.remove_file(self.folders, name, self.identity.topic) for name in file_names)

    def _needs_roll(self, size: int, batch: NewBatch, rules: RollRules, now_ms: int) -> bool:
        if self.segments.needs_roll(size, batch.max_timestamp, rules, now_ms=now_ms):
            return True
        return batch.last_offset - self.active.base_offset > _RELATIVE_OFFSET_MAX

    def _find_position(self, segment: SegmentLog, offset: int) -> int:
        if offset <= segment.base_offset:
            return 0
        try:
            return segment.find_position(offset)
        except OSError as error:
            raise storage_error(error) from error

    def _end_of(self, at: int) -> int:
        if at + 1 < len(self._logs):
            return self._logs[at + 1].base_offset
        return self._loaded_end if self._log is None else self._log.end_offset
