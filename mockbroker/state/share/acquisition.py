"""Acquisition of records for a member, out of record batches read from the log: share-semantics 1.5 to 2.7."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share import delivery_throttle
from mockbroker.state.share.extensions import LogBatch, ReadAhead, RecordSpan
from mockbroker.state.share.in_flight_batch import NO_MEMBER, InFlightBatch, InFlightState, RecordState
from mockbroker.state.share.share_history import HistoryEvent
from mockbroker.state.share.share_partition import PartitionStatus, SharePartition
from mockbroker.state.storage.hidden_batches import HiddenBatches


class AcquireMode(IntEnum):
    """Meaning of a client's MaxRecords: a soft limit on record-batch boundaries, or a strict limit (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class Span(NamedTuple):
    """A plain record span."""

    base_offset: int
    last_offset: int


class AcquiredRun(NamedTuple):
    """A run of offsets that a member now holds, and the delivery count after this delivery."""

    first: int
    last: int
    delivery_count: int


class Acquisition(msgspec.Struct):
    """One acquisition: the member, the record batches read for it, and its limits."""

    partition: SharePartition
    member_id: str
    now_ms: int
    mode: AcquireMode
    batch_size: int
    record_limit: int
    spans: Sequence[RecordSpan]
    last: int
    runs: list[AcquiredRun] = msgspec.field(default_factory=list)
    count: int = 0

    @property
    def remaining_count(self) -> int:
        """How many more records may be acquired."""
        return self.record_limit - self.count

    def acquire_spans(self, fetch_offset: int) -> bool:
        """Acquire what was read; whether more may be acquired behind it. Source: share-semantics 2.3.

        Raises: UNKNOWN_SERVER_ERROR where a full window ends before what was read, since compaction removed its
        records: 4.3.0's SharePartition.acquire requests a range of its map that ends before it begins. The next fetch
        succeeds.
        """
        window, first = self.partition.window, self.spans[0].base_offset
        self._archive_compacted(fetch_offset, first)
        if first > self.last:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"read from {first}, and may acquire up to {self.last}")
        base, floor = first, window.floor(first)
        if floor is None:
            base = max(base, window.start_offset)
        elif floor.last >= base:
            base = floor.first
        batches = window.starting_between(min(first, base), self.last)
        if not batches:
            self._acquire_new(base, self.last, self.remaining_count)
            return True
        if not self._acquire_cached(batches, base, first):
            return False
        if self.remaining_count > 0 and batches[-1].last < self.last:
            self._acquire_new(batches[-1].last + 1, self.last, self.remaining_count)
        if self.runs:
            window.advance_gap(self.runs[-1].last + 1)
        return True

    def acquire_in_flight(self, fetch_offset: int) -> None:
        """Acquire only records in flight: what was read is in the window already, as far as the limit allows."""
        window, first = self.partition.window, self.spans[0].base_offset
        self._archive_compacted(fetch_offset, first)
        floor = window.floor(first)
        base = floor.first if floor is not None and floor.last >= first else first
        self._acquire_cached(window.starting_between(base, self.last), base, first, fills_gaps=False)

    def _archive_compacted(self, fetch_offset: int, base: int) -> None:
        """Archive the offsets between the fetch offset and the first batch read: compaction removed them (2.7)."""
        partition, window = self.partition, self.partition.window
        if not window or fetch_offset >= base or not partition.rules.acquisition.archives_compacted_records:
            return
        floor = window.floor(fetch_offset)
        low = floor.first if floor is not None and floor.last >= fetch_offset else fetch_offset
        compacted, reason = window.starting_between(low, base - 1), (HistoryEvent.COMPACTED, self.now_ms)
        offsets = range(fetch_offset, base)
        window.delivery_complete_count += window.archive_offsets(offsets, compacted, RecordState.AVAILABLE, reason)

    def _acquire_cached(self, batches: list[InFlightBatch], base: int, first: int, *, fills_gaps: bool = True) -> bool:
        """Acquire the available records of batches in flight; whether new records may follow."""
        partition, next_offset = self.partition, base
        limit = partition.delivery_limit
        window, throttles = partition.window, partition.rules.acquisition.throttles_redelivery
        for batch in batches:
            if self.remaining_count <= 0:
                break
            if fills_gaps and window.gap_is_open:
                if next_offset < batch.first:
                    self._acquire_new(next_offset, batch.first - 1, self.remaining_count)
                next_offset = batch.last + 1
                if self.remaining_count <= 0:
                    break
            is_throttled = throttles and delivery_throttle.needs_throttling(batch, first, self.last, limit)
            if is_throttled and self.count:
                return self._end_throttled()
            fits = self.mode is AcquireMode.BATCH_OPTIMIZED or len(batch) <= self.remaining_count
            is_full = first <= batch.first and batch.last <= self.last
            whole = batch.batch_state
            if whole is not None and not whole.is_acquirable:
                continue
            if whole is not None and is_full and fits and not is_throttled:
                self._acquire_batch(batch, whole)
                continue
            window.split_batch(batch)
            if self._acquire_subset(batch, first) and is_throttled:
                return self._end_throttled()
        return True

    def _end_throttled(self) -> bool:
        """End the acquisition: nothing else is delivered together with a throttled batch."""
        if self.runs:
            self.partition.window.advance_gap(self.runs[-1].last + 1)
        return False

    def _acquire_batch(self, batch: InFlightBatch, state: InFlightState) -> None:
        lock = self.partition.start_lock(batch.first, batch.last, now_ms=self.now_ms)
        state.acquire_for(self.member_id, lock)
        self.runs.append(AcquiredRun(batch.first, batch.last, state.delivery_count))
        self.count += len(batch)

    def _acquire_subset(self, batch: InFlightBatch, first: int) -> int:
        """Acquire the available records of a split batch, within what was read (share-semantics 1.5)."""
        limit, rules = self.partition.delivery_limit, self.partition.rules.acquisition
        remaining, cap, count = self.remaining_count, None, 0
        runs: list[AcquiredRun] = []
        for offset, state in batch.states_between(first, self.last):
            if not state.is_acquirable:
                continue
            throttles = rules.throttles_redelivery
            is_last_attempt = throttles and delivery_throttle.is_last_attempt(state.delivery_count, limit)
            if is_last_attempt and count:
                break
            if cap is None and throttles and state.delivery_count >= delivery_throttle.throttle_threshold(limit):
                cap = delivery_throttle.record_cap(len(batch), state.delivery_count, limit)
            lock = self.partition.start_lock(offset, offset, now_ms=self.now_ms)
            state.acquire_for(self.member_id, lock)
            count += 1
            continues = runs and runs[-1].last + 1 == offset and runs[-1].delivery_count == state.delivery_count
            if continues and rules.merges_runs:
                runs[-1] = runs[-1]._replace(last=offset)
            else:
                runs.append(AcquiredRun(offset, offset, state.delivery_count))
            if is_last_attempt or count == cap or (self.mode is AcquireMode.RECORD_LIMIT and count == remaining):
                break
        self.runs += runs
        self.count += count
        return count

    def _acquire_new(self, first: int, last: int, limit: int) -> None:
        """Acquire offsets that were not in flight, rounded up to record batches (share-semantics 1.6, 2.4)."""
        window, is_strict = self.partition.window, self.mode is AcquireMode.RECORD_LIMIT
        if not window:
            first = max(first, window.end_offset)
        end = last
        if limit < last - first + 1:
            end = self._end_of_span(first + limit - 1)
            if window.gap_is_open:
                end = min(end, last)  # The stored batch after the gap begins right there.
        runs = self._divide_range(first, end)
        if is_strict and end - first + 1 > limit:
            runs = [AcquiredRun(first, first + limit - 1, 1)]
            self._add_partly_acquired(first, end, limit)
        else:
            for run in runs:
                lock = self.partition.start_lock(run.first, run.last, now_ms=self.now_ms)
                state = InFlightState(RecordState.ACQUIRED, 1, self.member_id, lock)
                window.put(InFlightBatch(run.first, run.last, state))
        if window.first.first == first:
            window.start_offset = first
        window.end_offset = max(window.end_offset, end)
        acquired_end = runs[0].last if is_strict else end
        window.advance_gap(acquired_end + 1)
        self.runs += runs
        self.count += acquired_end - first + 1

    def _end_of_span(self, offset: int) -> int:
        """The last offset of the record batch with this offset; the offset itself if there is none."""
        first_span = self.spans[0]
        if first_span.base_offset <= offset <= first_span.last_offset:
            return first_span.last_offset
        at = bisect_right(self.spans, offset, key=lambda span: span.base_offset)
        return max(offset, self.spans[at - 1].last_offset) if at else offset

    def _divide_range(self, first: int, last: int) -> list[AcquiredRun]:
        """Runs of at least BatchSize, divided between record batches.

        A BatchSize of 0 puts the empty run (0, -1) in front, as in 4.3.0 (share-semantics 1.6).
        """
        runs = []
        if self.mode is AcquireMode.BATCH_OPTIMIZED and last - first + 1 > self.batch_size:
            for span in self.spans:
                if span.base_offset > last:
                    break
                if span.base_offset - first >= self.batch_size:
                    runs.append(AcquiredRun(first, span.base_offset - 1, 1))
                    first = span.base_offset
        return [*runs, AcquiredRun(first, last, 1)]

    def _add_partly_acquired(self, first: int, last: int, limit: int) -> None:
        """A strict limit inside a record batch: the rest of it is in flight too, available and not yet delivered."""
        partition = self.partition
        batch = InFlightBatch(first, last, InFlightState(RecordState.ACQUIRED, 1, self.member_id))
        states = []
        for offset in range(first, last + 1):
            if offset < first + limit:
                lock = partition.start_lock(offset, offset, now_ms=self.now_ms)
                states.append(InFlightState(RecordState.ACQUIRED, 1, self.member_id, lock))
            else:
                states.append(InFlightState(RecordState.AVAILABLE, 0, NO_MEMBER))
        batch.replace_states(states)
        partition.window.put(batch)
        partition.window.mark_acquirable(batch)


