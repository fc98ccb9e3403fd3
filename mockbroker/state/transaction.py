"""One transactional id: who holds it, and the state of its transaction.

Source: Kafka's TransactionState and TransactionMetadata; epochs under transaction.version 2: KIP-890 part 2.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

#: The last epoch that a producer may get; the one above it is kept for fencing.
EPOCH_LAST = 32_766
#: From this level of transaction.version on, every end of a transaction raises the producer's epoch.
EPOCH_BUMP_SINCE = 2


class State(Enum):
    """Where a transaction stands; the values are the names that Kafka's admin client shows."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class Event(Enum):
    """What happens to it."""

    INITIALIZE = auto()
    ADD = auto()
    COMMIT = auto()
    ABORT = auto()
    FENCE = auto()
    COMPLETE = auto()
    EXPIRE = auto()


#: ABORT of what is not ongoing is only for clients of transaction.version 2, who may not know better.
TRANSITIONS: dict[State, dict[Event, State]] = {
    State.EMPTY: {
        Event.INITIALIZE: State.EMPTY,
        Event.ADD: State.ONGOING,
        Event.ABORT: State.PREPARE_ABORT,
        Event.EXPIRE: State.DEAD,
    },
    State.ONGOING: {
        Event.ADD: State.ONGOING,
        Event.COMMIT: State.PREPARE_COMMIT,
        Event.ABORT: State.PREPARE_ABORT,
        Event.FENCE: State.PREPARE_EPOCH_FENCE,
    },
    State.PREPARE_COMMIT: {Event.COMPLETE: State.COMPLETE_COMMIT},
    State.PREPARE_ABORT: {Event.COMPLETE: State.COMPLETE_ABORT},
    State.COMPLETE_COMMIT: {
        Event.INITIALIZE: State.EMPTY,
        Event.ADD: State.ONGOING,
        Event.ABORT: State.PREPARE_ABORT,
        Event.EXPIRE: State.DEAD,
    },
    State.COMPLETE_ABORT: {
        Event.INITIALIZE: State.EMPTY,
        Event.ADD: State.ONGOING,
        Event.ABORT: State.PREPARE_ABORT,
        Event.EXPIRE: State.DEAD,
    },
    State.DEAD: {},
    State.PREPARE_EPOCH_FENCE: {Event.ABORT: State.PREPARE_ABORT},
}


class Place(NamedTuple):
    """A partition by the name of its topic, as transactions know it."""

    topic: str
    partition_index: int


class Holder(NamedTuple):
    """A producer id with its epoch: who writes under a transactional id."""

    producer_id: int
    epoch: int


