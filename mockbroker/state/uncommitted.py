"""Read committed by markers: records of transactions wait in the window until the control batch is read that ends them.

Source: the third revision of KIP-932, "Reading transactional records". 4.3.0 asks its index of aborted transactions
instead; both deliver the same records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kwire.records import Batch, ControlType, Record, read_control
from mockbroker.state import in_flight, start_offset
from mockbroker.state.in_flight import NOBODY, InFlight, InFlightBatch, State
from mockbroker.state.share_history import Happening
from mockbroker.state.state_batches import StateBatch

if TYPE_CHECKING:
    from mockbroker.state.share_partition import SharePartition


class LogBatch(Protocol):
    """A batch of the log whose header and control records can be looked at."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""
        ...

    @property
    def last_offset(self) -> int:
        """Its last offset."""
        ...

    def header(self) -> Batch:
        """Whose it is, and of what kind."""
        ...

    def records(self) -> list[Record]:
        """Its records, decoded; asked of control batches only."""
        ...


#: Reads the log on from an offset, batch by batch, to the high watermark.
ReadOn = Callable[[int], Iterator[LogBatch]]


class Outcome(NamedTuple):
    """How a transaction ended, by its marker.

    The page knows producer and epoch only. A producer ends many transactions in one epoch, so the marker's offset
    says which; and a marker's epoch may be above that of the records it ends.
    """

    offset: int
    producer_id: int
    epoch: int
    commit: bool

    def ends(self, producer_id: int, epoch: int, offset: int) -> bool:
        """Whether a record of this producer at this offset was written in the transaction, or in one before it."""
        return producer_id == self.producer_id and epoch <= self.epoch and offset < self.offset


class Tagged(NamedTuple):
    """A batch in the window whose transaction has not ended as far as was read."""

    home: InFlightBatch
    producer_id: int
    epoch: int


class Uncommitted:
    """What a share partition holds of transactions, and the summary of those whose end it has read ahead."""

    def __init__(self) -> None:
        self.tagged: list[Tagged] = []
        self._summary: list[Outcome] = []
        self._read_from = self._read_to = 0

    def outcome(self, producer_id: int, epoch: int, offset: int) -> bool | None:
        """Whether the transaction of a record was committed, as far as was read ahead; None when that is not known."""
        if not self._read_from <= offset < self._read_to:
            return None
        known = self._summary[bisect_right(self._summary, offset, key=lambda outcome: outcome.offset) :]
        return next((one.commit for one in known if one.ends(producer_id, epoch, offset)), None)

    def ended(self, outcome: Outcome) -> list[Tagged]:
        """Take the batches out that a marker ends."""
        over = [one for one in self.tagged if outcome.ends(one.producer_id, one.epoch, one.home.last)]
        if over:
            self.tagged = [one for one in self.tagged if one not in over]
        return over

    def read_ahead(self, start: int, read_on: ReadOn) -> Iterator[Outcome]:
        """The markers from an offset on, each noted in the summary; what was read before is not read again."""
        if not self._read_from <= start <= self._read_to:
            self._summary, self._read_from, self._read_to = [], start, start
        else:
            self._summary = [one for one in self._summary if one.offset >= start]
            self._read_from = start
        yield from self._summary
        for batch in read_on(self._read_to):
            self._read_to = batch.last_offset + 1
            outcome = outcome_of(batch)
            if outcome is not None:
                self._summary.append(outcome)
                yield outcome


def outcome_of(batch: LogBatch) -> Outcome | None:
    """What a control batch says of a transaction; None for any other batch."""
    header = batch.header()
    if not (header.is_control and header.is_transactional):
        return None
    records = batch.records()
    if not records:
        return None  # The cleaner keeps the empty batch of a marker whose transaction has no records left.
    commit = read_control(records[0]).type is ControlType.COMMIT
    return Outcome(batch.last_offset, header.producer_id, header.producer_epoch, commit)


def take_in(partition: SharePartition, batches: Sequence[LogBatch], read_on: ReadOn, *, now_ms: int) -> None:
    """Put what was read into the window as far as the limit allows, and settle what its markers decide.

    A full window that holds uncommitted records has the log read on until their markers are found; they are there,
    since nothing behind the last stable offset was taken in. The same goes for records in a hole that the stored state
    left: their markers may lie where nothing is read again.
    """
    waiting = partition.uncommitted
    assert waiting is not None
    done: list[StateBatch] = []
    before = waiting.tagged
    first_new = _first_new(partition)
    for batch in batches:
        outcome = outcome_of(batch)
        if outcome is not None:
            done += _settle(partition, outcome, now_ms)
        if batch.last_offset > partition.end_offset and partition.in_flight_count >= partition.in_flight_limit:
            break
        for first, last in _unseen(partition, batch):
            done += _add(partition, waiting, batch, first, last, now_ms=now_ms)
        if partition.gap is not None and partition.gap.start <= batch.last_offset:
            partition.move_gap(batch.last_offset + 1)  # What is still missing before it is not in the log.
    in_holes = [one.home.first for one in waiting.tagged if one.home.first < first_new and one not in before]
    if in_holes:
        done += _look_ahead(partition, waiting, in_holes[0], read_on, now_ms)
    elif waiting.tagged and partition.in_flight_count >= partition.in_flight_limit:
        done += _look_ahead(partition, waiting, _first_new(partition), read_on, now_ms)
    if done:
        start_offset.advance(partition)
        left = [batch for batch in done if batch.last >= partition.start_offset]
        partition.send(partition.prepare(left, []), now_ms)