def acquire_records(
    partition: SharePartition,
    member_id: str,
    spans: Sequence[RecordSpan],
    *,
    now_ms: int,
    fetch_offset: int | None = None,
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
    batch_size: int = 500,
    max_records: int = 500,
    aborted: Sequence[RecordSpan] = (),
) -> list[AcquiredRun]:
    """Acquire records for a member out of record batches that were read from the log.

    Args: fetch_offset: where the read began, by default where the next fetch begins. max_records: the rest of the
    request's limit. aborted: the batches of aborted transactions, for a read-committed group;
    they are acquired, archived and left out of the result, and count against the limit (share-semantics 2.10).
    Raises: UNKNOWN_SERVER_ERROR where 4.3.0 does not find an aborted batch; what was acquired stays acquired.
    """
    window = partition.window
    if partition.marker_reader is not None:
        partition.marker_reader.release_all(window)
    if fetch_offset is None:
        fetch_offset = partition.next_fetch_offset()
    if partition.status is not PartitionStatus.ACTIVE or max_records <= 0 or not spans:
        return []
    last = spans[-1].last_offset
    if last < window.start_offset:
        return []
    limit = max_records
    if partition.rules.acquisition.stops_at_in_flight_limit:
        limit = min(max_records, partition.in_flight_limit - window.in_flight_count)
    if limit <= 0 and fetch_offset <= window.end_offset:
        # The limit leaves no new records, but some of those in flight may be available again (share-semantics 2.6).
        limit = min(max_records, window.end_offset - fetch_offset + 1)
        last = min(last, window.end_offset)
    if limit <= 0:
        return []
    acquisition = Acquisition(partition, member_id, now_ms, mode, batch_size, limit, spans, last)
    if window.hidden is None:
        acquisition.acquire_spans(fetch_offset)
    else:
        _acquire_between_hidden(window.hidden, acquisition, fetch_offset)
    _record_history(acquisition)
    if not aborted:
        return acquisition.runs
    return _subtract_spans(acquisition.runs, _archive_aborted(partition, aborted, now_ms))