class Transaction(msgspec.Struct):
    """A transactional id. -1 stands for nothing yet; times are milliseconds of the cluster's clock.

    previous_producer_id: the id before the last move. next_producer_id: the id that takes over when the one now has no
    epochs left. version: the level of transaction.version by which the transaction in progress goes.
    """

    transactional_id: str
    producer_id: int
    epoch: int = -1
    last_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: set[Place] = msgspec.field(default_factory=set)
    started_ms: int = -1
    updated_ms: int = -1
    version: int = 0

    def snapshot(self) -> Transaction:
        """A copy, to go back to when a change cannot be written."""
        return msgspec.structs.replace(self, partitions=set(self.partitions))

    def go_back(self, to: Transaction) -> None:
        """Be again what it was."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(to, name))

    @property
    def holder(self) -> Holder:
        """Who writes under the id now."""
        return Holder(self.producer_id, self.epoch)

    @property
    def is_ending(self) -> bool:
        """Whether its markers are still on their way."""
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to give."""
        return self.epoch >= EPOCH_LAST

    def move(self, event: Event, *, now_ms: int) -> None:
        """Go on to the next state; what does not lead anywhere is a mistake of ours.

        Every move notes the producer id that it finds, by which an answer that was lost can be repeated.
        """
        target = TRANSITIONS[self.state].get(event)
        assert target is not None, f"{self.transactional_id}: {event.name} in {self.state.name}"
        self.state = target
        self.previous_producer_id = self.producer_id
        self.updated_ms = now_ms

    def must_be_idle(self) -> None:
        """Refuse whatever has to wait until the markers are written.

        Raises: CONCURRENT_TRANSACTIONS.
        """
        if self.is_ending:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{self.transactional_id} is in {self.state.value}")

    def must_hold(self, holder: Holder) -> None:
        """Refuse anybody but the producer that holds the id now.

        Raises: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
        """
        if holder.producer_id != self.producer_id:
            raise self.unmapped(holder)
        if holder.epoch != self.epoch:
            raise self.fenced(holder)

    def unmapped(self, holder: Holder) -> KafkaError:
        """The refusal of a producer id that does not belong to this transactional id."""
        return KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{self.transactional_id} belongs to producer {self.producer_id}, not {holder.producer_id}",
        )

    def fenced(self, holder: Holder) -> KafkaError:
        """The refusal of an epoch that is not the one in force."""
        return KafkaError(
            ErrorCode.PRODUCER_FENCED,
            f"{self.transactional_id}: producer {holder.producer_id} has epoch {holder.epoch}, {self.epoch} is current",
        )

    def initialize(self, expected: Holder | None, *, fresh_id: int | None, timeout_ms: int, now_ms: int) -> None:
        """Give the id to a producer, in the next epoch, or under a fresh producer id when there is no next one.

        expected: who the producer believes to be, when it recovers (KIP-360). fresh_id: given when the epochs are used
        up and a new producer id is due.
        Raises: PRODUCER_FENCED.
        """
        epoch, last_epoch = self._next_epoch(expected)
        if fresh_id is not None:
            epoch, last_epoch = 0, -1 if expected is None else self.epoch
        elif epoch > EPOCH_LAST:
            # Kafka 4.3.0 trips over its own check here: a recovering producer of another epoch, and no epoch left.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{self.transactional_id} has no epoch left")
        self.move(Event.INITIALIZE, now_ms=now_ms)
        self.producer_id = self.producer_id if fresh_id is None else fresh_id
        self.epoch, self.last_epoch = epoch, last_epoch
        self.timeout_ms = timeout_ms
        self.partitions = set()
        self.started_ms = -1

    def add(self, partitions: set[Place], *, version: int, now_ms: int) -> None:
        """Add partitions, and begin the transaction with the first ones."""
        if self.state is not State.ONGOING:
            self.started_ms = now_ms
        self.move(Event.ADD, now_ms=now_ms)
        self.partitions |= partitions
        self.version = version

    def prepare(self, *, commit: bool, version: int, fresh_id: int | None, now_ms: int) -> None:
        """Decide how it ends; from now on nothing can be added. Its markers carry the epoch that it has then."""
        was_ongoing = self.state in (State.ONGOING, State.PREPARE_EPOCH_FENCE)
        self.move(Event.COMMIT if commit else Event.ABORT, now_ms=now_ms)
        if version >= EPOCH_BUMP_SINCE:
            self.last_epoch = self.epoch
            self.epoch += 1
        if not was_ongoing:
            self.started_ms = now_ms
        self.next_producer_id = -1 if fresh_id is None else fresh_id
        self.version = version

    def complete(self, *, now_ms: int) -> None:
        """All markers are written."""
        self.move(Event.COMPLETE, now_ms=now_ms)
        self.producer_id, self.epoch = self.next_holder
        self.next_producer_id = -1
        self.partitions = set()

    @property
    def next_holder(self) -> Holder:
        """Who will hold the id once the transaction is complete."""
        if self.version >= EPOCH_BUMP_SINCE and self.next_producer_id >= 0:
            return Holder(self.next_producer_id, 0)
        return self.holder

    def _next_epoch(self, expected: Holder | None) -> tuple[int, int]:
        """The epoch after this one, and the one that counts as the last."""
        if expected is None:
            return self.epoch + 1, -1
        if self.epoch in (-1, expected.epoch):
            return self.epoch + 1, self.epoch
        if self.is_exhausted:
            return self.epoch + 1, -1
        if expected.epoch == self.last_epoch:
            # The answer to the last bump was lost: it gets the same again.
            return self.epoch, self.last_epoch
        raise self.fenced(expected)
