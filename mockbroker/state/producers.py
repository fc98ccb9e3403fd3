"""Idempotent and transactional producers of one partition: epochs, sequences, and the open transactions.

Source: Kafka's ProducerAppendInfo and ProducerStateManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from kwire.error_codes import ErrorCode
from kwire.records import Batch, ControlType, read_control
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.state.log import StoredBatch

#: A producer keeps at most this many batches in flight, so a duplicate can be this old.
BATCHES_REMEMBERED = 5
_SEQUENCE_MAX = (1 << 31) - 1


class Written(msgspec.Struct, frozen=True):
    """A batch as it was written: its sequences, and where it lies. `timestamp` is the batch's largest."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer(msgspec.Struct):
    """What a partition remembers of a producer id; -1 stands for nothing yet."""

    producer_id: int
    epoch: int = -1
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_start: int | None = None
    written: deque[Written] = msgspec.field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record, -1 when none is remembered."""
        return self.written[-1].last_sequence if self.written else -1


class Aborted(msgspec.Struct, frozen=True):
    """A transaction that was rolled back: its first record, its marker, and the stable offset right after."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Producers:
    """All producers that a partition remembers, by id."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._aborted: list[Aborted] = []
        self._open: dict[int, int] = {}

    def active(self) -> list[Producer]:
        """Everybody who is remembered, as DescribeProducers lists them."""
        return list(self._producers.values())

    def has_written(self, producer_id: int) -> bool:
        """Whether a batch of the producer's epoch is remembered."""
        producer = self._producers.get(producer_id)
        return producer is not None and bool(producer.written)

    def is_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has a transaction open here, in this epoch.

        Raises: INVALID_PRODUCER_EPOCH for an epoch of the past.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return False
        if epoch < producer.epoch:
            raise _old_epoch(producer, epoch)
        return producer.transaction_start is not None and epoch == producer.epoch

    def duplicate(self, batch: Batch) -> Written | None:
        """The very same batch, if it was among the last five of its producer and epoch."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        last = last_sequence(batch)
        for written in producer.written:
            if (written.first_sequence, written.last_sequence) == (batch.base_sequence, last):
                return written
        return None

    def check(self, batch: Batch) -> None:
        """Refuse a data batch out of an old epoch or out of sequence.

        Raises: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch == -1:
            return  # Nothing is known, possibly because its records are deleted: every sequence is welcome.
        if batch.producer_epoch < producer.epoch:
            raise _old_epoch(producer, batch.producer_epoch)
        if batch.producer_epoch > producer.epoch:
            in_sequence = batch.base_sequence == 0
        else:
            in_sequence = follows(producer.last_sequence, batch.base_sequence)
        if not in_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} sends sequence {batch.base_sequence} after {producer.last_sequence}",
            )
        if producer.transaction_start is not None and not batch.is_transactional:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"producer {batch.producer_id} has an open transaction")

    def wrote(self, batch: Batch, first_offset: int, timestamp: int) -> None:
        """Remember a data batch that has been appended, and begin its transaction."""
        producer = self._producers.setdefault(batch.producer_id, Producer(batch.producer_id))
        if batch.producer_epoch != producer.epoch:
            producer.epoch = batch.producer_epoch
            producer.written.clear()
        last_offset = first_offset + batch.count - 1
        producer.written.append(
            Written(batch.base_sequence, last_sequence(batch), first_offset, last_offset, timestamp)
        )
        producer.last_timestamp = timestamp
        if batch.is_transactional and producer.transaction_start is None:
            producer.transaction_start = self._open[batch.producer_id] = first_offset

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, *, transaction_version: int) -> None:
        """Refuse a marker from an old producer epoch or an old coordinator.

        From transaction version 2 on the epoch has to be above the one of the data, or the same when the transaction
        is over already: a marker that is sent again (KAFKA-19999).
        Raises: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        again = epoch == producer.epoch and producer.transaction_start is None
        stale = epoch <= producer.epoch and not again if transaction_version >= 2 else epoch < producer.epoch
        if stale:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH, f"a marker of epoch {epoch} for a producer of epoch {producer.epoch}"
            )
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch}, {producer.coordinator_epoch} has been seen",
            )

    def ended(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, marker_offset: int, timestamp: int, commit: bool
    ) -> None:
        """End the open transaction with the marker at this offset; one without data leaves no trace."""
        producer = self._producers.setdefault(producer_id, Producer(producer_id))
        start = producer.transaction_start
        producer.transaction_start = None
        self._open.pop(producer_id, None)
        if epoch != producer.epoch:
            producer.epoch = epoch
            producer.written.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = timestamp
        if start is not None and not commit:
            stable = self.first_unstable_offset
            self._aborted.append(
                Aborted(producer_id, start, marker_offset, marker_offset + 1 if stable is None else stable)
            )

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction began, or None."""
        # Transactions are noted as they begin, so the first one is the oldest.
        return next(iter(self._open.values()), None)

    def aborted(self, first_offset: int, end_offset: int) -> list[Aborted]:
        """Aborted transactions that overlap the offsets from `first_offset` up to, not including, `end_offset`."""
        return [
            aborted
            for aborted in self._aborted
            if aborted.last_offset >= first_offset and aborted.first_offset < end_offset
        ]

    def drop_below(self, start_offset: int) -> None:
        """Forget aborted transactions that lie wholly below the log's start."""
        self._aborted = [aborted for aborted in self._aborted if aborted.last_offset >= start_offset]

    def replace_aborted_below(self, offset: int, aborted: list[Aborted]) -> None:
        """Of the transactions whose marker lies below an offset keep these alone: of the others no record is left."""
        self._aborted = [*aborted, *(one for one in self._aborted if one.last_offset >= offset)]

    def last_of_each(self) -> dict[int, tuple[int | None, int]]:
        """By producer id: where its last data batch ends, None when none is remembered, and its epoch."""
        return {
            producer.producer_id: (producer.written[-1].last_offset if producer.written else None, producer.epoch)
            for producer in self._producers.values()
        }

    def truncated(self, end_offset: int, left: Sequence[StoredBatch]) -> Producers:
        """What is known when only these batches are left, which end at this offset.

        A producer whose records lie below the log's start keeps its state, which no record tells any more.
        """
        result = Producers()
        result._aborted = [one for one in self._aborted if one.last_offset < end_offset]
        told = {batch.header().producer_id for batch in left}
        for producer in self._producers.values():
            begun = producer.transaction_start
            is_older = all(one.last_offset < end_offset for one in producer.written)
            if producer.producer_id not in told and is_older and (begun is None or begun < end_offset):
                result._producers[producer.producer_id] = producer
                if begun is not None:
                    result._open[producer.producer_id] = begun
        result.replay(left)
        return result

    def replay(self, batches: Iterable[StoredBatch]) -> None:
        """Learn of producers from batches of the log, in order."""
        known = {one.last_offset for one in self._aborted}
        for batch in batches:
            header = batch.header()
            if header.producer_id < 0:
                continue
            if not header.is_control:
                self.wrote(header, batch.base_offset, batch.max_timestamp)
                continue
            for record in batch.records():
                marker = read_control(record)
                self.ended(
                    header.producer_id,
                    header.producer_epoch,
                    marker.coordinator_epoch or 0,
                    marker_offset=record.offset,
                    timestamp=batch.max_timestamp,
                    commit=marker.type is ControlType.COMMIT or record.offset in known,
                )

    def expire(self, *, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that wrote nothing for that long and have no transaction open."""
        for producer in self.active():
            if producer.transaction_start is None and now_ms - producer.last_timestamp >= expiration_ms:
                del self._producers[producer.producer_id]


def _old_epoch(producer: Producer, epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {producer.producer_id} has epoch {producer.epoch}, the batch {epoch}",
    )


def last_sequence(batch: Batch) -> int:
    """The sequence of the batch's last record; after the largest int32 comes 0."""
    return (batch.base_sequence + batch.count - 1) & _SEQUENCE_MAX if batch.base_sequence >= 0 else -1


def follows(last: int, following: int) -> bool:
    """Whether a sequence comes right after another."""
    return following == last + 1 or (following == 0 and last == _SEQUENCE_MAX)