def acquire_committed_records(
    partition: SharePartition,
    member_id: str,
    batches: Sequence[LogBatch],
    read_ahead: ReadAhead,
    *,
    now_ms: int,
    fetch_offset: int,
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
    batch_size: int = 500,
    max_records: int = 500,
) -> list[AcquiredRun]:
    """As `acquire_records`, for a read-committed group whose leader reads transaction markers (rule `marker_reader`).

    Args: read_ahead: reads the log up to the high watermark, where a full window waits for markers.
    """
    window, reader = partition.window, partition.marker_reader
    is_stale = not batches or batches[-1].last_offset < window.start_offset
    if partition.status is not PartitionStatus.ACTIVE or max_records <= 0 or is_stale:
        return []
    assert reader is not None
    archived = reader.add_batches(window, batches, read_ahead, limit=partition.in_flight_limit, now_ms=now_ms)
    if archived:
        window.advance_start()
        written = [batch for batch in archived if batch.last >= window.start_offset]
        partition.send_write(partition, partition.prepare_write(written, []), now_ms)
    last = batches[-1].last_offset
    acquisition = Acquisition(partition, member_id, now_ms, mode, batch_size, max_records, batches, last)
    acquisition.acquire_in_flight(fetch_offset)
    _record_history(acquisition)
    return acquisition.runs


