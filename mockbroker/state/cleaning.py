"""What the log cleaner makes of a log: which segments go, which are compacted, and what is left of their batches.

Retention deletes whole segments from the front. Compaction keeps the last record of each key: a batch that loses
records is written anew with its base offset, last offset and sequence, so that no offset changes and no producer is
forgotten.
Source: Kafka's UnifiedLog.deleteOldSegments, LogCleanerManager, Cleaner, CleanedTransactionMetadata and
MemoryRecords.filterTo; pinned by the conversations other-log-* and share-compacted-*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kwire.records import Batch, Codec, ControlType, Record, TimestampType, parse_header, read_control, write_batch
from mockbroker.state.log import PartitionLog, StoredBatch
from mockbroker.state.producers import Aborted
from mockbroker.state.segments import RollRules, Segment, Segments


class CleaningRules(msgspec.Struct, frozen=True):
    """A topic's configuration as far as its cleaning goes. Times in milliseconds, sizes in bytes, -1 for no limit."""

    compacts: bool
    deletes: bool
    retention_ms: int
    retention_bytes: int
    dirty_ratio_min: float
    lag_min_ms: int
    lag_max_ms: int
    tombstones_ms: int
    roll: RollRules


class Dirt(msgspec.Struct, frozen=True):
    """What there is to compact: dirty records from `first` on, in segments that end at `end`; `ratio` is theirs."""

    first: int
    end: int
    ratio: float
    is_due: bool


def delete_old(log: PartitionLog, rules: CleaningRules, *, now_ms: int) -> None:
    """Delete whole segments from the front: those below the log's start, then by size, then by age."""
    segments = log.segments
    below = segments.floor(log.start_offset) if len(segments) else 0
    segments.drop_first(below)
    if not rules.deletes:
        return
    spare = segments.size - rules.retention_bytes
    if rules.retention_bytes >= 0:
        count = 0
        while count < len(segments) and spare >= segments[count].size and _may_go(log, count):
            spare -= segments[count].size
            count += 1
        _delete(log, count, rules, now_ms=now_ms)
    if rules.retention_ms >= 0:
        count = 0
        while count < len(segments) and now_ms - segments[count].newest_ms > rules.retention_ms and _may_go(log, count):
            count += 1
        _delete(log, count, rules, now_ms=now_ms)


def deletion_due_ms(log: PartitionLog, rules: CleaningRules) -> int | None:
    """When the first segment may go at the earliest, as it stands now; 0 for at once, None for never."""
    segments = log.segments
    if not (rules.deletes and len(segments)) or log.start_offset == log.end_offset:
        return None
    at = segments.floor(log.start_offset)
    by_size = rules.retention_bytes >= 0
    if by_size and sum(segments[n].size for n in range(at + 1, len(segments))) >= rules.retention_bytes:
        return 0
    return segments[at].newest_ms + rules.retention_ms + 1 if rules.retention_ms >= 0 else None


def dirt(log: PartitionLog, rules: CleaningRules, *, now_ms: int) -> Dirt | None:
    """What may be compacted now; None when there is nothing, or too little.

    Source: LogCleanerManager.cleanableOffsets, calculateCleanableBytes and maxCompactionDelay.
    """
    segments = log.segments
    if not (rules.compacts and len(segments)):
        return None
    first = max(log.start_offset, segments.cleaned_to or 0)
    end = _uncleanable(log, rules, first, now_ms=now_ms)
    at, to = segments.floor(first), segments.floor(end)
    dirty = sum(segments[n].size for n in range(at, to))
    clean = sum(segment.size for segment in segments if segment.base_offset < first)
    if not dirty:
        return None
    began_ms = min((s.first_timestamp for s in segments.closed()[at:] if s.first_timestamp > 0), default=None)
    is_due = began_ms is not None and began_ms < now_ms - rules.lag_max_ms
    ratio = dirty / (dirty + clean)
    if not (is_due or ratio > rules.dirty_ratio_min):
        return None
    return Dirt(first, segments[to].base_offset, ratio, is_due)


def compaction_due_ms(log: PartitionLog, rules: CleaningRules, *, now_ms: int) -> int | None:
    """When there may be something to compact at the earliest, if nobody appends; 0 for at once, None for never."""
    if dirt(log, rules, now_ms=now_ms) is not None:
        return 0
    if not rules.compacts:
        return None
    segments = log.segments
    first = max(log.start_offset, segments.cleaned_to or 0)
    later = [s.newest_ms + rules.lag_min_ms for s in _dirty(segments, first)]
    later += [s.first_timestamp + rules.lag_max_ms + 1 for s in _dirty(segments, first) if s.first_timestamp > 0]
    return min((due for due in later if due > now_ms), default=None)