def let_go(partition: SharePartition) -> None:
    """The group reads uncommitted records from now on: nothing waits for a marker any more."""
    waiting = partition.uncommitted
    if waiting is not None and waiting.tagged:
        tagged, waiting.tagged = waiting.tagged, []
        for one in tagged:
            _move(partition, one.home, in_flight.Event.COMMIT, 0)


def _first_new(partition: SharePartition) -> int:
    """The first offset beyond what is in flight; a start beyond the whole window is itself still to be read."""
    window = partition.window
    has_more = bool(window) and partition.start_offset <= window.last.last
    return partition.end_offset + 1 if has_more else partition.end_offset


def _unseen(partition: SharePartition, batch: LogBatch) -> Iterable[tuple[int, int]]:
    """The offsets of a batch that are not in flight: those beyond the end, and while the gap window holds, in holes."""
    window, gap = partition.window, partition.gap
    low = _first_new(partition)
    if gap is not None and partition.gap_is_open:
        low = gap.start
    low, high = max(low, batch.base_offset, partition.start_offset), batch.last_offset
    floor = window.floor(low)
    if floor is not None:
        low = max(low, floor.last + 1)
    holes = []
    for home in window.starting(low, high):
        if low < home.first:
            holes.append((low, home.first - 1))
        low = home.last + 1
    return [*holes, (low, high)] if low <= high else holes


def _add(
    partition: SharePartition, waiting: Uncommitted, batch: LogBatch, first: int, last: int, *, now_ms: int
) -> list[StateBatch]:
    """Bring new offsets of one batch into flight; returns what of it is done with at once."""
    header, home = batch.header(), InFlightBatch(first, last, InFlight(State.AVAILABLE, 0, NOBODY))
    is_fate_open = header.is_transactional and not header.is_control
    partition.window.put(home)
    if partition.window.first is home:
        partition.start_offset = first
    partition.end_offset = max(partition.end_offset, last)
    partition.move_gap(last + 1)
    commit = waiting.outcome(header.producer_id, header.producer_epoch, last) if is_fate_open else not header.is_control
    if commit is None:
        assert home.whole is not None
        home.whole.state = State.UNCOMMITTED
        tagged = Tagged(home, header.producer_id, header.producer_epoch)
        waiting.tagged = sorted([*waiting.tagged, tagged], key=lambda one: one.home.first)
    elif commit:
        partition.note_free(home)
    else:
        return _move(partition, home, in_flight.Event.DROP, now_ms)
    return []


def _look_ahead(
    partition: SharePartition, waiting: Uncommitted, start: int, read_on: ReadOn, now_ms: int
) -> list[StateBatch]:
    done: list[StateBatch] = []
    for outcome in waiting.read_ahead(start, read_on):
        done += _settle(partition, outcome, now_ms)
        if not waiting.tagged:
            break
    return done


def _settle(partition: SharePartition, outcome: Outcome, now_ms: int) -> list[StateBatch]:
    """A transaction has ended: its records become available, or are dropped; returns what was dropped."""
    assert partition.uncommitted is not None
    done: list[StateBatch] = []
    for one in partition.uncommitted.ended(outcome):
        is_below_start = one.home.last < partition.start_offset
        event = in_flight.Event.COMMIT if outcome.commit and not is_below_start else in_flight.Event.DROP
        done += _move(partition, one.home, event, now_ms)
    return done


def _move(partition: SharePartition, home: InFlightBatch, event: in_flight.Event, now_ms: int) -> list[StateBatch]:
    """Move a whole batch; a refused acknowledgement may have split it."""
    for entry in [home.whole] if home.whole is not None else home.offsets or []:
        in_flight.move(entry, event)
    if event is in_flight.Event.COMMIT:
        partition.note_free(home)
        return []
    partition.delivery_complete_count += partition.count_in_flight(home.first, home.last)
    partition.notes.take(now_ms, Happening.ABORTED, home.first, home.last, home.entry(home.first))
    return [StateBatch(home.first, home.last, int(State.ARCHIVED), 0)]
