"""The log of one partition: batches in memory, in order of their offsets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from enum import Enum

from kwire.error_codes import ErrorCode
from kwire.records import (
    Batch,
    ControlType,
    parse_header,
    place,
    with_append_time,
    write_marker,
)
from mockbroker.kafka_error import KafkaError
from mockbroker.state.batch_rules import (
    TopicRules,
    check_batch,
    check_size,
    examine,
    read_one_batch,
)
from mockbroker.state.epochs import Epochs
from mockbroker.state.hidden import Hidden, first_seen, seen
from mockbroker.state.producers import Aborted, Producers
from mockbroker.state.segments import Segments
from mockbroker.state.stored import Appended, LogSlice, OffsetAtTime, StoredBatch
from mockbroker.state.verification import NO_GUARD, Guard, Verifications

__all__ = ["Appended", "LogSlice", "OffsetAtTime", "Origin", "PartitionLog", "StoredBatch"]


class Origin(Enum):
    """Who appends: a client, whose batches are checked, or the broker itself."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class PartitionLog:
    """Appends, reads and forgets batches.

    rules: the topic's configuration, asked for at each append. moved: called after each append, and after each move of
    the start or of the high watermark. A replica that follows has a record as soon as its leader has, so the high
    watermark is the end of the log unless it is held (`mockbroker.state.replicas`). grown: called instead of `moved`
    where nobody who waits for records is concerned. hidden: the offsets that no reader is given; None without any.
    """

    def __init__(
        self,
        rules: Callable[[], TopicRules],
        moved: Callable[[], None] = lambda: None,
        grown: Callable[[], None] = lambda: None,
    ) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.producers = Producers()
        self.segments = Segments()
        self._verifications = Verifications()
        self._rules = rules
        self._moved = moved
        self._grown = grown
        self.hidden: Hidden | None = None
        self._batches: list[StoredBatch] = []
        self._last_offsets: list[int] = []
        self._newest: list[int] = []
        self._epochs = Epochs()
        self._held: int | None = None

    @property
    def high_watermark(self) -> int:
        """The first offset that not all replicas in sync have; where readers end."""
        return self.end_offset if self._held is None else self._held

    def hold(self, offset: int | None) -> None:
        """Keep the high watermark at an offset while the log grows; None lets it follow the end again."""
        before, self._held = self.high_watermark, offset
        if self.high_watermark != before:
            self._moved()

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction, else the high watermark: where read_committed ends.

        A transaction whose first records are deleted begins where the log does.
        """
        unstable = self.producers.first_unstable_offset
        return self.high_watermark if unstable is None else max(self.start_offset, min(unstable, self.high_watermark))

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(batch.size for batch in self._batches)

    @property
    def leader_epoch(self) -> int:
        """The epoch that appends are stamped with, 0 at first."""
        return self._epochs.latest

    def begin_epoch(self, leader_epoch: int) -> None:
        """A leader takes over: its epoch begins at the end of the log."""
        self._epochs.begin(leader_epoch, self.end_offset)

    def begin_verification(self, producer_id: int, epoch: int, sequence: int, *, adds: bool) -> Guard:
        """What a transactional batch has to be appended with; NO_GUARD when its transaction is open here already.

        adds: the coordinator is told to add the partition, not only asked whether it did.
        Raises: INVALID_PRODUCER_EPOCH.
        """
        if self.producers.is_open(producer_id, epoch):
            return NO_GUARD
        return self._verifications.begin(producer_id, epoch, sequence, adds=adds)

    def append(
        self,
        data: bytes | bytearray | memoryview,
        *,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        guard: Guard | None = None,
    ) -> Appended:
        """Append the one batch that `data` is, at the end of the log.

        guard: of a transactional batch, None when nobody has to be asked.
        Raises: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP (RecordsRefusedError when single records are wrong),
        MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER,
        INVALID_TXN_STATE.
        """
        rules = self._rules()
        batch = read_one_batch(data)
        written: bytes | None = None
        if origin is Origin.CLIENT:
            check_batch(batch, rules)
            written = examine(batch, rules, now_ms=now_ms)
            check_size(batch.size, rules)
            if batch.producer_id >= 0:
                again = self.producers.duplicate(batch)
                if again is not None:
                    return Appended(again.first_offset, again.last_offset, again.timestamp, duplicate=True)
                self._check_guard(batch, guard, origin)
                self.producers.check(batch)
        else:
            self._check_guard(batch, guard, origin)
        if written is None and rules.append_time:
            written = with_append_time(data, now_ms)
        max_timestamp = batch.max_timestamp if written is None else parse_header(written).max_timestamp
        first_offset = self._store(bytearray(data if written is None else written), batch, max_timestamp, now_ms)
        if batch.producer_id >= 0 and not batch.is_control:
            self.producers.wrote(batch, first_offset, max_timestamp)
            if batch.is_transactional:
                self._verifications.written(batch.producer_id)
        self._moved()
        return Appended(first_offset, self.end_offset - 1, now_ms if rules.append_time else -1)

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
        """End a producer's transaction with a control batch; returns the marker's offset."""
        self.producers.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version=transaction_version
        )
        data = write_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=now_ms,
        )
        offset = self._store(bytearray(data), parse_header(data), now_ms, now_ms)
        self.producers.ended(
            producer_id, producer_epoch, coordinator_epoch, marker_offset=offset, timestamp=now_ms, commit=commit
        )
        self._verifications.ended(producer_id, producer_epoch)
        self._moved()
        return offset

    def append_hidden(self, data: bytes, *, now_ms: int) -> int:
        """Append a batch of one record that no reader is given, and wake nobody; returns its offset."""
        offset = self._store(bytearray(data), parse_header(data), now_ms, now_ms, hidden=True)
        self._grown()
        return offset

    def readable_end(self, end: int) -> int:
        """Where the log ends for readers: hidden batches right before its end do not count."""
        return end if self.hidden is None else self.hidden.end_before(end)

    def has_between(self, first: int, end: int) -> bool:
        """Whether there is a batch for readers with an offset from `first` up to, not including, `end`."""
        at = bisect_left(self._last_offsets, first)
        at = first_seen(self._batches, at, len(self._batches))
        return at < len(self._batches) and self._batches[at].base_offset < end

    def from_offset(self, offset: int) -> list[StoredBatch]:
        """All batches that end at an offset or behind it, the hidden ones too."""
        return self._batches[bisect_left(self._last_offsets, offset) :]

    def read(
        self, offset: int, max_bytes: int, *, min_one: bool = True, up_to: int | None = None, cuts: bool = False
    ) -> LogSlice:
        """Whole batches from the one that holds `offset` on, as many as fit into `max_bytes`, out of one segment.

        After compaction there may be none that holds the offset; then the next one is the first. min_one: give the
        first batch even when it does not fit. up_to: end before this offset, by default the high watermark. cuts: fill
        up `max_bytes` with the beginning of the batch that does not fit.
        Raises: OFFSET_OUT_OF_RANGE outside of the log; at its end there is simply nothing.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within {self.start_offset} to {self.end_offset}",
            )
        end = self.high_watermark if up_to is None else min(up_to, self.high_watermark)
        first = bisect_left(self._last_offsets, offset)
        last = bisect_left(self._last_offsets, end)
        if self.hidden is not None:
            first = first_seen(self._batches, first, last)
        if first < last:
            segment_end = self.segments.end_of(self._batches[first].base_offset)
            if segment_end is not None and segment_end < end:
                last = bisect_left(self._last_offsets, segment_end)
        if self.hidden is not None:
            return LogSlice(*seen(self._batches[first:last], max_bytes, min_one=min_one))
        total, taken = 0, first
        while taken < last:
            size = self._batches[taken].size
            if total + size > max_bytes and not (min_one and taken == first):
                break
            total += size
            taken += 1
        cut = self._batches[taken].raw[: max(0, max_bytes - total)] if cuts and taken < last else b""
        return LogSlice(self._batches[first:taken], total, cut)

    def offset_for_timestamp(self, timestamp: int) -> OffsetAtTime | None:
        """The first record from the log's start on whose timestamp is this or later, or None."""
        # The largest timestamps so far never fall, so the first batch that reaches the time is found by bisection.
        for batch in self._batches[bisect_left(self._newest, timestamp) :]:
            if batch.max_timestamp < timestamp or batch.hidden:
                continue
            for record in batch.records():
                if record.timestamp >= timestamp and record.offset >= self.start_offset:
                    return OffsetAtTime(record.offset, record.timestamp, batch.leader_epoch)
        return None

    def offset_of_max_timestamp(self) -> OffsetAtTime | None:
        """The first record with the largest timestamp of the log, or None when it is empty."""
        if not self._newest:
            return None
        newest = self._newest[-1]
        for batch in self._batches[bisect_left(self._newest, newest) :]:
            for record in batch.records():
                if record.timestamp == newest:
                    return OffsetAtTime(record.offset, newest, batch.leader_epoch)
        return None

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[Aborted]:
        """Aborted transactions that overlap the offsets from `first_offset` up to, not including, `end_offset`."""
        return self.producers.aborted(first_offset, end_offset)

    def delete_before(self, offset: int) -> int:
        """Move the log's start; returns where it is now. -1 stands for the high watermark.

        Raises: OFFSET_OUT_OF_RANGE beyond the high watermark. A start below the present one changes nothing.
        """
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset}, high watermark {self.high_watermark}")
        if target > self.start_offset:
            self.start_offset = target
            gone = bisect_left(self._last_offsets, target)
            self._put(gone, [])
            if self.hidden is not None:
                self.hidden.replace_below(target, ())
            self.producers.drop_below(target)
            self._moved()
        return self.start_offset

    def below(self, offset: int) -> list[StoredBatch]:
        """All batches that end below an offset."""
        return self._batches[: bisect_left(self._last_offsets, offset)]

    def replace_below(self, offset: int, batches: list[StoredBatch], aborted: list[Aborted]) -> None:
        """Put what the cleaner has left in the place of all batches and aborted transactions below an offset."""
        self._put(bisect_left(self._last_offsets, offset), batches)
        if self.hidden is not None:
            self.hidden.replace_below(offset, (batch.base_offset for batch in batches if batch.hidden))
        self.producers.replace_aborted_below(offset, aborted)

    def epoch_end(self, leader_epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to this one, and where it ends; None for one that is unknown or still to come."""
        return self._epochs.end_of(leader_epoch, self.end_offset)

    def epoch_at_start(self) -> int | None:
        """The epoch of the log's first record, None when it is not known."""
        return self._epochs.at(self.start_offset)

    def truncate(self, offset: int) -> list[StoredBatch]:
        """Forget everything from an offset on, as a replica does that had more than the new leader; returns it.

        Producers are what the records that are left make of them, and nobody waits for a word about a batch any more.
        Source: Kafka's UnifiedLog.truncateTo.
        """
        at = bisect_left(self._last_offsets, offset)
        cut = self._batches[at:]
        del self._batches[at:], self._last_offsets[at:], self._newest[at:]
        self.end_offset = offset
        self.start_offset = min(self.start_offset, offset)
        if self._held is not None:
            self._held = min(self._held, offset)
        self._epochs.truncate(offset)
        if self.hidden is not None:
            self.hidden.truncate(offset)
        self.segments.truncate(offset)
        self.producers = self.producers.truncated(offset, self._batches)
        self._verifications = Verifications()
        self._moved()
        return cut

    def restore(self, batches: list[StoredBatch]) -> None:
        """Put back batches that were cut off, at their own offsets and in their own epochs."""
        for batch in batches:
            self._epochs.begin(batch.leader_epoch, batch.base_offset)
            self._batches.append(batch)
            self._last_offsets.append(batch.last_offset)
            self._remember(batch)
            timestamp = batch.max_timestamp
            self.segments.appended(batch.base_offset, batch.size, timestamp, self._rules().roll, now_ms=timestamp)
            self.end_offset = batch.last_offset + 1
            if batch.hidden:
                self._hide(batch.base_offset)
        self.producers.replay(batches)

    def _check_guard(self, batch: Batch, guard: Guard | None, origin: Origin) -> None:
        is_open = self.producers.is_open(batch.producer_id, batch.producer_epoch)
        if guard is not None and batch.is_transactional and not is_open:
            self._verifications.check(batch, guard)
        if origin is Origin.CLIENT:
            is_first = not self.producers.has_written(batch.producer_id)
            self._verifications.check_sequence(batch, is_first=is_first)

    def _store(self, raw: bytearray, batch: Batch, max_timestamp: int, now_ms: int, *, hidden: bool = False) -> int:
        first_offset = self.end_offset
        last_offset = first_offset + batch.last_offset - batch.base_offset
        epoch = self.leader_epoch
        place(raw, first_offset, epoch)
        stored = StoredBatch(first_offset, last_offset, len(raw), memoryview(raw), max_timestamp, epoch, hidden)
        self._batches.append(stored)
        self._last_offsets.append(last_offset)
        self._remember(stored)
        self.segments.appended(first_offset, len(raw), max_timestamp, self._rules().roll, now_ms=now_ms)
        self.end_offset = last_offset + 1
        if hidden:
            self._hide(first_offset)
        return first_offset

    def _put(self, count: int, batches: list[StoredBatch]) -> None:
        """Put others in the place of the first batches."""
        self._batches[:count] = batches
        self._last_offsets[:count] = [batch.last_offset for batch in batches]
        self._newest = []
        for batch in self._batches:
            self._remember(batch)

    def _hide(self, offset: int) -> None:
        if self.hidden is None:
            self.hidden = Hidden()
        self.hidden.add(offset)

    def _remember(self, batch: StoredBatch) -> None:
        timestamp = -1 if batch.hidden else batch.max_timestamp
        self._newest.append(max(timestamp, self._newest[-1]) if self._newest else timestamp)