def compact(log: PartitionLog, found: Dirt, rules: CleaningRules, *, now_ms: int) -> None:
    """Clean a log up to where its dirt ends."""
    batches = log.below(found.end)
    aborted = log.aborted_transactions(0, found.end)
    newest = _newest_offsets(batches, aborted, found.first)
    cleaner = _Cleaner(
        newest,
        aborted,
        log=log,
        last_of_each=log.producers.last_of_each(),
        end=found.end,
        tombstones_ms=rules.tombstones_ms,
        now_ms=now_ms,
    )
    kept = [one for batch in batches if (one := cleaner.clean(batch)) is not None]
    count = log.segments.floor(found.end)
    groups = _groups(log.segments, count, rules.roll.size_max)
    ends = [*(group[0].base_offset for group in groups[1:]), found.end]
    merged = [_merged(group, end, kept) for group, end in zip(groups, ends, strict=True)]
    log.replace_below(found.end, kept, cleaner.transactions.kept)
    log.segments.replace(count, merged)
    log.segments.cleaned_to = found.end


def _may_go(log: PartitionLog, at: int) -> bool:
    """Whether all replicas have the segment, whether it is more than an empty one at the end, and nothing is kept."""
    end = log.segments[at + 1].base_offset if at + 1 < len(log.segments) else log.end_offset
    if log.hidden is not None and log.hidden.keeps(log.segments[at].base_offset, end, log.high_watermark):
        return False
    if at + 1 < len(log.segments):
        return log.high_watermark >= log.segments[at + 1].base_offset
    return log.segments[at].size > 0 and log.high_watermark >= log.end_offset


def _delete(log: PartitionLog, count: int, rules: CleaningRules, *, now_ms: int) -> None:
    if not count:
        return
    segments = log.segments
    if count == len(segments):
        segments.roll(log.end_offset, rules.roll, now_ms=now_ms)
    log.delete_before(max(segments[count].base_offset, log.start_offset))
    segments.drop_first(count)


def _dirty(segments: Segments, first: int) -> Sequence[Segment]:
    """The closed segments from the one on that holds an offset."""
    return segments.closed()[segments.floor(first) :]


def _uncleanable(log: PartitionLog, rules: CleaningRules, first: int, *, now_ms: int) -> int:
    """Where cleaning has to stop: at the active segment, an open transaction, or records that are too young."""
    segments = log.segments
    ends = [log.last_stable_offset, segments[len(segments) - 1].base_offset]
    if rules.lag_min_ms > 0:
        young = (s.base_offset for s in _dirty(segments, first) if s.newest_ms > now_ms - rules.lag_min_ms)
        ends += [offset for offset in (next(young, None),) if offset is not None]
    return max(first, min(ends))


def _newest_offsets(batches: Iterable[StoredBatch], aborted: Sequence[Aborted], first: int) -> dict[bytes, int]:
    """The last offset of each key among the dirty records; those of aborted transactions do not count."""
    newest: dict[bytes, int] = {}
    transactions = _Transactions(aborted)
    for stored in batches:
        batch = stored.header()
        if batch.is_control:
            transactions.marker(batch)
        elif not transactions.data(batch) and stored.last_offset >= first:
            newest.update((r.key, r.offset) for r in stored.records() if r.key is not None and r.offset >= first)
    return newest


def _groups(segments: Segments, count: int, size_max: int) -> list[list[Segment]]:
    """The first segments in groups that fit into one each, by what they held before."""
    groups: list[list[Segment]] = []
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


def _merged(group: Sequence[Segment], end: int, kept: Sequence[StoredBatch]) -> Segment:
    """One segment for a group that ends at an offset, with what was kept of its batches; as old as the last one was."""
    first, last = group[0], group[-1]
    inside = [batch for batch in kept if first.base_offset <= batch.base_offset < end]
    return Segment(
        first.base_offset,
        first.created_ms,
        last.written_ms,
        first.jitter_ms,
        sum(batch.size for batch in inside),
        inside[0].max_timestamp if inside else -1,
        max((batch.max_timestamp for batch in inside), default=-1),
    )


