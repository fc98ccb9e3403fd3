"""Producer states of one partition: epochs, sequences and open transactions of idempotent and transactional producers.

Source: Kafka's ProducerAppendInfo and ProducerStateManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from kwire.error_codes import ErrorCode
from kwire.records import Batch, ControlType, read_control
from mockbroker.kafka_error import KafkaError
from mockbroker.state.timers import NEVER_MS

if TYPE_CHECKING:
    from mockbroker.state.storage.stored_batch import StoredBatch

#: A producer has at most this many batches in flight, so a duplicate can be this old.
RETAINED_BATCH_COUNT = 5
_SEQUENCE_MAX = (1 << 31) - 1
#: The transaction version of a marker that does not say it; a leader accepts none.
_UNKNOWN_VERSION = -1
_NO_EPOCH = -1


class BatchMetadata(msgspec.Struct, frozen=True):
    """A stored batch: its sequences and offsets. `timestamp` is its largest timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerState(msgspec.Struct):
    """The state of a producer id in a partition; -1 stands for no value."""

    producer_id: int
    epoch: int = -1
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_start: int | None = None
    batches: deque[BatchMetadata] = msgspec.field(default_factory=lambda: deque(maxlen=RETAINED_BATCH_COUNT))

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record, -1 without batches."""
        return self.batches[-1].last_sequence if self.batches else -1


class AbortedTransaction(msgspec.Struct, frozen=True):
    """An aborted transaction: its first record, its marker, and the stable offset right after it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerStates:
    """All producer states of a partition, by id.

    idle_since_ms: no producer without an open transaction has an older last timestamp, which is that of its records;
    NEVER_MS without any. on_older: called when that becomes earlier.
    """

    def __init__(self) -> None:
        self.idle_since_ms = NEVER_MS
        self.on_older: Callable[[], None] = do_nothing
        self._producers: dict[int, ProducerState] = {}
        self._aborted: list[AbortedTransaction] = []
        self._open_transactions: dict[int, int] = {}

    @classmethod
    def restored(cls, states: Iterable[ProducerState], aborted: Iterable[AbortedTransaction]) -> ProducerStates:
        """The states of a snapshot, with the aborted transactions before it."""
        result = cls()
        result._producers = {state.producer_id: state for state in states}
        result._aborted = list(aborted)
        open_ids = {state.transaction_start: state.producer_id for state in result._producers.values()}
        starts = sorted(start for start in open_ids if start is not None)
        result._open_transactions = {open_ids[start]: start for start in starts}
        result._find_idle()
        return result

    def all_aborted(self) -> list[AbortedTransaction]:
        """All aborted transactions, in order of their markers."""
        return list(self._aborted)

    def all_states(self) -> list[ProducerState]:
        """All states, as DescribeProducers lists them."""
        return list(self._producers.values())

    def has_batches(self, producer_id: int) -> bool:
        """Return whether a batch of the producer's epoch is remembered."""
        producer = self._producers.get(producer_id)
        return producer is not None and bool(producer.batches)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer has an open transaction here, in this epoch.

        Raises: INVALID_PRODUCER_EPOCH for an old epoch.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return False
        if epoch < producer.epoch:
            raise _invalid_epoch(producer, epoch)
        return producer.transaction_start is not None and epoch == producer.epoch

    def find_duplicate(self, batch: Batch) -> BatchMetadata | None:
        """The stored batch with the same sequences, among the last five of its producer and epoch."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        last = last_sequence_of(batch)
        for written in producer.batches:
            if (written.first_sequence, written.last_sequence) == (batch.base_sequence, last):
                return written
        return None

    def check_batch(self, batch: Batch) -> None:
        """Reject a data batch with an old epoch or out of sequence.

        Raises: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch == -1:
            return  # Unknown producer, possibly because its records are deleted: every sequence is accepted.
        if batch.producer_epoch < producer.epoch:
            raise _invalid_epoch(producer, batch.producer_epoch)
        if batch.producer_epoch > producer.epoch:
            in_sequence = batch.base_sequence == 0
        else:
            in_sequence = is_next_sequence(producer.last_sequence, batch.base_sequence)
        if not in_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} sends sequence {batch.base_sequence} after {producer.last_sequence}",
            )
        if producer.transaction_start is not None and not batch.is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"producer {batch.producer_id} has an open transaction")

    def record_batch(self, batch: Batch, first_offset: int, timestamp: int) -> None:
        """Record an appended data batch, and start its transaction."""
        producer = self._find_or_add(batch.producer_id)
        if batch.producer_epoch != producer.epoch:
            producer.epoch = batch.producer_epoch
            producer.batches.clear()
        last_offset = first_offset + batch.last_offset - batch.base_offset
        last_sequence = last_sequence_of(batch)
        stored = BatchMetadata(batch.base_sequence, last_sequence, first_offset, last_offset, timestamp)
        producer.batches.append(stored)
        producer.last_timestamp = timestamp
        if batch.is_transactional and producer.transaction_start is None:
            producer.transaction_start = self._open_transactions[batch.producer_id] = first_offset
        if timestamp < self.idle_since_ms and producer.transaction_start is None:
            self._mark_idle(timestamp)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Reject a marker of an old producer epoch or an old coordinator.

        From transaction version 2 on the epoch has to be above the one of the data, or the same when the transaction
        has ended
        already: a repeated marker (KAFKA-19999).
        Raises: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; UNKNOWN_SERVER_ERROR for version -1, as Kafka.
        """
        if transaction_version == _UNKNOWN_VERSION:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a marker of an unknown transaction version")
        producer = self._producers.get(producer_id)
        if producer is None:
            if epoch < _NO_EPOCH:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, f"a marker of epoch {epoch}")
            if coordinator_epoch < _NO_EPOCH:
                message = f"coordinator epoch {coordinator_epoch}"
                raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)
            return
        is_repeated = epoch == producer.epoch and producer.transaction_start is None
        stale = epoch <= producer.epoch and not is_repeated if transaction_version >= 2 else epoch < producer.epoch
        if stale:
            message = f"a marker of epoch {epoch} for a producer of epoch {producer.epoch}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        if coordinator_epoch < producer.coordinator_epoch:
            message = f"coordinator epoch {coordinator_epoch}, {producer.coordinator_epoch} has been seen"
            raise KafkaError(ErrorCode.TRANSACTION_COORDINATOR_FENCED, message)

    def end_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, marker_offset: int, timestamp: int, commit: bool
    ) -> None:
        """End the open transaction with the marker at this offset; without data there is no entry."""
        producer = self._find_or_add(producer_id)
        start = producer.transaction_start
        producer.transaction_start = None
        self._open_transactions.pop(producer_id, None)
        if epoch != producer.epoch:
            producer.epoch = epoch
            producer.batches.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        if timestamp < self.idle_since_ms:
            self._mark_idle(timestamp)
        if start is not None and not commit:
            unstable = self.first_unstable_offset
            stable = marker_offset + 1 if unstable is None else unstable
            self._aborted.append(AbortedTransaction(producer_id, start, marker_offset, stable))

    def _find_or_add(self, producer_id: int) -> ProducerState:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerState(producer_id)
        return producer

    def watch(self, on_older: Callable[[], None]) -> None:
        """Call this when a producer becomes the one that expires first; and now, if there is one."""
        self.on_older = on_older
        if self.idle_since_ms != NEVER_MS:
            on_older()

    def remove_idle(self, until_ms: int) -> None:
        """Remove producers without an open transaction whose last timestamp is at most this one.

        Source: Kafka's ProducerStateManager.removeExpiredProducers.
        """
        self._producers = {
            producer_id: producer
            for producer_id, producer in self._producers.items()
            if producer.transaction_start is not None or producer.last_timestamp > until_ms
        }
        self._find_idle()

    def _find_idle(self) -> None:
        idle = (one.last_timestamp for one in self._producers.values() if one.transaction_start is None)
        self.idle_since_ms = min(idle, default=NEVER_MS)

    def _mark_idle(self, timestamp: int) -> None:
        self.idle_since_ms = timestamp
        self.on_older()

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the oldest open transaction, or None."""
        # Transactions are added when they start, so the first one is the oldest.
        return next(iter(self._open_transactions.values()), None)

    def aborted_transactions(self, first: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap the offsets from `first` up to, not including, `end`."""
        return [entry for entry in self._aborted if entry.last_offset >= first and entry.first_offset < end]

    def drop_aborted_below(self, start_offset: int) -> None:
        """Remove aborted transactions that are entirely below the log start."""
        self._aborted = [aborted for aborted in self._aborted if aborted.last_offset >= start_offset]

    def replace_aborted_below(self, offset: int, aborted: list[AbortedTransaction]) -> None:
        """Keep only these of the transactions whose marker is below an offset: the others have no records."""
        self._aborted = [*aborted, *(transaction for transaction in self._aborted if transaction.last_offset >= offset)]

    def add_aborted(self, stored: Iterable[AbortedTransaction]) -> None:
        """Have these aborted transactions too: batches of theirs may be compacted away, of which they were known."""
        by_marker = {entry.last_offset: entry for entry in (*self._aborted, *stored)}
        self._aborted = [by_marker[offset] for offset in sorted(by_marker)]

    def last_batches(self) -> dict[int, tuple[int | None, int]]:
        """By producer id: the end of its last data batch, None without one, and its epoch."""
        return {
            producer.producer_id: (producer.batches[-1].last_offset if producer.batches else None, producer.epoch)
            for producer in self._producers.values()
        }

    def truncated_to(self, end_offset: int, remaining: Sequence[StoredBatch]) -> ProducerStates:
        """The states when only these batches remain, which end at this offset.

        A producer whose records are below the log start keeps its state.
        """
        result = ProducerStates()
        result._aborted = [entry for entry in self._aborted if entry.last_offset < end_offset]
        remaining_ids = {batch.header().producer_id for batch in remaining}
        for producer in self._producers.values():
            start = producer.transaction_start
            is_older = all(entry.last_offset < end_offset for entry in producer.batches)
            if producer.producer_id not in remaining_ids and is_older and (start is None or start < end_offset):
                result._producers[producer.producer_id] = producer
                if start is not None:
                    result._open_transactions[producer.producer_id] = start
        result._find_idle()
        result.replay_batches(remaining)
        return result

    def replay_batches(self, batches: Iterable[StoredBatch]) -> None:
        """Rebuild states from batches of the log, in order."""
        aborted_markers = {transaction.last_offset for transaction in self._aborted}
        for batch in batches:
            header = batch.header()
            if header.producer_id < 0:
                continue
            if not header.is_control:
                self.record_batch(header, batch.base_offset, batch.max_timestamp)
                continue
            for record in batch.records():
                marker = read_control(record)
                self.end_transaction(
                    header.producer_id,
                    header.producer_epoch,
                    marker.coordinator_epoch or 0,
                    marker_offset=record.offset,
                    timestamp=batch.max_timestamp,
                    commit=marker.type is ControlType.COMMIT or record.offset in aborted_markers,
                )


def do_nothing() -> None:
    """Nobody has to know when producers expire."""


def _invalid_epoch(producer: ProducerState, epoch: int) -> KafkaError:
    message = f"producer {producer.producer_id} has epoch {producer.epoch}, the batch {epoch}"
    return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, message)


def last_sequence_of(batch: Batch) -> int:
    """The sequence of the batch's last record, which compaction can have removed; after the largest int32 comes 0."""
    delta = batch.last_offset - batch.base_offset
    return (batch.base_sequence + delta) & _SEQUENCE_MAX if batch.base_sequence >= 0 else -1


def is_next_sequence(last: int, following: int) -> bool:
    """Return whether a sequence directly follows another."""
    return following == last + 1 or (following == 0 and last == _SEQUENCE_MAX)
