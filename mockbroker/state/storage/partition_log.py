"""The log of one partition: batches in offset order, in memory or in files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from kwire.records import Batch, ControlType, parse_header, with_append_time, write_marker
from mockbroker.kafka_error import KafkaError
from mockbroker.state.storage.append_origin import AppendOrigin
from mockbroker.state.storage.batch_index import BatchIndex
from mockbroker.state.storage.batches.log_slices import make_slice
from mockbroker.state.storage.batches.memory_batches import MemoryBatches
from mockbroker.state.storage.hidden_batches import HiddenBatches, collect_hidden, first_visible, read_visible
from mockbroker.state.storage.high_watermark import HighWatermark
from mockbroker.state.storage.leader_epoch_cache import NO_EPOCH, LeaderEpochCache
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.log_validator import read_one_batch, validate_batch
from mockbroker.state.storage.memory_budget import MemoryBudget
from mockbroker.state.storage.producers import AbortedTransaction, ProducerStates, do_nothing
from mockbroker.state.storage.segments import RollRules
from mockbroker.state.storage.stored_batch import AppendResult, LogSlice, NewBatch, StoredBatch, TimestampOffset
from mockbroker.state.storage.timestamp_search import find_first_since, find_newest
from mockbroker.state.storage.verification_guard import NO_GUARD, VerificationGuard, VerificationGuards

if TYPE_CHECKING:
    from mockbroker.state.storage.batches.batch_storage import BatchStorage, CleanedSegment, Data, RestoredState

__all__ = ["AppendResult", "LogSlice", "TimestampOffset", "AppendOrigin", "PartitionLog", "StoredBatch"]


class PartitionLog:
    """Appends, reads and deletes batches.

    rules: the topic's append rules, read at each append. on_offsets_changed: called after each append, and after each
    change of the log start or the high watermark. A following replica has every record at once, so the high watermark
    is the end of the log unless it is held (`mockbroker.state.storage.replicas`). on_hidden_append: called instead when
    no waiting reader is affected. hidden_batches: the offsets that readers skip; None without any. budget: of all logs.
    storage: in memory if None. failed_sync_count: of syncs for which acknowledgements waited.
    """

    def __init__(
        self,
        rules: Callable[[], AppendRules],
        moved: Callable[[], None] = lambda: None,
        grown: Callable[[], None] = lambda: None,
        budget: MemoryBudget | None = None,
        storage: BatchStorage | None = None,
    ) -> None:
        self.start_offset = self.end_offset = 0
        self.producers = ProducerStates()
        self.storage: BatchStorage = MemoryBatches(budget) if storage is None else storage
        self.segments = self.storage.segments
        self.verifications = VerificationGuards()
        self._on_older = do_nothing
        self._rules = rules
        self._on_offsets_changed = moved
        self._on_hidden_append = grown
        self.hidden_batches: HiddenBatches | None = None
        self._leader_epochs = LeaderEpochCache(None if storage is None else storage.write_leader_epochs)
        self.watermark = HighWatermark()
        self.failed_sync_count = 0

    def restore_state(self, state: RestoredState) -> None:
        """Continue with what the storage has."""
        self.start_offset, self.end_offset = state.start_offset, state.end_offset
        self.producers, self.segments.cleaned_to = state.producers, state.cleaned_to
        self._leader_epochs.restore(state.leader_epochs)

    def watch_producers(self, on_older: Callable[[], None]) -> None:
        """Call this when a producer or a verification becomes the one that expires first."""
        self._on_older = self.verifications.on_older = on_older
        self.producers.watch(on_older)

    @property
    def high_watermark(self) -> int:
        """The first offset that not all in-sync replicas have, or that is not on the disk; where readers end."""
        return self.end_offset if (limit := self.watermark.limit) is None else limit

    def hold_high_watermark(self, offset: int | None) -> None:
        """Hold the high watermark at an offset while the log grows; None lets it follow the end again."""
        self._set_limits(offset, self.watermark.unsynced)

    @property
    def synced_offset(self) -> int:
        """The first offset that is not on the disk, if acknowledgements wait for it; else the end."""
        return self.end_offset if (unsynced := self.watermark.unsynced) is None else unsynced

    def hold_unsynced(self, offset: int | None) -> None:
        """Batches from an offset on are not on the disk yet, and acknowledgements wait for that; None: they are."""
        self._set_limits(self.watermark.held, offset)

    def fail_sync(self) -> None:
        """Batches could not be written to the disk: the producers that wait for it get an error."""
        self.failed_sync_count += 1
        self._on_offsets_changed()

    def _set_limits(self, held: int | None, unsynced: int | None) -> None:
        before = self.high_watermark, self.synced_offset
        self.watermark.set_limits(held, unsynced)
        if before != (self.high_watermark, self.synced_offset):
            self._on_offsets_changed()

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, else the high watermark: the end for read_committed.

        A transaction whose first records are deleted begins at the log start.
        """
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else max(self.start_offset, min(unstable, self.high_watermark))

    @property
    def size(self) -> int:
        """Bytes of all segments: deleted records count until their segment is deleted."""
        return self.segments.size

    @property
    def leader_epoch(self) -> int:
        """The epoch of appended batches, 0 at first."""
        return self._leader_epochs.latest_epoch

    @property
    def last_epoch(self) -> int | None:
        """The latest epoch, None without any: a replica that has no records and was never the leader."""
        return None if self._leader_epochs.is_empty else self._leader_epochs.latest_epoch

    def start_leader_epoch(self, leader_epoch: int) -> None:
        """A new leader: its epoch starts at the end of the log."""
        self._leader_epochs.start_epoch(leader_epoch, self.end_offset)

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, adds: bool, now_ms: int
    ) -> VerificationGuard:
        """The guard that a transactional batch needs; NO_GUARD when its transaction is already open here.

        adds: the coordinator is requested to add the partition, not only to verify it.
        Raises: INVALID_PRODUCER_EPOCH.
        """
        if self.producers.has_open_transaction(producer_id, epoch):
            return NO_GUARD
        return self.verifications.start(producer_id, epoch, sequence, adds=adds, now_ms=now_ms)

    def append(
        self,
        data: Data,
        *,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Append a single batch.

        guard: of a transactional batch, None without verification. An old message has its own offset.
        Raises: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP (RecordsRefusedError for single records),
        MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER,
        INVALID_TXN_STATE, KAFKA_STORAGE_ERROR without memory.
        """
        rules, is_old = self._rules(), origin is AppendOrigin.OLD_LOG
        batch = parse_header(data) if is_old else read_one_batch(data)
        written: bytes | None = None
        if origin is AppendOrigin.CLIENT:
            written = validate_batch(batch, rules, now_ms=now_ms)
            if batch.producer_id >= 0:
                again = self.producers.find_duplicate(batch)
                if again is not None:
                    return AppendResult(again.first_offset, again.last_offset, again.timestamp, is_duplicate=True)
                self.verifications.check_batch(batch, guard, origin, self.producers)
                self.producers.check_batch(batch)
            self.segments.budget.check_space(len(data))
        elif guard is not None:
            self.verifications.check_batch(batch, guard, origin, self.producers)
        if written is None and rules.append_time and not is_old:
            written = with_append_time(data, now_ms)
        max_timestamp = batch.max_timestamp if written is None else parse_header(written).max_timestamp
        first_offset = self._store(data if written is None else written, batch, max_timestamp, now_ms)
        if batch.producer_id >= 0 and not batch.is_control:
            self.producers.record_batch(batch, first_offset, max_timestamp)
            if batch.is_transactional:
                self.verifications.on_batch_appended(batch.producer_id)
        self._on_offsets_changed()
        return AppendResult(first_offset, self.end_offset - 1, now_ms if rules.append_time else -1)

    def check_records(self, data: bytes, *, now_ms: int) -> None:
        """Check that a batch without producer id would be appended. Raises: as `append`."""
        validate_batch(read_one_batch(data), self._rules(), now_ms=now_ms)

    def append_marker(
        self,
        *,
        commit: bool,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        now_ms: int,
        transaction_version: int = 1,
    ) -> int:
        """End a producer's transaction with a control batch; returns the marker's offset.

        A negative producer id has no state: the marker is only written.
        """
        if producer_id >= 0:
            self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        data = write_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=now_ms,
        )
        offset = self._store(data, parse_header(data), now_ms, now_ms)
        if producer_id >= 0:
            self.producers.end_transaction(
                producer_id, producer_epoch, coordinator_epoch, marker_offset=offset, timestamp=now_ms, commit=commit
            )
            self.verifications.on_marker(producer_id, producer_epoch)
        self._on_offsets_changed()
        return offset

    def append_hidden_batch(self, data: bytes, *, now_ms: int) -> int:
        """Append a hidden batch of one record, and wake no reader; returns its offset."""
        offset = self._store(data, parse_header(data), now_ms, now_ms, hidden=True)
        self._on_hidden_append()
        return offset

    def visible_end(self, end: int) -> int:
        """The end of the log for readers: hidden batches right before it do not count."""
        return end if self.hidden_batches is None else self.hidden_batches.visible_end(end)

    def has_visible_between(self, first: int, end: int) -> bool:
        """Return whether a visible batch has an offset from `first` up to, not including, `end`."""
        visible = (batch.base_offset for batch in self.storage.batches_between(first) if not batch.is_hidden)
        return next(visible, end) < end

    def batches_from(self, offset: int) -> Iterable[StoredBatch]:
        """All batches that end at an offset or later, hidden ones included."""
        return self.storage.batches_between(max(offset, self.start_offset))

    def read(
        self, offset: int, max_bytes: int, *, min_one: bool = True, up_to: int | None = None, partial: bool = False
    ) -> LogSlice:
        """Whole batches of one segment from the one that contains `offset` on, as many as fit into `max_bytes`.

        After compaction no batch may contain the offset; then the next one is the first. min_one: return the first
        batch even when it does not fit. up_to: end before this offset, by default the high watermark; followers read
        beyond it. partial: fill `max_bytes` with the beginning of the batch that does not fit.
        Raises: OFFSET_OUT_OF_RANGE outside of the log; at its end the result is empty. UNKNOWN_SERVER_ERROR for a
        negative `max_bytes` before the end. Source: Kafka's LocalLog.read and LogSegment.read.
        """
        index, first, last = self._find_range(offset, max_bytes, up_to)
        if self.hidden_batches is not None:
            return LogSlice(*read_visible(index.batches[first:last], max_bytes, min_one=min_one))
        return make_slice(index, first, last, max_bytes, min_one=min_one, partial=partial)

    def measure(self, offset: int, max_bytes: int, *, up_to: int) -> tuple[int, bool]:
        """The bytes that `read` returns for these arguments, and whether no batch below `up_to` is left out by it.

        Raises: as `read`.
        """
        if self.hidden_batches is not None:
            read = self.read(offset, max_bytes, up_to=up_to)
            return read.size, not read.batches or read.batches[-1].last_offset + 1 >= up_to
        index, first, last = self._find_range(offset, max_bytes, up_to)
        end = max(index.find_end_by_size(first, last, max_bytes), first + 1) if first < last else first
        is_all = first == end or index.batches[end - 1].last_offset + 1 >= up_to
        return index.size_between(first, end), is_all

    def _find_range(self, offset: int, max_bytes: int, up_to: int | None) -> tuple[BatchIndex, int, int]:
        """The batches that a read may return, by index: from the first, visible one to the end of its segment."""
        start, log_end = self.start_offset, self.end_offset
        if not start <= offset <= log_end:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is not within {start} to {log_end}")
        end = self.high_watermark if up_to is None else up_to
        if max_bytes < 0 and offset < end:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a read of {max_bytes} bytes")
        index = self.storage.index_from(offset, max_bytes)
        first, last = index.find_offset(offset), index.find_offset(max(offset, end))
        if self.hidden_batches is not None:
            first = first_visible(index.batches, first, last)
        segment_end = self.segments.segment_end(index.batches[first].base_offset) if first < last else None
        return index, first, last if segment_end is None or segment_end >= end else index.find_offset(segment_end)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record from the log start on with this timestamp or a later one, or None."""
        return find_first_since(self.storage.batches_since(timestamp), timestamp, start_offset=self.start_offset)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp of all segments, deleted records included, or None."""
        newest, batches = self.storage.newest_batches()
        return find_newest(batches, newest)

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap the offsets from `first_offset` up to, not including, `end_offset`."""
        return self.producers.aborted_transactions(first_offset, end_offset)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start; returns where it is now. -1 stands for the high watermark.

        Raises: OFFSET_OUT_OF_RANGE beyond the high watermark. A start below the present one changes nothing.
        """
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset}, high watermark {self.high_watermark}")
        if target > self.start_offset:
            self.start_offset = target
            self.storage.delete_below(target)
            if self.hidden_batches is not None:
                self.hidden_batches.replace_offsets_below(target, ())
            self.producers.drop_aborted_below(target)
            self._leader_epochs.truncate_from_start(target)
            self._on_offsets_changed()
        return self.start_offset

    def batches_below(self, offset: int) -> Iterable[StoredBatch]:
        """All batches that end below an offset, hidden ones included."""
        return self.storage.batches_between(self.start_offset, offset)

    def roll_segment(self, rules: RollRules, *, now_ms: int) -> None:
        """Start a segment at the end of the log."""
        self.storage.roll_segment(self.end_offset, rules, now_ms=now_ms)

    def replace_first_segments(
        self, count: int, end: int, cleaned: Iterable[CleanedSegment], aborted: list[AbortedTransaction]
    ) -> None:
        """Replace the first segments, which end at an offset, and their aborted transactions, by compacted ones.

        aborted: filled while the batches are read.
        """
        hidden = None if self.hidden_batches is None else list[int]()
        kept = cleaned if hidden is None else collect_hidden(cleaned, hidden)
        self.storage.replace_first_segments(count, end, kept, aborted)
        self.producers.replace_aborted_below(end, aborted)
        if self.hidden_batches is not None and hidden is not None:
            self.hidden_batches.replace_offsets_below(end, hidden)

    def end_of_epoch(self, leader_epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to this one and its end offset; None for an unknown or future epoch."""
        return self._leader_epochs.end_offset_for(leader_epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at an offset, None when it is unknown."""
        return self._leader_epochs.epoch_for_offset(offset)

    def truncate_to(self, offset: int) -> list[StoredBatch]:
        """Remove and return all batches from an offset on, as a replica does that had more than the new leader.

        Producer states are rebuilt from the remaining records, and verifications are dropped.
        Source: Kafka's UnifiedLog.truncateTo.
        """
        removed = self.storage.truncate_to(offset)
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)
        self.watermark.truncate_to(offset)
        self._leader_epochs.truncate_from_end(offset)
        if self.hidden_batches is not None:
            self.hidden_batches.truncate_to(offset)
        self.producers = self.storage.producers_until(offset, self.producers)
        self.verifications = VerificationGuards()
        self.watch_producers(self._on_older)
        self._on_offsets_changed()
        return removed

    def restart_at(self, offset: int, *, now_ms: int) -> None:
        """Remove everything, and start at an offset: a replica that has nothing of what its leader still has."""
        if len(self.segments):
            self.truncate_to(0)
        self.start_offset = self.end_offset = offset
        self.hold_high_watermark(offset)
        self.roll_segment(self._rules().roll, now_ms=now_ms)
        self.storage.drop_first_segments(len(self.segments) - 1)

    def restore_batches(self, batches: Sequence[StoredBatch]) -> None:
        """Append batches of a former log or of the leader's, with their own offsets and epochs."""
        for batch in batches:
            first, last, epoch = batch.base_offset, batch.last_offset, batch.leader_epoch
            if epoch != NO_EPOCH:
                self._leader_epochs.start_epoch(epoch, first)
            new = NewBatch(first, last, batch.max_timestamp, epoch, batch.is_hidden)
            self.storage.append(batch.raw, new, self._rules(), now_ms=batch.max_timestamp)
            self.end_offset = batch.last_offset + 1
            if batch.is_hidden:
                self._add_hidden(batch.base_offset)
        self.producers.replay_batches(batches)

    def _store(self, data: Data, batch: Batch, max_timestamp: int, now_ms: int, *, hidden: bool = False) -> int:
        epoch = self._leader_epochs.latest_epoch if batch.magic == 2 else NO_EPOCH
        first = self.end_offset if batch.magic == 2 else batch.base_offset
        last_offset = first + batch.last_offset - batch.base_offset
        new = NewBatch(first, last_offset, max_timestamp, epoch, hidden)
        self.storage.append(data, new, self._rules(), now_ms=now_ms)
        self.end_offset = last_offset + 1
        if hidden:
            self._add_hidden(first)
        return first

    def _add_hidden(self, offset: int) -> None:
        if self.hidden_batches is None:
            self.hidden_batches = HiddenBatches()
        self.hidden_batches.add_offset(offset)
