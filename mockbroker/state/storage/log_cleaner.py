"""Log cleaner: deletes old segments and compacts logs.

Retention deletes whole segments from the front. Compaction keeps the last record of each key: a batch that loses
records is rewritten with its base offset, last offset and sequence, so that no offset and no producer state changes.
Source: Kafka's UnifiedLog.deleteOldSegments, LogCleanerManager, Cleaner, CleanedTransactionMetadata and
MemoryRecords.filterTo; pinned by the conversations other-log-* and share-compacted-*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kwire.error_codes import ErrorCode
from kwire.records import Batch, Codec, ControlType, Record, TimestampType, parse_header, read_control, write_batch
from mockbroker.kafka_error import KafkaError
from mockbroker.state.storage.log_config import CleanerRules
from mockbroker.state.storage.partition_log import PartitionLog, StoredBatch
from mockbroker.state.storage.producers import AbortedTransaction
from mockbroker.state.storage.segments import LogSegment, LogSegments


class CleanableRange(msgspec.Struct, frozen=True):
    """The part of a log that can be compacted.

    first_dirty_offset: where the dirty records begin. end_offset: the end of the last segment to clean. ratio: the
    dirty ratio. is_due: max.compaction.lag.ms has passed.
    """

    first_dirty_offset: int
    end_offset: int
    ratio: float
    is_due: bool


def delete_old_segments(log: PartitionLog, rules: CleanerRules, *, now_ms: int) -> None:
    """Delete whole segments from the front: those below the log start, then by size, then by age."""
    segments = log.segments
    below = segments.floor_index(log.start_offset) if len(segments) else 0
    if below:
        log.storage.drop_first_segments(below)
    if not rules.deletes:
        return
    spare = segments.size - rules.retention_bytes
    if rules.retention_bytes >= 0:
        count = 0
        while count < len(segments) and spare >= segments[count].size and _is_deletable(log, count):
            spare -= segments[count].size
            count += 1
        _delete_segments(log, count, rules, now_ms=now_ms)
    if rules.retention_ms >= 0:
        count = 0
        oldest_ms = now_ms - rules.retention_ms
        while count < len(segments) and segments[count].newest_ms < oldest_ms and _is_deletable(log, count):
            count += 1
        _delete_segments(log, count, rules, now_ms=now_ms)


def deletion_due_ms(log: PartitionLog, rules: CleanerRules) -> int | None:
    """The earliest time when the first segment can be deleted; 0 for at once, None for never."""
    segments = log.segments
    if not len(segments):
        return None
    at = segments.floor_index(log.start_offset)
    if at:
        return 0  # Segments below the log start are deleted with any policy.
    if not rules.deletes or (len(segments) == 1 and not segments[0].size):
        return None
    by_size = rules.retention_bytes >= 0
    if by_size and sum(segments[n].size for n in range(at + 1, len(segments))) >= rules.retention_bytes:
        return 0
    return segments[at].newest_ms + rules.retention_ms + 1 if rules.retention_ms >= 0 else None


def find_cleanable_range(log: PartitionLog, rules: CleanerRules, *, now_ms: int) -> CleanableRange | None:
    """The range that can be compacted now; None when it is empty, or its dirty ratio too small.

    Source: LogCleanerManager.cleanableOffsets, calculateCleanableBytes and maxCompactionDelay.
    """
    segments = log.segments
    if not (rules.compacts and len(segments)):
        return None
    first = max(log.start_offset, segments.cleaned_to or 0)
    end = _first_uncleanable_offset(log, rules, first, now_ms=now_ms)
    at, to = segments.floor_index(first), segments.floor_index(end)
    dirty = sum(segments[n].size for n in range(at, to))
    clean = sum(segment.size for segment in segments if segment.base_offset < first)
    if not dirty:
        return None
    began_ms = min((s.first_timestamp for s in segments.closed_segments()[at:] if s.first_timestamp > 0), default=None)
    is_due = began_ms is not None and began_ms < now_ms - rules.lag_max_ms
    ratio = dirty / (dirty + clean)
    if not (is_due or ratio > rules.dirty_ratio_min):
        return None
    return CleanableRange(first, segments[to].base_offset, ratio, is_due)


def compaction_due_ms(log: PartitionLog, rules: CleanerRules, *, now_ms: int) -> int | None:
    """The earliest time when the log can be compacted, without further appends; 0 for at once, None for never."""
    if find_cleanable_range(log, rules, now_ms=now_ms) is not None:
        return 0
    if not rules.compacts:
        return None
    segments = log.segments
    first = max(log.start_offset, segments.cleaned_to or 0)
    dirty = _dirty_segments(segments, first)
    later = [s.newest_ms + rules.lag_min_ms for s in dirty]
    later += [s.first_timestamp + rules.lag_max_ms + 1 for s in dirty if s.first_timestamp > 0]
    return min((due for due in later if due > now_ms), default=None)


def compact_log(log: PartitionLog, cleanable: CleanableRange, rules: CleanerRules, *, now_ms: int) -> None:
    """Compact a log up to the end of its cleanable range."""
    cleaner = _Cleaner(log, cleanable, rules, now_ms=now_ms)
    count = log.segments.floor_index(cleanable.end_offset)
    groups = _group_segments(log.segments, count, rules.roll.size_max)
    ends = [*(group[0].base_offset for group in groups[1:]), cleanable.end_offset]
    cleaned = (
        (_merge_segments(group), cleaner.clean_batches(group[0].base_offset, end))
        for group, end in zip(groups, ends, strict=True)
    )
    log.replace_first_segments(count, cleanable.end_offset, cleaned, cleaner.transactions.retained)
    log.segments.cleaned_to = cleanable.end_offset


def _is_deletable(log: PartitionLog, at: int) -> bool:
    """Return whether all replicas have the segment, it is not an empty last one, and no batch must be kept."""
    segment, hidden = log.segments[at], log.hidden_batches
    is_last = at + 1 == len(log.segments)
    end = log.end_offset if is_last else log.segments[at + 1].base_offset
    if hidden is not None and hidden.must_keep(segment.base_offset, end, log.high_watermark):
        return False
    return log.high_watermark >= end and (not is_last or segment.size > 0)


def _delete_segments(log: PartitionLog, count: int, rules: CleanerRules, *, now_ms: int) -> None:
    if not count:
        return
    segments = log.segments
    if count == len(segments):
        log.roll_segment(rules.roll, now_ms=now_ms)
    log.delete_records_before(max(segments[count].base_offset, log.start_offset))
    log.storage.drop_first_segments(count)


def _dirty_segments(segments: LogSegments, first: int) -> Sequence[LogSegment]:
    """The closed segments from the one on that contains an offset."""
    return segments.closed_segments()[segments.floor_index(first) :]


def _first_uncleanable_offset(log: PartitionLog, rules: CleanerRules, first: int, *, now_ms: int) -> int:
    """The end of cleaning: the active segment, an open transaction, or records that are too new."""
    segments = log.segments
    ends = [log.last_stable_offset, segments[len(segments) - 1].base_offset]
    if rules.lag_min_ms > 0:
        ends += [s.base_offset for s in _dirty_segments(segments, first) if s.newest_ms > now_ms - rules.lag_min_ms]
    return max(first, min(ends))


def _newest_offsets(batches: Iterable[StoredBatch], aborted: list[AbortedTransaction], first: int) -> dict[bytes, int]:
    """The last offset of each key among the dirty records, without aborted transactions."""
    newest: dict[bytes, int] = {}
    transactions = _CleanedTransactions(aborted)
    for stored in batches:
        batch = stored.checked_header()
        is_unneeded = transactions.on_batch_read(batch)
        if not is_unneeded and not batch.is_control and stored.last_offset >= first:
            newest.update((r.key, r.offset) for r in stored.records() if r.key is not None and r.offset >= first)
    return newest


def _group_segments(segments: LogSegments, count: int, size_max: int) -> list[list[LogSegment]]:
    """The first segments in groups that fit into one segment each, by their sizes before."""
    groups: list[list[LogSegment]] = []
    size = 0
    for at in range(count):
        segment = segments[at]
        if groups and size + segment.size <= size_max:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def _merge_segments(group: Sequence[LogSegment]) -> LogSegment:
    """One segment for a group, still empty, with the time of its last write."""
    first, last = group[0], group[-1]
    return LogSegment(first.base_offset, first.created_ms, last.written_ms, first.jitter_ms)


class _CleanedTransactions:
    """Tracks transactions along the log, to find batches and markers that are no longer needed.

    retained: aborted transactions that still had batches before their marker.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self.retained: list[AbortedTransaction] = []
        self._upcoming = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_batches: set[int] = set()
        self._committed: set[int] = set()

    def on_batch_read(self, batch: Batch) -> bool:
        """Return whether a batch is unneeded: data of an aborted transaction, or a marker without batches before it."""
        while self._upcoming and self._upcoming[0].first_offset <= batch.last_offset:
            transaction = self._upcoming.popleft()
            self._aborted.setdefault(transaction.producer_id, transaction)
        if batch.is_control:
            return self._on_marker_read(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._aborted_with_batches.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def _on_marker_read(self, batch: Batch) -> bool:
        """Return whether no batch is left of the transaction that a marker ends."""
        records = batch.records()
        if not records:
            return True  # It was cleaned before: only its header is left.
        kind, producer_id = read_control(records[0]).type, batch.producer_id
        if kind is ControlType.ABORT:
            ended = self._aborted.pop(producer_id, None)
            had_batches = producer_id in self._aborted_with_batches
            self._aborted_with_batches.discard(producer_id)
            if ended is not None and had_batches:
                self.retained.append(ended)
            return not (ended is not None and had_batches)
        if kind is ControlType.COMMIT:
            had_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_batches
        return False


class _Cleaner:
    """One cleaning of a log, batch by batch."""

    def __init__(self, log: PartitionLog, cleanable: CleanableRange, rules: CleanerRules, *, now_ms: int) -> None:
        self._end = cleanable.end_offset
        aborted = log.aborted_transactions(0, self._end)
        self.transactions = _CleanedTransactions(aborted)
        self._log = log
        self._newest = _newest_offsets(log.batches_below(self._end), aborted, cleanable.first_dirty_offset)
        self._last_of_each = log.producers.last_batches()
        self._tombstones_ms = rules.tombstones_ms
        self._now_ms = now_ms

    def clean_batches(self, first: int, end: int) -> Iterator[StoredBatch]:
        """What remains of the batches between two offsets; those before `first` have been cleaned."""
        for batch in self._log.storage.batches_between(max(first, self._log.start_offset), end):
            cleaned = self.clean_batch(batch)
            if cleaned is not None:
                yield cleaned

    def clean_batch(self, stored: StoredBatch) -> StoredBatch | None:
        """The batch as it is, rewritten, with its header only, or None."""
        if stored.is_hidden:
            hidden, first = self._log.hidden_batches, stored.base_offset
            is_kept = hidden is None or hidden.must_keep(first, first + 1, self._log.high_watermark)
            return stored if is_kept else None
        batch = stored.checked_header()
        if batch.magic < 2:
            return stored  # Kafka rewrites it in its own format; here old messages are for readers.
        self._check_epoch(batch)
        is_unneeded = self.transactions.on_batch_read(batch)
        horizon_ms = batch.delete_horizon_ms
        # The marker of a removed transaction is kept as long as a tombstone (KIP-534).
        is_over = horizon_ms is not None and horizon_ms <= self._now_ms
        drops_all = is_unneeded and (not batch.is_control or is_over)
        stays_empty = self._is_last_of_producer(batch) or batch.last_offset + 1 == self._end
        before = stored.records() if not drops_all or stays_empty else []
        after = [] if drops_all else [one for one in before if batch.is_control or self._should_retain(one, horizon_ms)]
        if not after:
            return _to_stored_batch(stored, _rewrite_batch(batch, [])) if stays_empty else None
        has_tombstone = any(record.value is None for record in after) or (is_unneeded and batch.is_control)
        if has_tombstone and horizon_ms is None:
            horizon_ms = self._now_ms + self._tombstones_ms
        elif len(after) == len(before):
            return stored
        return _to_stored_batch(stored, _rewrite_batch(batch, after, horizon_ms))

    def _check_epoch(self, batch: Batch) -> None:
        """A wrong leader epoch must not get into the log. Raises: KAFKA_STORAGE_ERROR; no checksum covers it."""
        epoch, expected = batch.partition_leader_epoch, self._log.epoch_at(batch.last_offset)
        if expected not in (None, epoch):
            problem = f"the batch with offset {batch.base_offset} is damaged: leader epoch {epoch}, not {expected}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, problem)

    def _should_retain(self, record: Record, horizon_ms: int | None) -> bool:
        """Return whether a record is the last one of its key, and no expired tombstone."""
        if record.key is None or record.offset < self._newest.get(record.key, -1):
            return False
        return record.value is not None or horizon_ms is None or self._now_ms < horizon_ms

    def _is_last_of_producer(self, batch: Batch) -> bool:
        """Return whether the batch has the last sequence or the last epoch of an active producer."""
        last = self._last_of_each.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        last_offset, epoch = last
        if last_offset is not None:
            return batch.last_offset == last_offset
        return batch.is_control and batch.producer_epoch == epoch


def _rewrite_batch(batch: Batch, records: Sequence[Record], horizon_ms: int | None = None) -> bytes:
    """The batch with these records; without any, only its header is left."""
    is_explicit = batch.timestamp_type is TimestampType.LOG_APPEND_TIME or not records
    return write_batch(
        records,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        codec=batch.codec if records else Codec.NONE,
        timestamp_type=batch.timestamp_type,
        max_timestamp=batch.max_timestamp if is_explicit else None,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        partition_leader_epoch=batch.partition_leader_epoch,
        delete_horizon_ms=horizon_ms,
    )


def _to_stored_batch(before: StoredBatch, raw: bytes) -> StoredBatch:
    return before.with_bytes(raw, max_timestamp=parse_header(raw).max_timestamp)
