"""One transactional id: its producer, and the state of its transaction.

Source: Kafka's TransactionState and TransactionMetadata; epochs under transaction.version 2: KIP-890 part 2.
"""

from __future__ import annotations

from copy import copy
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

#: The last epoch that a producer can get; the one above it is reserved for fencing.
EPOCH_LAST = 32_766
#: From this level of transaction.version on, every end of a transaction increments the producer's epoch.
EPOCH_BUMP_SINCE = 2


class TransactionState(Enum):
    """The states of a transaction; the values are the names that Kafka's admin client shows."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class TransactionEvent(Enum):
    """The events of a transaction."""

    INITIALIZE = auto()
    ADD = auto()
    COMMIT = auto()
    ABORT = auto()
    FENCE = auto()
    COMPLETE = auto()
    EXPIRE = auto()


#: Without an ongoing transaction; ABORT is only for clients of transaction.version 2.
_IDLE = {
    TransactionEvent.INITIALIZE: TransactionState.EMPTY,
    TransactionEvent.ADD: TransactionState.ONGOING,
    TransactionEvent.ABORT: TransactionState.PREPARE_ABORT,
    TransactionEvent.EXPIRE: TransactionState.DEAD,
}
TRANSITIONS: dict[TransactionState, dict[TransactionEvent, TransactionState]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: {
        TransactionEvent.ADD: TransactionState.ONGOING,
        TransactionEvent.COMMIT: TransactionState.PREPARE_COMMIT,
        TransactionEvent.ABORT: TransactionState.PREPARE_ABORT,
        TransactionEvent.FENCE: TransactionState.PREPARE_EPOCH_FENCE,
    },
    TransactionState.PREPARE_COMMIT: {TransactionEvent.COMPLETE: TransactionState.COMPLETE_COMMIT},
    TransactionState.PREPARE_ABORT: {TransactionEvent.COMPLETE: TransactionState.COMPLETE_ABORT},
    TransactionState.COMPLETE_COMMIT: _IDLE,
    TransactionState.COMPLETE_ABORT: _IDLE,
    TransactionState.DEAD: {},
    TransactionState.PREPARE_EPOCH_FENCE: {TransactionEvent.ABORT: TransactionState.PREPARE_ABORT},
}


class TopicPartition(NamedTuple):
    """A partition with its topic's name, as transactions store it."""

    topic: str
    partition_index: int


