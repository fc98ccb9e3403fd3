"""The transaction coordinator of a node: its transactional ids, how they end, and when they expire.

What has to be written into partitions is handed to `send`, and comes back by `written`: this room knows no other node.
Source: Kafka's TransactionCoordinator and TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group_timers import Timers
from mockbroker.state.transaction import EPOCH_BUMP_SINCE, EPOCH_LAST, Event, Holder, Place, State, Transaction

#: The timeout of a transaction that takes part in a two-phase commit, and so waits for ever.
NO_TIMEOUT = (1 << 31) - 1
#: The state that an end leaves behind, by whether it commits.
_COMPLETE = {True: State.COMPLETE_COMMIT, False: State.COMPLETE_ABORT}
#: How soon the end of a transaction is written again that too few replicas were there for.
_RETRY_MS = 100


class Ending(NamedTuple):
    """How a transaction ends, for the partitions in it: what their markers say."""

    transactional_id: str
    holder: Holder
    coordinator_epoch: int
    commit: bool
    version: int


class FreshIds(Protocol):
    """Where producer ids come from."""

    def fresh(self) -> int:
        """An id that nobody in the cluster has had."""
        ...


class Transactions:
    """The transactional ids of one coordinator.

    coordinator_epoch: the epoch in which this node coordinates an id, None when it does not. transaction_version: the
    finalized level of that feature, by which the coordinator itself aborts. send: has markers written. record: keeps an
    id as it is after a change.
    """

    def __init__(
        self,
        ids: FreshIds,
        config: Mapping[str, object],
        *,
        coordinator_epoch: Callable[[str], int | None],
        transaction_version: Callable[[], int],
        send: Callable[[Ending, frozenset[Place], int], None],
        record: Callable[[Transaction, int], None] = lambda held, now_ms: None,
    ) -> None:
        self._ids = ids
        self._config = config
        self._coordinator_epoch = coordinator_epoch
        self._version = transaction_version
        self._send = send
        self._record = record
        self._transactions: dict[str, Transaction] = {}
        self._timers = Timers()

    def find(self, transactional_id: str) -> Transaction | None:
        """What is known of a transactional id that this node coordinates.

        Raises: NOT_COORDINATOR.
        """
        self._epoch(transactional_id)
        return self._transactions.get(transactional_id)

    def all(self) -> list[Transaction]:
        """Every transactional id that this node coordinates, in order of their first use."""
        return [held for name, held in self._transactions.items() if self._coordinator_epoch(name) is not None]

    def initialize(self, transactional_id: str, *, timeout_ms: int, expected: Holder | None, now_ms: int) -> Holder:
        """Give a transactional id to a producer; those before it are fenced, and an open transaction is aborted.

        expected: who the producer believes to be, when it recovers.
        Raises: CONCURRENT_TRANSACTIONS (an open transaction is being ended: ask again), PRODUCER_FENCED.
        """
        held = self.find(transactional_id)
        if held is None:
            held = self._transactions[transactional_id] = Transaction(transactional_id, self._ids.fresh())
        held.must_be_idle()
        if expected is not None and not _may_recover(held, expected):
            raise held.fenced(expected)
        if held.state is State.ONGOING:
            self._fence(held, now_ms)
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{transactional_id} has a transaction to abort")
        rotates = held.is_exhausted and (expected is None or expected.epoch == held.epoch)
        before = held.snapshot()
        held.initialize(expected, fresh_id=self._ids.fresh() if rotates else None, timeout_ms=timeout_ms, now_ms=now_ms)
        self._write(held, before, now_ms)
        self._watch(held)
        return held.holder

    def add(
        self, transactional_id: str, holder: Holder, partitions: Iterable[Place], *, version: int, now_ms: int
    ) -> None:
        """Add partitions to the transaction of a producer, and begin it with the first ones.

        version: the level of transaction.version that the client goes by.
        Raises: INVALID_REQUEST, NOT_COORDINATOR, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        held = self._existing(transactional_id, holder)
        held.must_be_idle()
        held.must_hold(holder)
        wanted = set(partitions)
        if held.state is State.ONGOING and wanted <= held.partitions:
            return
        before = held.snapshot()
        held.add(wanted, version=version, now_ms=now_ms)
        self._write(held, before, now_ms)
        self._watch(held)

    def verify(self, transactional_id: str, holder: Holder, partitions: Iterable[Place]) -> dict[Place, ErrorCode]:
        """Say of each partition whether it is in the producer's transaction: NONE, or TRANSACTION_ABORTABLE.

        Raises: INVALID_REQUEST, NOT_COORDINATOR, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        held = self._existing(transactional_id, holder)
        held.must_hold(holder)
        held.must_be_idle()
        return {
            place: ErrorCode.NONE if place in held.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for place in partitions
        }

    def end(self, transactional_id: str, holder: Holder, *, commit: bool, version: int, now_ms: int) -> Holder | None:
        """End a producer's transaction; its markers are sent, not awaited. Says who holds the id from then on.

        None: the client goes by a version that leaves its epoch alone.
        Raises: INVALID_REQUEST, NOT_COORDINATOR, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
        INVALID_TXN_STATE.
        """
        held = self._existing(transactional_id, holder)
        if version < EPOCH_BUMP_SINCE:
            held.must_hold(holder)
            held.must_be_idle()
            if held.state is _COMPLETE[commit]:
                return None
            _must(held.state is State.ONGOING, held, commit=commit)
            self._prepare(held, commit=commit, version=0, now_ms=now_ms)
            return None
        held.must_be_idle()
        if _repeats(held, holder):
            _must(held.state is _COMPLETE[commit], held, commit=commit)
            return held.holder
        held.must_hold(holder)
        # A client may abort what has not begun, for it cannot always know.
        _must(held.state is State.ONGOING or not commit, held, commit=commit)
        return self._prepare(held, commit=commit, version=version, now_ms=now_ms)

    def written(self, ending: Ending, place: Place, *, now_ms: int) -> None:
        """A marker has been written, or its partition is gone; after the last one the transaction is complete."""
        held = self._transactions.get(ending.transactional_id)
        if held is None or not held.is_ending or held.holder != ending.holder:
            return
        held.partitions.discard(place)
        self._complete_if_written(held, now_ms)

    def is_sending(self, ending: Ending) -> bool:
        """Whether the markers of this end are still wanted of this node."""
        held = self._transactions.get(ending.transactional_id)
        still = held is not None and held.is_ending and held.holder == ending.holder
        return still and self._coordinator_epoch(ending.transactional_id) == ending.coordinator_epoch

    def load(self, transactions: Iterable[Transaction], *, now_ms: int) -> None:
        """Take over ids from another coordinator; those that were about to end go on ending."""
        for held in transactions:
            self._transactions[held.transactional_id] = held
            if held.is_ending:
                self._send_markers(held, now_ms)
            else:
                self._watch(held)

    def unload(self, is_gone: Callable[[str], bool]) -> None:
        """Forget the ids that another coordinator has now."""
        for name in [name for name in self._transactions if is_gone(name)]:
            self._timers.cancel(_key(self._transactions.pop(name)))

    def next_deadline_ms(self) -> int | None:
        """When the next transaction has been open for too long, or the next id unused."""
        return self._timers.next_deadline_ms()

    def expire(self, *, now_ms: int) -> None:
        """Abort transactions that are open for too long, and forget ids that have not been used for long enough."""
        self._timers.expire(now_ms=now_ms)

    def _epoch(self, transactional_id: str) -> int:
        epoch = self._coordinator_epoch(transactional_id)
        if epoch is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"another node coordinates {transactional_id}")
        return epoch

    def _existing(self, transactional_id: str, holder: Holder) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        held = self.find(transactional_id)
        if held is None:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"{transactional_id} of producer {holder.producer_id} is not known",
            )
        return held

    def _fence(self, held: Transaction, now_ms: int) -> None:
        """Abort an open transaction in an epoch above its producer's, which can write no more.

        Under transaction.version 2 the end raises the epoch by itself.
        """
        before = held.snapshot()
        held.move(Event.FENCE, now_ms=now_ms)
        version = self._version()
        if version < EPOCH_BUMP_SINCE:
            held.epoch, held.last_epoch = held.epoch + 1, -1
        self._prepare(held, commit=False, version=version, now_ms=now_ms, before=before)

    def _prepare(
        self, held: Transaction, *, commit: bool, version: int, now_ms: int, before: Transaction | None = None
    ) -> Holder:
        """Write how it ends, and send that to its partitions. before: what it was, if it has changed already."""
        before = held.snapshot() if before is None else before
        rotates = version >= EPOCH_BUMP_SINCE and held.epoch >= EPOCH_LAST
        held.prepare(
            commit=commit,
            version=version if version >= EPOCH_BUMP_SINCE else 0,
            fresh_id=self._ids.fresh() if rotates else None,
            now_ms=now_ms,
        )
        self._write(held, before, now_ms)
        self._timers.cancel(_key(held))
        answer = held.next_holder
        self._send_markers(held, now_ms)
        return answer

    def _send_markers(self, held: Transaction, now_ms: int) -> None:
        epoch = self._epoch(held.transactional_id)
        commit = held.state is State.PREPARE_COMMIT
        ending = Ending(held.transactional_id, held.holder, epoch, commit, held.version)
        self._send(ending, frozenset(held.partitions), now_ms)
        self._complete_if_written(held, now_ms)

    def _complete_if_written(self, held: Transaction, now_ms: int) -> None:
        if held.partitions:
            return
        before = held.snapshot()
        held.complete(now_ms=now_ms)
        try:
            self._write(held, before, now_ms)
        except KafkaError:
            # Kafka's marker sender tries such records again, as often as it looks at its queues.
            key = _key(held)
            self._timers.set(key, now_ms + _RETRY_MS, lambda at_ms: self._complete_if_written(held, at_ms))
            return
        self._watch(held)

    def _write(self, held: Transaction, before: Transaction, now_ms: int) -> None:
        """Have a change written, or undo it.

        Raises: COORDINATOR_NOT_AVAILABLE.
        """
        try:
            self._record(held, now_ms)
        except KafkaError:
            held.go_back(before)
            raise

    def _watch(self, held: Transaction, *, after_ms: int = -1) -> None:
        """Set the one deadline of an id: that of its open transaction, else that of the id itself."""
        if held.state is State.ONGOING:
            # Kafka looks at regular times, and aborts what began more than the timeout ago.
            due_ms = held.started_ms + held.timeout_ms + 1
            interval_ms = self._integer("transaction.abort.timed.out.transaction.cleanup.interval.ms")
        else:
            due_ms = held.updated_ms + self._integer("transactional.id.expiration.ms")
            interval_ms = self._integer("transaction.remove.expired.transaction.cleanup.interval.ms")
        due_ms = max(due_ms, after_ms + 1)
        self._timers.set(_key(held), _next_look(due_ms, interval_ms), lambda at_ms: self._timed_out(held, at_ms))

    def _timed_out(self, held: Transaction, now_ms: int) -> None:
        if self._coordinator_epoch(held.transactional_id) is None:
            return
        try:
            self._end_by_time(held, now_ms)
        except KafkaError:
            # It could not be written; the next regular look finds it again.
            self._watch(held, after_ms=now_ms)

    def _end_by_time(self, held: Transaction, now_ms: int) -> None:
        if held.state is not State.ONGOING:
            before = held.snapshot()
            held.move(Event.EXPIRE, now_ms=now_ms)
            self._write(held, before, now_ms)
            del self._transactions[held.transactional_id]
        elif held.timeout_ms != NO_TIMEOUT:
            self._fence(held, now_ms)

    def _integer(self, name: str) -> int:
        value = self._config[name]
        assert isinstance(value, int)
        return value


def _key(held: Transaction) -> tuple[str, str]:
    return ("transaction", held.transactional_id)


def _next_look(due_ms: int, interval_ms: int) -> int:
    """The first of the regular looks that sees what is due; they are counted from the clock's zero."""
    return -(-due_ms // interval_ms) * interval_ms


def _may_recover(held: Transaction, expected: Holder) -> bool:
    """Whether a producer may take up where it believes to be; the epoch is looked at later."""
    if held.epoch == -1 or expected.producer_id == held.producer_id:
        return True
    return expected.producer_id == held.previous_producer_id and expected.epoch >= EPOCH_LAST


def _repeats(held: Transaction, holder: Holder) -> bool:
    """Whether an end has been asked for before, under the epoch or the producer id that it has replaced."""
    if held.state not in _COMPLETE.values():
        return False
    bumped = holder.producer_id == held.producer_id and holder.epoch + 1 == held.epoch
    rotated = holder == (held.previous_producer_id, EPOCH_LAST) and held.epoch == 0
    return bumped or rotated


def _must(allowed: bool, held: Transaction, *, commit: bool) -> None:
    if not allowed:
        wish = "commit" if commit else "abort"
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"{wish} of {held.transactional_id} in {held.state.value}")