def _acquire_between_hidden(hidden: HiddenBatches, acquisition: Acquisition, fetch_offset: int) -> None:
    """Acquire what was read run by run: hidden offsets in between are never in flight."""
    spans, last = acquisition.spans, acquisition.last
    run_start = 0
    for at, span in enumerate(spans):
        is_end = at + 1 == len(spans) or hidden.count_between(span.last_offset + 1, spans[at + 1].base_offset) > 0
        if not is_end:
            continue
        acquisition.spans, acquisition.last = spans[run_start : at + 1], min(span.last_offset, last)
        run_start = at + 1
        first = acquisition.spans[0].base_offset
        if first > acquisition.last:
            return
        if acquisition.last < acquisition.partition.window.start_offset:
            continue
        if not acquisition.acquire_spans(fetch_offset) or acquisition.remaining_count <= 0:
            return
        fetch_offset = acquisition.last + 1


def _record_history(acquisition: Acquisition) -> None:
    history = acquisition.partition.history
    for first, last, delivery_count in acquisition.runs:
        if first <= last:
            history.record_acquisition(first, last, acquisition.member_id, delivery_count, now_ms=acquisition.now_ms)


def _archive_aborted(partition: SharePartition, aborted: Sequence[RecordSpan], now_ms: int) -> Sequence[RecordSpan]:
    window, reason = partition.window, (HistoryEvent.ABORTED, now_ms)
    for span in aborted:
        floor = window.floor(span.base_offset)
        if floor is None:
            # The log's start, and the window's with it, is inside the batch: 4.3.0 does not find its first offset.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"nothing in flight at {span.base_offset} or before it")
        batches = window.starting_between(floor.first, span.last_offset)
        offsets = range(span.base_offset, span.last_offset + 1)
        window.delivery_complete_count += window.archive_offsets(offsets, batches, RecordState.ACQUIRED, reason)
    return aborted


def _subtract_spans(runs: list[AcquiredRun], spans: Sequence[RecordSpan]) -> list[AcquiredRun]:
    """The acquired runs without these spans; both are sorted."""
    for span in spans:
        rest: list[AcquiredRun] = []
        for run in runs:
            if run.last < span.base_offset or span.last_offset < run.first:
                rest.append(run)
                continue
            if run.first < span.base_offset:
                rest.append(run._replace(last=span.base_offset - 1))
            if run.last > span.last_offset:
                rest.append(run._replace(first=span.last_offset + 1))
        runs = rest
    return runs