class ProducerIdAndEpoch(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    epoch: int


class Transaction(msgspec.Struct):
    """A transactional id. -1 stands for no value; times are milliseconds of the cluster's clock.

    previous_producer_id: the id before the last transition. next_producer_id: the id that replaces one without further
    epochs. version: the level of transaction.version of the transaction in progress.
    """

    transactional_id: str
    producer_id: int
    epoch: int = -1
    last_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: set[TopicPartition] = msgspec.field(default_factory=set)
    started_ms: int = -1
    updated_ms: int = -1
    version: int = 0

    def copy_state(self) -> Transaction:
        """A copy, to restore when a change cannot be written."""
        copied = copy(self)
        copied.partitions = set(self.partitions)
        return copied

    def restore_state(self, saved: Transaction) -> None:
        """Restore an earlier copy."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(saved, name))

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer that holds the id now."""
        return ProducerIdAndEpoch(self.producer_id, self.epoch)

    @property
    def is_ending(self) -> bool:
        """Return whether its markers are still being written."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_exhausted(self) -> bool:
        """Return whether the producer id has no epoch left."""
        return self.epoch >= EPOCH_LAST

    def apply_event(self, event: TransactionEvent, *, now_ms: int) -> None:
        """Enter the next state; an event without a transition is a bug.

        Every transition stores the present producer id, by which a lost response can be repeated.
        """
        target = TRANSITIONS[self.state].get(event)
        assert target is not None, f"{self.transactional_id}: {event.name} in {self.state.name}"
        self.state = target
        self.previous_producer_id = self.producer_id
        self.updated_ms = now_ms

    def require_not_ending(self) -> None:
        """Reject a request while markers are being written. Raises: CONCURRENT_TRANSACTIONS."""
        if self.is_ending:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{self.transactional_id} is in {self.state.value}")

    def require_producer(self, producer: ProducerIdAndEpoch) -> None:
        """Reject any other producer than the present one. Raises: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED."""
        if producer.producer_id != self.producer_id:
            message = f"{self.transactional_id} belongs to producer {self.producer_id}, not {producer.producer_id}"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
        if producer.epoch != self.epoch:
            raise self.fenced_error(producer)

    def fenced_error(self, producer: ProducerIdAndEpoch) -> KafkaError:
        """The error for an epoch that is not the present one."""
        message = f"{self.transactional_id}: producer {producer.producer_id} has epoch {producer.epoch}"
        message += f", {self.epoch} is current"
        return KafkaError(ErrorCode.PRODUCER_FENCED, message)

    def initialize(
        self, expected: ProducerIdAndEpoch | None, *, fresh_id: int | None, timeout_ms: int, now_ms: int
    ) -> None:
        """Assign the id to a producer, in the next epoch, or with a fresh producer id when there is no next epoch.

        expected: the producer id and epoch of a recovering producer (KIP-360). fresh_id: given when the epochs are
        exhausted.
        Raises: PRODUCER_FENCED.
        """
        epoch, last_epoch = self._next_epoch(expected)
        if fresh_id is not None:
            epoch, last_epoch = 0, -1 if expected is None else self.epoch
        elif epoch > EPOCH_LAST:
            # Kafka 4.3.0 fails on its own check here: a recovering producer of another epoch, and no epoch left.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{self.transactional_id} has no epoch left")
        self.apply_event(TransactionEvent.INITIALIZE, now_ms=now_ms)
        self.producer_id = self.producer_id if fresh_id is None else fresh_id
        self.epoch, self.last_epoch = epoch, last_epoch
        self.timeout_ms = timeout_ms
        self.partitions = set()
        self.started_ms = -1

    def add_partitions(self, partitions: set[TopicPartition], *, version: int, now_ms: int) -> None:
        """Add partitions; the first ones start the transaction."""
        if self.state is not TransactionState.ONGOING:
            self.started_ms = now_ms
        self.apply_event(TransactionEvent.ADD, now_ms=now_ms)
        self.partitions |= partitions
        self.version = version

    def prepare(self, *, commit: bool, version: int, fresh_id: int | None, now_ms: int) -> None:
        """Decide the outcome; from now on nothing can be added. The markers carry the epoch after this."""
        was_ongoing = self.state in (TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE)
        self.apply_event(TransactionEvent.COMMIT if commit else TransactionEvent.ABORT, now_ms=now_ms)
        if version >= EPOCH_BUMP_SINCE:
            self.last_epoch = self.epoch
            self.epoch += 1
        if not was_ongoing:
            self.started_ms = now_ms
        self.next_producer_id = -1 if fresh_id is None else fresh_id
        self.version = version

    def complete(self, *, now_ms: int) -> None:
        """All markers are written."""
        self.apply_event(TransactionEvent.COMPLETE, now_ms=now_ms)
        self.producer_id, self.epoch = self.next_producer
        self.next_producer_id = -1
        self.partitions = set()

    @property
    def next_producer(self) -> ProducerIdAndEpoch:
        """The producer that holds the id once the transaction is complete."""
        if self.version >= EPOCH_BUMP_SINCE and self.next_producer_id >= 0:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return self.producer

    def _next_epoch(self, expected: ProducerIdAndEpoch | None) -> tuple[int, int]:
        """The next epoch, and the last epoch to store."""
        if expected is None:
            return self.epoch + 1, -1
        if self.epoch in (-1, expected.epoch):
            return self.epoch + 1, self.epoch
        if self.is_exhausted:
            return self.epoch + 1, -1
        if expected.epoch == self.last_epoch:
            # The response with the last epoch was lost: it is repeated.
            return self.epoch, self.last_epoch
        raise self.fenced_error(expected)