class _Transactions:
    """Follows transactions along the log, to know which batches and markers are needed no more.

    kept: aborted ones of which there were still batches when their marker was met.
    """

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self.kept: list[Aborted] = []
        self._coming = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._aborted: dict[int, Aborted] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()

    def data(self, batch: Batch) -> bool:
        """Whether a data batch belongs to a transaction that was rolled back."""
        self._reach(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def marker(self, batch: Batch) -> bool:
        """Whether nothing is left of the transaction that a marker ends."""
        self._reach(batch.last_offset)
        records = batch.records()
        if not records:
            return True  # It was cleaned before, and only its header is left.
        kind, producer_id = read_control(records[0]).type, batch.producer_id
        if kind is ControlType.ABORT:
            ended = self._aborted.pop(producer_id, None)
            had_batches = producer_id in self._seen
            self._seen.discard(producer_id)
            if ended is not None and had_batches:
                self.kept.append(ended)
            return not (ended is not None and had_batches)
        if kind is ControlType.COMMIT:
            had_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_batches
        return False

    def _reach(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            one = self._coming.popleft()
            self._aborted.setdefault(one.producer_id, one)


class _Cleaner:
    """One round over a log: batch in, what is left of it out.

    newest: the last offset of each dirty key. last_of_each: of every producer, see Producers. end: of the round.
    """

    def __init__(
        self,
        newest: Mapping[bytes, int],
        aborted: Sequence[Aborted],
        *,
        log: PartitionLog,
        last_of_each: Mapping[int, tuple[int | None, int]],
        end: int,
        tombstones_ms: int,
        now_ms: int,
    ) -> None:
        self.transactions = _Transactions(aborted)
        self._log = log
        self._newest = newest
        self._last_of_each = last_of_each
        self._end = end
        self._tombstones_ms = tombstones_ms
        self._now_ms = now_ms

    def clean(self, stored: StoredBatch) -> StoredBatch | None:
        """The batch as it is, written anew, with its header alone, or None."""
        if stored.hidden:
            hidden, first = self._log.hidden, stored.base_offset
            is_kept = hidden is None or hidden.keeps(first, first + 1, self._log.high_watermark)
            return stored if is_kept else None
        batch = stored.header()
        is_unneeded = self.transactions.marker(batch) if batch.is_control else self.transactions.data(batch)
        horizon_ms = batch.delete_horizon_ms
        # The marker of a transaction that has gone stays as long as a tombstone does (KIP-534).
        is_over = horizon_ms is not None and horizon_ms <= self._now_ms
        drops_all = is_unneeded and (not batch.is_control or is_over)
        stays_empty = self._is_last_of_producer(batch) or batch.last_offset + 1 == self._end
        before = stored.records() if not drops_all or stays_empty else []
        after = [] if drops_all else [one for one in before if batch.is_control or self._stays(one, horizon_ms)]
        if not after:
            return _stored(stored, _empty(batch)) if stays_empty else None
        has_grave = any(record.value is None for record in after) or (is_unneeded and batch.is_control)
        if has_grave and horizon_ms is None:
            horizon_ms = self._now_ms + self._tombstones_ms
        elif len(after) == len(before):
            return stored
        return _stored(stored, _anew(batch, after, horizon_ms))

    def _stays(self, record: Record, horizon_ms: int | None) -> bool:
        """Whether a record is the last one of its key, and no tombstone whose time is over."""
        if record.key is None or record.offset < self._newest.get(record.key, -1):
            return False
        return record.value is not None or horizon_ms is None or self._now_ms < horizon_ms

    def _is_last_of_producer(self, batch: Batch) -> bool:
        """Whether the batch has a living producer's last sequence, or its last epoch."""
        last = self._last_of_each.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        last_offset, epoch = last
        if last_offset is not None:
            return batch.last_offset == last_offset
        return batch.is_control and batch.producer_epoch == epoch


def _anew(batch: Batch, records: Sequence[Record], horizon_ms: int | None) -> bytes:
    by_append = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return write_batch(
        records,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        codec=batch.codec,
        timestamp_type=batch.timestamp_type,
        max_timestamp=batch.max_timestamp if by_append else None,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        partition_leader_epoch=batch.partition_leader_epoch,
        delete_horizon_ms=horizon_ms,
    )


def _empty(batch: Batch) -> bytes:
    return write_batch(
        [],
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        codec=Codec.NONE,
        timestamp_type=batch.timestamp_type,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        partition_leader_epoch=batch.partition_leader_epoch,
    )


def _stored(before: StoredBatch, raw: bytes) -> StoredBatch:
    header = parse_header(raw)
    return StoredBatch(
        before.base_offset, before.last_offset, len(raw), memoryview(raw), header.max_timestamp, before.leader_epoch
    )
