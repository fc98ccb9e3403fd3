"""The transaction coordinator of a node: its transactional ids, their commits and aborts, and their expiry.

Markers are passed to `send`, and confirmed by `on_marker_written`: the coordinator has no access to other nodes.
Source: Kafka's TransactionCoordinator and TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.settings import read_int
from mockbroker.state.timers import EarliestDeadline, Timers
from mockbroker.state.transaction.transaction import (
    EPOCH_BUMP_SINCE,
    EPOCH_LAST,
    ProducerIdAndEpoch,
    TopicPartition,
    Transaction,
    TransactionEvent,
    TransactionState,
)

#: The timeout of a transaction in a two-phase commit, which never expires.
NO_TIMEOUT = (1 << 31) - 1
#: The final state, by whether the transaction commits.
_COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}
#: The delay before a completed transaction is written again after too few replicas were in sync.
_RETRY_MS = 100


class TransactionEnd(NamedTuple):
    """The outcome of a transaction for its partitions: the content of their markers."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    coordinator_epoch: int
    commit: bool
    version: int


class ProducerIdSource(Protocol):
    """A source of producer ids."""

    def next_id(self) -> int:
        """An id that no producer of the cluster has had."""


class TransactionCoordinator:
    """The transactional ids of one coordinator.

    coordinator_epoch: the epoch in which this node coordinates an id, None when it does not. transaction_version: the
    finalized level of that feature, for aborts by the coordinator. send: writes markers. append_record: stores an id
    after a change.
    """

    def __init__(
        self,
        ids: ProducerIdSource,
        config: Mapping[str, object],
        *,
        coordinator_epoch: Callable[[str], int | None],
        transaction_version: Callable[[], int],
        send: Callable[[TransactionEnd, frozenset[TopicPartition], int], None],
        append_record: Callable[[Transaction, int], None] = lambda transaction, now_ms: None,
        earliest: EarliestDeadline | None = None,
    ) -> None:
        self._ids = ids
        self._config = config
        self._coordinator_epoch = coordinator_epoch
        self._version = transaction_version
        self._send_to_partitions = send
        self._append_record = append_record
        self._transactions: dict[str, Transaction] = {}
        self.timers = Timers(earliest)

    def find_transaction(self, transactional_id: str) -> Transaction | None:
        """The state of a transactional id, None if it is unknown. Raises: NOT_COORDINATOR."""
        self._require_epoch(transactional_id)
        return self._transactions.get(transactional_id)

    def all_transactions(self) -> list[Transaction]:
        """Every transactional id that this node coordinates, in the order of their first use."""
        transactions = self._transactions.items()
        return [transaction for name, transaction in transactions if self._coordinator_epoch(name) is not None]

    def initialize_producer(
        self, transactional_id: str, *, timeout_ms: int, expected: ProducerIdAndEpoch | None, now_ms: int
    ) -> ProducerIdAndEpoch:
        """Assign a transactional id to a producer; earlier ones are fenced, and an open transaction is aborted.

        expected: the producer id and epoch of a recovering producer.
        Raises: CONCURRENT_TRANSACTIONS (an open transaction is being ended: retry), PRODUCER_FENCED.
        """
        transaction = self.find_transaction(transactional_id)
        if transaction is None:
            transaction = self._transactions[transactional_id] = Transaction(transactional_id, self._ids.next_id())
        transaction.require_not_ending()
        if expected is not None and not _can_recover(transaction, expected):
            raise transaction.fenced_error(expected)
        if transaction.state is TransactionState.ONGOING:
            self._abort_and_fence(transaction, now_ms)
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{transactional_id} has a transaction to abort")
        rotates = transaction.is_exhausted and (expected is None or expected.epoch == transaction.epoch)
        before = transaction.copy_state()
        fresh_id = self._ids.next_id() if rotates else None
        transaction.initialize(expected, fresh_id=fresh_id, timeout_ms=timeout_ms, now_ms=now_ms)
        self._write_transaction(transaction, before, now_ms)
        self._set_deadline(transaction)
        return transaction.producer

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        *,
        version: int,
        now_ms: int,
    ) -> None:
        """Add partitions to a producer's transaction; the first ones start it.

        version: the level of transaction.version that the client uses.
        Raises: INVALID_REQUEST, NOT_COORDINATOR, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        transaction = self._require_transaction(transactional_id, producer)
        transaction.require_not_ending()
        transaction.require_producer(producer)
        added = set(partitions)
        if transaction.state is TransactionState.ONGOING and added <= transaction.partitions:
            return
        before = transaction.copy_state()
        transaction.add_partitions(added, version=version, now_ms=now_ms)
        self._write_transaction(transaction, before, now_ms)
        self._set_deadline(transaction)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for each partition in the producer's transaction, TRANSACTION_ABORTABLE for the others.

        Raises: INVALID_REQUEST, NOT_COORDINATOR, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        transaction = self._require_transaction(transactional_id, producer)
        transaction.require_producer(producer)
        transaction.require_not_ending()
        return {
            partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def end_transaction(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool, version: int, now_ms: int
    ) -> ProducerIdAndEpoch | None:
        """End a producer's transaction without waiting for its markers; returns the producer that holds the id from
        then on.

        None: the client uses a version that does not change its epoch.
        Raises: INVALID_REQUEST, NOT_COORDINATOR, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
        INVALID_TXN_STATE.
        """
        transaction = self._require_transaction(transactional_id, producer)
        if version < EPOCH_BUMP_SINCE:
            transaction.require_producer(producer)
            transaction.require_not_ending()
            if transaction.state is _COMPLETE[commit]:
                return None
            _require_state(transaction.state is TransactionState.ONGOING, transaction, commit=commit)
            self._prepare_end(transaction, commit=commit, version=0, now_ms=now_ms)
            return None
        transaction.require_not_ending()
        if _is_retry(transaction, producer):
            _require_state(transaction.state is _COMPLETE[commit], transaction, commit=commit)
            return transaction.producer
        transaction.require_producer(producer)
        # A client may abort a transaction that has not started, as it cannot always detect that.
        _require_state(transaction.state is TransactionState.ONGOING or not commit, transaction, commit=commit)
        return self._prepare_end(transaction, commit=commit, version=version, now_ms=now_ms)

    def time_out(self, transactional_id: str, *, now_ms: int) -> None:
        """Abort an open transaction now, as after its timeout, which fences its producer.

        Raises: NOT_COORDINATOR, INVALID_TXN_STATE without an open transaction.
        """
        transaction = self.find_transaction(transactional_id)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{transactional_id} has no open transaction")
        self._abort_and_fence(transaction, now_ms)

    def fence_producer(self, transactional_id: str, *, now_ms: int) -> None:
        """Give a transactional id its next epoch, as another producer does; an open transaction is aborted.

        Raises: NOT_COORDINATOR, TRANSACTIONAL_ID_NOT_FOUND, CONCURRENT_TRANSACTIONS while it ends.
        """
        transaction = self.find_transaction(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"{transactional_id} is not known")
        transaction.require_not_ending()
        if transaction.state is TransactionState.ONGOING:
            self._abort_and_fence(transaction, now_ms)
            return
        self.initialize_producer(transactional_id, timeout_ms=transaction.timeout_ms, expected=None, now_ms=now_ms)

    def on_marker_written(self, ending: TransactionEnd, partition: TopicPartition, *, now_ms: int) -> None:
        """A marker was written, or its partition deleted; after the last one the transaction is complete."""
        transaction = self._transactions.get(ending.transactional_id)
        if transaction is None or not transaction.is_ending or transaction.producer != ending.producer:
            return
        transaction.partitions.discard(partition)
        self._complete_if_written(transaction, now_ms)

    def needs_markers(self, ending: TransactionEnd) -> bool:
        """Return whether this node still has to write the markers of this transaction."""
        transaction = self._transactions.get(ending.transactional_id)
        still = transaction is not None and transaction.is_ending and transaction.producer == ending.producer
        return still and self._coordinator_epoch(ending.transactional_id) == ending.coordinator_epoch

    def load_transactions(self, transactions: Iterable[Transaction], *, now_ms: int) -> None:
        """Load ids of another coordinator; those that were ending continue to end."""
        for transaction in transactions:
            self._transactions[transaction.transactional_id] = transaction
            if transaction.is_ending:
                self._send_markers(transaction, now_ms)
            else:
                self._set_deadline(transaction)

    def unload_transactions(self, is_gone: Callable[[str], bool]) -> None:
        """Remove the ids that another coordinator has now."""
        for name in [name for name in self._transactions if is_gone(name)]:
            self.timers.cancel_timer(_key(self._transactions.pop(name)))

    def next_deadline_ms(self) -> int | None:
        """The earliest timeout of a transaction, or expiry of an unused id."""
        return self.timers.next_deadline_ms()

    def expire(self, *, now_ms: int) -> None:
        """Abort transactions that have timed out, and remove ids that are unused for long enough."""
        self.timers.expire(now_ms=now_ms)

    def _require_epoch(self, transactional_id: str) -> int:
        epoch = self._coordinator_epoch(transactional_id)
        if epoch is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"another node coordinates {transactional_id}")
        return epoch

    def _require_transaction(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        transaction = self.find_transaction(transactional_id)
        if transaction is None:
            message = f"{transactional_id} of producer {producer.producer_id} is not known"
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
        return transaction

    def _abort_and_fence(self, transaction: Transaction, now_ms: int) -> None:
        """Abort an open transaction in an epoch above its producer's, which fences the producer.

        Under transaction.version 2 the end itself increments the epoch.
        """
        before = transaction.copy_state()
        transaction.apply_event(TransactionEvent.FENCE, now_ms=now_ms)
        version = self._version()
        if version < EPOCH_BUMP_SINCE:
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, -1
        self._prepare_end(transaction, commit=False, version=version, now_ms=now_ms, before=before)

    def _prepare_end(
        self, transaction: Transaction, *, commit: bool, version: int, now_ms: int, before: Transaction | None = None
    ) -> ProducerIdAndEpoch:
        """Write the outcome, and send it to the partitions. before: the state before any change."""
        before = transaction.copy_state() if before is None else before
        rotates = version >= EPOCH_BUMP_SINCE and transaction.epoch >= EPOCH_LAST
        stored_version = version if version >= EPOCH_BUMP_SINCE else 0
        fresh_id = self._ids.next_id() if rotates else None
        transaction.prepare(commit=commit, version=stored_version, fresh_id=fresh_id, now_ms=now_ms)
        self._write_transaction(transaction, before, now_ms)
        self.timers.cancel_timer(_key(transaction))
        answer = transaction.next_producer
        self._send_markers(transaction, now_ms)
        return answer

    def _send_markers(self, transaction: Transaction, now_ms: int) -> None:
        epoch = self._require_epoch(transaction.transactional_id)
        commit = transaction.state is TransactionState.PREPARE_COMMIT
        ending = TransactionEnd(transaction.transactional_id, transaction.producer, epoch, commit, transaction.version)
        self._send_to_partitions(ending, frozenset(transaction.partitions), now_ms)
        self._complete_if_written(transaction, now_ms)

    def _complete_if_written(self, transaction: Transaction, now_ms: int) -> None:
        if transaction.partitions:
            return
        before = transaction.copy_state()
        transaction.complete(now_ms=now_ms)
        try:
            self._write_transaction(transaction, before, now_ms)
        except KafkaError:
            # Kafka's marker sender retries such records whenever it processes its queues.
            key = _key(transaction)
            self.timers.set_timer(key, now_ms + _RETRY_MS, lambda at_ms: self._complete_if_written(transaction, at_ms))
            return
        self._set_deadline(transaction)

    def _write_transaction(self, transaction: Transaction, before: Transaction, now_ms: int) -> None:
        """Write a change, or undo it. Raises: COORDINATOR_NOT_AVAILABLE."""
        try:
            self._append_record(transaction, now_ms)
        except KafkaError:
            transaction.restore_state(before)
            raise

    def _set_deadline(self, transaction: Transaction, *, after_ms: int = -1) -> None:
        """Set the deadline of an id: that of its open transaction, else that of the id itself."""
        if transaction.state is TransactionState.ONGOING:
            # Kafka checks periodically, and aborts transactions that are older than the timeout.
            due_ms = transaction.started_ms + transaction.timeout_ms + 1
            interval_ms = read_int(self._config, "transaction.abort.timed.out.transaction.cleanup.interval.ms")
        else:
            due_ms = transaction.updated_ms + read_int(self._config, "transactional.id.expiration.ms")
            interval_ms = read_int(self._config, "transaction.remove.expired.transaction.cleanup.interval.ms")
        check_ms = _next_check_ms(max(due_ms, after_ms + 1), interval_ms)
        self.timers.set_timer(_key(transaction), check_ms, lambda at_ms: self._on_deadline(transaction, at_ms))

    def _on_deadline(self, transaction: Transaction, now_ms: int) -> None:
        if self._coordinator_epoch(transaction.transactional_id) is None:
            return
        try:
            self._abort_or_expire(transaction, now_ms)
        except KafkaError:
            # It could not be written; the next periodic check retries.
            self._set_deadline(transaction, after_ms=now_ms)

    def _abort_or_expire(self, transaction: Transaction, now_ms: int) -> None:
        if transaction.state is not TransactionState.ONGOING:
            before = transaction.copy_state()
            transaction.apply_event(TransactionEvent.EXPIRE, now_ms=now_ms)
            self._write_transaction(transaction, before, now_ms)
            del self._transactions[transaction.transactional_id]
        elif transaction.timeout_ms != NO_TIMEOUT:
            self._abort_and_fence(transaction, now_ms)


def _key(transaction: Transaction) -> tuple[str, str]:
    return ("transaction", transaction.transactional_id)


def _next_check_ms(due_ms: int, interval_ms: int) -> int:
    """The time of the first periodic check at or after this time; checks are counted from the clock's zero."""
    return -(-due_ms // interval_ms) * interval_ms


def _can_recover(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Return whether a producer may recover with this id; its epoch is checked later."""
    if transaction.epoch == -1 or expected.producer_id == transaction.producer_id:
        return True
    return expected.producer_id == transaction.previous_producer_id and expected.epoch >= EPOCH_LAST


def _is_retry(transaction: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Return whether a request repeats an end, with the epoch or the producer id that the end has replaced."""
    if transaction.state not in _COMPLETE.values():
        return False
    bumped = producer.producer_id == transaction.producer_id and producer.epoch + 1 == transaction.epoch
    rotated = producer == (transaction.previous_producer_id, EPOCH_LAST) and transaction.epoch == 0
    return bumped or rotated


def _require_state(allowed: bool, transaction: Transaction, *, commit: bool) -> None:
    if not allowed:
        action = "commit" if commit else "abort"
        message = f"{action} of {transaction.transactional_id} in {transaction.state.value}"
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, message)
