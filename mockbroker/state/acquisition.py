"""Acquiring: which of the records just read from the log a member gets, and in what pieces: share-semantics 1.5-2.7."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state import in_flight, throttle
from mockbroker.state.hidden import Hidden
from mockbroker.state.in_flight import NOBODY, InFlight, InFlightBatch, State
from mockbroker.state.share_history import Happening
from mockbroker.state.share_partition import SharePartition, Status
from mockbroker.state.start_offset import archive
from mockbroker.state.uncommitted import LogBatch, ReadOn, let_go, take_in


class AcquireMode(IntEnum):
    """How a client wants MaxRecords to be understood: soft, on record-batch boundaries, or strict (KIP-1206)."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class RecordSpan(Protocol):
    """A record batch of the log, as far as acquisition is concerned."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""
        ...

    @property
    def last_offset(self) -> int:
        """Its last offset."""
        ...


class Span(NamedTuple):
    """A plain record span."""

    base_offset: int
    last_offset: int


class Acquired(NamedTuple):
    """A run of offsets that a member now holds, and the delivery count after this delivery."""

    first: int
    last: int
    delivery_count: int


@dataclass(slots=True)
class Acquisition:
    """One call: a member, what was read for it, and how much it may have."""

    partition: SharePartition
    member_id: str
    now_ms: int
    mode: AcquireMode
    batch_size: int
    record_limit: int
    spans: Sequence[RecordSpan]
    last: int
    result: list[Acquired] = field(default_factory=list)
    count: int = 0

    @property
    def room(self) -> int:
        """How many more records may be acquired."""
        return self.record_limit - self.count

    def run(self, fetch_offset: int) -> bool:
        """Whether more may be acquired behind what was read. Source: share-semantics 2.3.

        Raises: UNKNOWN_SERVER_ERROR where a full window ends before what was read, since compaction took what was in
        it: 4.3.0's SharePartition.acquire asks its map for a range that ends before it begins. The next fetch goes on.
        """
        partition, first = self.partition, self.spans[0].base_offset
        self._archive_missing(fetch_offset, first)
        if first > self.last:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"read from {first}, and may acquire up to {self.last}")
        base, floor = first, partition.window.floor(first)
        if floor is None:
            base = max(base, partition.start_offset)
        elif floor.last >= base:
            base = floor.first
        batches = partition.window.starting(min(first, base), self.last)
        if not batches:
            self._take_new(base, self.last, self.room)
            return True
        if not self._take_cached(batches, base, first):
            return False
        if self.room > 0 and batches[-1].last < self.last:
            self._take_new(batches[-1].last + 1, self.last, self.room)
        if self.result:
            partition.move_gap(self.result[-1].last + 1)
        return True

    def run_in_flight(self, fetch_offset: int) -> None:
        """Acquire out of what is in flight alone: what was read is so already, and what is not has no room."""
        first = self.spans[0].base_offset
        self._archive_missing(fetch_offset, first)
        floor = self.partition.window.floor(first)
        base = floor.first if floor is not None and floor.last >= first else first
        self._take_cached(self.partition.window.starting(base, self.last), base, first, fills_holes=False)

    def _archive_missing(self, fetch_offset: int, base: int) -> None:
        """The log has nothing from the fetch offset to the first batch read: compaction took it (2.7)."""
        partition = self.partition
        if not partition.window or fetch_offset >= base or not partition.rules.archives_missing:
            return
        floor = partition.window.floor(fetch_offset)
        low = floor.first if floor is not None and floor.last >= fetch_offset else fetch_offset
        stale = partition.window.starting(low, base - 1)
        why = (Happening.COMPACTED, self.now_ms)
        partition.delivery_complete_count += archive(partition, range(fetch_offset, base), stale, State.AVAILABLE, why)

    def _take_cached(
        self, batches: Sequence[InFlightBatch], base: int, first: int, *, fills_holes: bool = True
    ) -> bool:
        """Deliver again what is free; whether new records may follow."""
        partition, expected = self.partition, base
        for batch in batches:
            if self.room <= 0:
                break
            if fills_holes and partition.gap_is_open:
                if expected < batch.first:
                    self._take_new(expected, batch.first - 1, self.room)
                expected = batch.last + 1
                if self.room <= 0:
                    break
            throttled = partition.rules.throttles and throttle.needs_throttling(
                batch, first, self.last, partition.delivery_limit
            )
            if throttled and self.count:
                return self._stop()
            fits = self.mode is AcquireMode.BATCH_OPTIMIZED or len(batch) <= self.room
            is_full = first <= batch.first and batch.last <= self.last
            if batch.whole is not None and not batch.whole.is_free:
                continue
            if batch.whole is not None and is_full and fits and not throttled:
                self._take_whole(batch, batch.whole)
                continue
            partition.split(batch)
            if self._take_some(batch, first) and throttled:
                return self._stop()
        return True

    def _stop(self) -> bool:
        """A careful delivery is on its way: nothing else goes with it."""
        if self.result:
            self.partition.move_gap(self.result[-1].last + 1)
        return False

    def _take_whole(self, batch: InFlightBatch, whole: InFlight) -> None:
        lock = self.partition.start_lock(batch.first, batch.last, now_ms=self.now_ms)
        in_flight.acquire(whole, self.member_id, lock)
        self.result.append(Acquired(batch.first, batch.last, whole.delivery_count))
        self.count += len(batch)

    def _take_some(self, batch: InFlightBatch, first: int) -> int:
        """Acquire what is free of a split batch, within what was read (share-semantics 1.5, subset routine)."""
        limit, rules = self.partition.delivery_limit, self.partition.rules
        room, cap, taken = self.room, None, 0
        runs: list[Acquired] = []
        for offset, entry in batch.within(first, self.last):
            if not entry.is_free:
                continue
            is_last_attempt = rules.throttles and throttle.is_last_attempt(entry.delivery_count, limit)
            if is_last_attempt and taken:
                break
            if cap is None and rules.throttles and entry.delivery_count >= throttle.threshold(limit):
                cap = throttle.record_cap(len(batch), entry.delivery_count, limit)
            lock = self.partition.start_lock(offset, offset, now_ms=self.now_ms)
            in_flight.acquire(entry, self.member_id, lock)
            taken += 1
            goes_on = runs and runs[-1].last + 1 == offset and runs[-1].delivery_count == entry.delivery_count
            if goes_on and rules.joins_runs:
                runs[-1] = runs[-1]._replace(last=offset)
            else:
                runs.append(Acquired(offset, offset, entry.delivery_count))
            if is_last_attempt or taken == cap or (self.mode is AcquireMode.RECORD_LIMIT and taken == room):
                break
        self.result += runs
        self.count += taken
        return taken

    def _take_new(self, first: int, last: int, limit: int) -> None:
        """Acquire offsets that were not in flight, rounded up to record batches (share-semantics 1.6, 2.4)."""
        partition = self.partition
        if not partition.window:
            first = max(first, partition.end_offset)
        end = last
        if limit < last - first + 1:
            end = self._end_of_span(first + limit - 1)
            if partition.gap_is_open:
                end = min(end, last)  # The stored batch after the hole begins right there.
        pieces = self._cut(first, end)
        if self.mode is AcquireMode.RECORD_LIMIT and end - first + 1 > limit:
            pieces = [Acquired(first, first + limit - 1, 1)]
            self._add_with_tail(first, end, limit)
        else:
            for piece in pieces:
                lock = partition.start_lock(piece.first, piece.last, now_ms=self.now_ms)
                whole = InFlight(State.ACQUIRED, 1, self.member_id, lock)
                partition.window.put(InFlightBatch(piece.first, piece.last, whole))
        if partition.window.first.first == first:
            partition.start_offset = first
        partition.end_offset = max(partition.end_offset, end)
        taken_end = pieces[0].last if self.mode is AcquireMode.RECORD_LIMIT else end
        partition.move_gap(taken_end + 1)
        self.result += pieces
        self.count += taken_end - first + 1

    def _end_of_span(self, offset: int) -> int:
        """The last offset of the record batch that holds this offset; the offset itself when none does."""
        at = bisect_right(self.spans, offset, key=lambda span: span.base_offset)
        return max(offset, self.spans[at - 1].last_offset) if at else offset

    def _cut(self, first: int, last: int) -> list[Acquired]:
        """Pieces of at least BatchSize, cut between record batches.

        A BatchSize of 0 gives the empty piece (0, -1) in front, as in 4.3.0 (correction 9).
        """
        pieces = []
        if self.mode is AcquireMode.BATCH_OPTIMIZED and last - first + 1 > self.batch_size:
            for span in self.spans:
                if span.base_offset > last:
                    break
                if span.base_offset - first >= self.batch_size:
                    pieces.append(Acquired(first, span.base_offset - 1, 1))
                    first = span.base_offset
        return [*pieces, Acquired(first, last, 1)]

    def _add_with_tail(self, first: int, last: int, limit: int) -> None:
        """A strict limit inside a record batch: the rest of it is in flight too, available and not yet delivered."""
        partition = self.partition
        batch = InFlightBatch(first, last, InFlight(State.ACQUIRED, 1, self.member_id))
        entries = []
        for offset in range(first, last + 1):
            if offset < first + limit:
                lock = partition.start_lock(offset, offset, now_ms=self.now_ms)
                entries.append(InFlight(State.ACQUIRED, 1, self.member_id, lock))
            else:
                entries.append(InFlight(State.AVAILABLE, 0, NOBODY))
        batch.replace(entries)
        partition.window.put(batch)
        partition.note_free(batch)


def acquire(
    partition: SharePartition,
    member_id: str,
    spans: Sequence[RecordSpan],
    *,
    now_ms: int,
    fetch_offset: int | None = None,
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
    batch_size: int = 500,
    max_records: int = 500,
    aborted: Iterable[RecordSpan] = (),
) -> list[Acquired]:
    """Acquire records for a member out of record batches that were read from the log.

    Args: fetch_offset: where the read began, by default where the next fetch begins. max_records: what is left of the
    request's limit. aborted: those of the batches that belong to aborted transactions, for a read-committed group;
    they are acquired, archived and left out of the answer, and count against the limit here (correction 2).
    Raises: UNKNOWN_SERVER_ERROR where 4.3.0 does not find an aborted batch; what was acquired stays so.
    """
    if partition.uncommitted is not None:
        let_go(partition)
    if fetch_offset is None:
        fetch_offset = partition.next_fetch_offset()
    if partition.status is not Status.ACTIVE or max_records <= 0 or not spans:
        return []
    last = spans[-1].last_offset
    if last < partition.start_offset:
        return []
    limit = max_records
    if partition.rules.window_is_strict:
        limit = min(max_records, partition.in_flight_limit - partition.in_flight_count)
    if limit <= 0 and fetch_offset <= partition.end_offset:
        # No room for new records, but some of those in flight may have come back (share-semantics 2.6).
        limit = min(max_records, partition.end_offset - fetch_offset + 1)
        last = min(last, partition.end_offset)
    if limit <= 0:
        return []
    acquisition = Acquisition(partition, member_id, now_ms, mode, batch_size, limit, spans, last)
    if partition.window.hidden is None:
        acquisition.run(fetch_offset)
    else:
        _run_between(partition.window.hidden, acquisition, fetch_offset)
    _note(acquisition)
    return _without(acquisition.result, _archive_aborted(partition, aborted, now_ms))


def acquire_committed(
    partition: SharePartition,
    member_id: str,
    batches: Sequence[LogBatch],
    read_on: ReadOn,
    *,
    now_ms: int,
    fetch_offset: int,
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED,
    batch_size: int = 500,
    max_records: int = 500,
) -> list[Acquired]:
    """As `acquire`, for a read-committed group whose leader follows markers (`ShareRules.follows_markers`).

    Args: read_on: reads the log on to the high watermark, where a full window waits for markers.
    """
    is_stale = not batches or batches[-1].last_offset < partition.start_offset
    if partition.status is not Status.ACTIVE or max_records <= 0 or is_stale:
        return []
    take_in(partition, batches, read_on, now_ms=now_ms)
    last = batches[-1].last_offset
    acquisition = Acquisition(partition, member_id, now_ms, mode, batch_size, max_records, batches, last)
    acquisition.run_in_flight(fetch_offset)
    _note(acquisition)
    return acquisition.result


def _run_between(hidden: Hidden, acquisition: Acquisition, fetch_offset: int) -> None:
    """Acquire what was read run by run: what is hidden in between is never in flight."""
    spans, last = acquisition.spans, acquisition.last
    begin = 0
    for at, span in enumerate(spans):
        is_end = at + 1 == len(spans) or hidden.between(span.last_offset + 1, spans[at + 1].base_offset) > 0
        if not is_end:
            continue
        acquisition.spans, acquisition.last = spans[begin : at + 1], min(span.last_offset, last)
        begin = at + 1
        first = acquisition.spans[0].base_offset
        if first > acquisition.last:
            return
        if acquisition.last < acquisition.partition.start_offset:
            continue
        if not acquisition.run(fetch_offset) or acquisition.room <= 0:
            return
        fetch_offset = acquisition.last + 1


def _note(acquisition: Acquisition) -> None:
    for first, end, delivery_count in acquisition.result:
        if first <= end:
            acquisition.partition.notes.acquired(
                first, end, acquisition.member_id, delivery_count, now_ms=acquisition.now_ms
            )


def _archive_aborted(partition: SharePartition, aborted: Iterable[RecordSpan], now_ms: int) -> list[RecordSpan]:
    spans, why = list(aborted), (Happening.ABORTED, now_ms)
    for span in spans:
        floor = partition.window.floor(span.base_offset)
        if floor is None:
            # The log's start, and the window's with it, is inside the batch: 4.3.0 looks for its first offset in vain.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"nothing in flight at {span.base_offset} or before it")
        batches = partition.window.starting(floor.first, span.last_offset)
        partition.delivery_complete_count += archive(
            partition, range(span.base_offset, span.last_offset + 1), batches, State.ACQUIRED, why
        )
    return spans


def _without(acquired: list[Acquired], spans: Sequence[RecordSpan]) -> list[Acquired]:
    """The acquired runs minus these spans; both are sorted."""
    for span in spans:
        left: list[Acquired] = []
        for run in acquired:
            if run.last < span.base_offset or span.last_offset < run.first:
                left.append(run)
                continue
            if run.first < span.base_offset:
                left.append(run._replace(last=span.base_offset - 1))
            if run.last > span.last_offset:
                left.append(run._replace(first=span.last_offset + 1))
        acquired = left
    return acquired
