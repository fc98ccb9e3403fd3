"""The transaction coordinator without its cluster: epochs, ends, repeats and timeouts."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.transaction.producer_ids import ProducerIdBlocks, ProducerIds
from mockbroker.state.transaction.transaction import (
    EPOCH_LAST,
    TRANSITIONS,
    ProducerIdAndEpoch,
    TopicPartition,
    Transaction,
    TransactionEvent,
    TransactionState,
)
from mockbroker.state.transaction.transactions import TransactionCoordinator, TransactionEnd
from tests.support.raises_code import code_of, raises_code

CONFIG: dict[str, object] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 3_600_000,
    "transactional.id.expiration.ms": 604_800_000,
}
ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 3)
OLD, NEW = 0, 2


class Coordinator:
    """A coordinator, and the markers that it has sent."""

    def __init__(self, *, transaction_version: int = NEW) -> None:
        self.sent: list[tuple[TransactionEnd, frozenset[TopicPartition]]] = []
        self.epoch: int | None = 4
        self.under_test = TransactionCoordinator(
            ProducerIds(ProducerIdBlocks().next_block),
            CONFIG,
            coordinator_epoch=lambda _: self.epoch,
            transaction_version=lambda: transaction_version,
            send=lambda ending, partitions, now_ms: self.sent.append((ending, partitions)),
        )

    def initialize(self, expected: ProducerIdAndEpoch | None = None, *, now_ms: int = 0) -> ProducerIdAndEpoch:
        return self.under_test.initialize_producer("tx", timeout_ms=60_000, expected=expected, now_ms=now_ms)

    def add(self, holder: ProducerIdAndEpoch, *partitions: TopicPartition, version: int = NEW, now_ms: int = 0) -> None:
        self.under_test.add_partitions("tx", holder, partitions, version=version, now_ms=now_ms)

    def end(
        self, holder: ProducerIdAndEpoch, *, commit: bool = True, version: int = NEW, now_ms: int = 0
    ) -> ProducerIdAndEpoch | None:
        return self.under_test.end_transaction("tx", holder, commit=commit, version=version, now_ms=now_ms)

    def write_markers(self) -> None:
        ending, partitions = self.sent[-1]
        for partition in partitions:
            self.under_test.on_marker_written(ending, partition, now_ms=0)

    @property
    def held(self) -> Transaction:
        transaction = self.under_test.find_transaction("tx")
        assert transaction is not None
        return transaction


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_each_initialization_of_a_transactional_id_has_the_next_epoch(coordinator: Coordinator) -> None:
    first = coordinator.initialize()

    assert first.epoch == 0
    assert coordinator.initialize() == (first.producer_id, 1)
    other = coordinator.under_test.initialize_producer("other", timeout_ms=1, expected=None, now_ms=0)
    assert other.producer_id != first.producer_id


def test_a_recovering_producer_sends_its_id_and_may_retry(coordinator: Coordinator) -> None:
    first = coordinator.initialize()

    assert coordinator.initialize(first) == (first.producer_id, 1)
    assert coordinator.initialize(first) == (first.producer_id, 1)


@pytest.mark.parametrize("expected", [ProducerIdAndEpoch(0, 5), ProducerIdAndEpoch(12345, 0)])
def test_another_producer_is_fenced(coordinator: Coordinator, expected: ProducerIdAndEpoch) -> None:
    coordinator.initialize()

    assert code_of(lambda: coordinator.initialize(expected)) is ErrorCode.PRODUCER_FENCED


def test_after_the_last_epoch_the_producer_id_changes(coordinator: Coordinator) -> None:
    first = coordinator.initialize()
    coordinator.held.epoch = EPOCH_LAST

    second = coordinator.initialize(ProducerIdAndEpoch(first.producer_id, EPOCH_LAST))
    assert (second.producer_id != first.producer_id, second.epoch) == (True, 0)
    assert coordinator.initialize(ProducerIdAndEpoch(first.producer_id, EPOCH_LAST)) == second


def test_without_an_epoch_left_a_producer_of_another_epoch_gets_kafkas_server_error(coordinator: Coordinator) -> None:
    first = coordinator.initialize()
    coordinator.held.epoch, coordinator.held.last_epoch = EPOCH_LAST, EPOCH_LAST - 1

    with raises_code(ErrorCode.UNKNOWN_SERVER_ERROR):
        coordinator.initialize(ProducerIdAndEpoch(first.producer_id, EPOCH_LAST - 1))


def test_a_fence_in_the_last_epoch_changes_the_producer_id(coordinator: Coordinator) -> None:
    first = coordinator.initialize()
    coordinator.held.epoch = EPOCH_LAST
    coordinator.add(ProducerIdAndEpoch(first.producer_id, EPOCH_LAST), ORDERS)
    assert code_of(coordinator.initialize) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()

    assert (coordinator.held.producer_id != first.producer_id, coordinator.held.epoch) == (True, 0)
    assert coordinator.initialize().epoch == 1


def test_a_transaction_begins_with_its_first_partition_and_is_complete_with_its_last_marker(
    coordinator: Coordinator,
) -> None:
    holder = coordinator.initialize()
    coordinator.add(holder, ORDERS, now_ms=10)
    coordinator.add(holder, BILLS, now_ms=20)
    assert (coordinator.held.state, coordinator.held.started_ms) == (TransactionState.ONGOING, 10)

    assert coordinator.end(holder) == (holder.producer_id, 1)
    ending, partitions = coordinator.sent[0]
    assert (ending.producer.epoch, ending.coordinator_epoch, ending.commit, ending.version) == (1, 4, True, 2)
    assert partitions == {ORDERS, BILLS}
    coordinator.under_test.on_marker_written(ending, ORDERS, now_ms=30)
    assert coordinator.held.state is TransactionState.PREPARE_COMMIT
    coordinator.under_test.on_marker_written(ending, BILLS, now_ms=30)
    assert (coordinator.held.state, coordinator.held.partitions) == (TransactionState.COMPLETE_COMMIT, set())


def test_other_requests_wait_while_markers_are_written(coordinator: Coordinator) -> None:
    holder = coordinator.initialize()
    coordinator.add(holder, ORDERS)
    successor = coordinator.end(holder)
    assert successor is not None

    assert code_of(lambda: coordinator.add(successor, BILLS)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert code_of(lambda: coordinator.end(holder)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert code_of(coordinator.initialize) is ErrorCode.CONCURRENT_TRANSACTIONS
    with raises_code(ErrorCode.CONCURRENT_TRANSACTIONS):
        coordinator.under_test.verify_partitions("tx", successor, [ORDERS])
    coordinator.write_markers()
    coordinator.add(successor, BILLS)


# Kafka's own table of EndTxn version 5, by state, action and epoch: None is a response with the present epoch,
# True an answer with a raised one.
@pytest.mark.parametrize(
    ("state", "commit", "retry", "answer"),
    [
        (TransactionState.EMPTY, False, True, ErrorCode.PRODUCER_FENCED),
        (TransactionState.EMPTY, False, False, True),
        (TransactionState.EMPTY, True, True, ErrorCode.PRODUCER_FENCED),
        (TransactionState.EMPTY, True, False, ErrorCode.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_ABORT, False, True, None),
        (TransactionState.COMPLETE_ABORT, False, False, True),
        (TransactionState.COMPLETE_ABORT, True, True, ErrorCode.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_ABORT, True, False, ErrorCode.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_COMMIT, False, True, ErrorCode.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_COMMIT, False, False, True),
        (TransactionState.COMPLETE_COMMIT, True, True, None),
        (TransactionState.COMPLETE_COMMIT, True, False, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_the_end_of_a_transaction_that_is_not_open(
    coordinator: Coordinator, state: TransactionState, commit: bool, retry: bool, answer: ErrorCode | bool | None
) -> None:
    coordinator.initialize()
    holder = coordinator.initialize()
    if state is not TransactionState.EMPTY:
        coordinator.add(holder, ORDERS)
        successor = coordinator.end(holder, commit=state is TransactionState.COMPLETE_COMMIT)
        assert successor is not None
        coordinator.write_markers()
        holder = successor
    is_commit = ProducerIdAndEpoch(holder.producer_id, holder.epoch - 1) if retry else holder

    if isinstance(answer, ErrorCode):
        assert code_of(lambda: coordinator.end(is_commit, commit=commit)) is answer
    else:
        assert coordinator.end(is_commit, commit=commit) == (holder.producer_id, holder.epoch + (1 if answer else 0))


def test_clients_of_the_first_version_keep_their_epoch_and_can_only_repeat_the_same_end(
    coordinator: Coordinator,
) -> None:
    holder = coordinator.initialize()
    assert code_of(lambda: coordinator.end(holder, commit=False, version=OLD)) is ErrorCode.INVALID_TXN_STATE
    coordinator.add(holder, ORDERS, version=OLD)

    assert coordinator.end(holder, version=OLD) is None
    ending, _ = coordinator.sent[0]
    assert (ending.producer, ending.version) == (holder, 0)
    coordinator.write_markers()
    assert coordinator.end(holder, version=OLD) is None
    assert code_of(lambda: coordinator.end(holder, commit=False, version=OLD)) is ErrorCode.INVALID_TXN_STATE
    assert len(coordinator.sent) == 1


def test_an_end_in_the_last_epoch_changes_the_producer_id_and_can_be_repeated(coordinator: Coordinator) -> None:
    first = coordinator.initialize()
    coordinator.held.epoch = EPOCH_LAST
    last = ProducerIdAndEpoch(first.producer_id, EPOCH_LAST)
    coordinator.add(last, ORDERS)

    successor = coordinator.end(last)
    assert successor is not None
    assert (successor.producer_id != first.producer_id, successor.epoch) == (True, 0)
    assert coordinator.sent[0][0].producer == (first.producer_id, EPOCH_LAST + 1)
    coordinator.write_markers()
    assert coordinator.held.producer == successor
    assert coordinator.end(last) == successor


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_new_producer_aborts_the_open_transaction_of_the_one_before(version: int) -> None:
    coordinator = Coordinator(transaction_version=version)
    before = coordinator.initialize()
    coordinator.add(before, ORDERS, version=version)

    assert code_of(coordinator.initialize) is ErrorCode.CONCURRENT_TRANSACTIONS
    ending, partitions = coordinator.sent[0]
    assert (ending.commit, ending.producer.epoch, partitions) == (False, 1, frozenset({ORDERS}))
    waits = ErrorCode.CONCURRENT_TRANSACTIONS if version == NEW else ErrorCode.PRODUCER_FENCED
    assert code_of(lambda: coordinator.end(before, version=version)) is waits
    coordinator.write_markers()
    assert coordinator.initialize() == (before.producer_id, 2)
    assert code_of(lambda: coordinator.add(before, ORDERS)) is ErrorCode.PRODUCER_FENCED


def test_a_transaction_is_aborted_at_the_first_check_after_its_timeout(coordinator: Coordinator) -> None:
    holder = coordinator.initialize(now_ms=1_000)
    coordinator.add(holder, ORDERS, now_ms=5_000)

    assert coordinator.under_test.next_deadline_ms() == 70_000
    coordinator.under_test.expire(now_ms=69_999)
    assert coordinator.sent == []
    coordinator.under_test.expire(now_ms=70_000)
    assert coordinator.held.state is TransactionState.PREPARE_ABORT
    assert coordinator.sent[0][0].commit is False


def test_a_transaction_that_is_open_for_exactly_its_timeout_stays_open(coordinator: Coordinator) -> None:
    holder = coordinator.initialize()
    coordinator.add(holder, ORDERS, now_ms=10_000)

    assert coordinator.under_test.next_deadline_ms() == 80_000


def test_an_unused_transactional_id_expires(coordinator: Coordinator) -> None:
    coordinator.initialize()
    due_ms = coordinator.under_test.next_deadline_ms()

    assert due_ms == 604_800_000
    coordinator.under_test.expire(now_ms=due_ms)
    assert coordinator.under_test.find_transaction("tx") is None
    assert coordinator.under_test.next_deadline_ms() is None


def test_partitions_outside_a_transaction_return_transaction_abortable(coordinator: Coordinator) -> None:
    holder = coordinator.initialize()
    coordinator.add(holder, ORDERS)

    assert coordinator.under_test.verify_partitions("tx", holder, [ORDERS, BILLS]) == {
        ORDERS: ErrorCode.NONE,
        BILLS: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_only_the_coordinator_answers(coordinator: Coordinator) -> None:
    holder = coordinator.initialize()
    coordinator.epoch = None

    assert code_of(coordinator.initialize) is ErrorCode.NOT_COORDINATOR
    assert code_of(lambda: coordinator.add(holder, ORDERS)) is ErrorCode.NOT_COORDINATOR
    assert coordinator.under_test.all_transactions() == []


@pytest.mark.parametrize("ours", [ProducerIdAndEpoch(99, 0), ProducerIdAndEpoch(0, 3)])
def test_markers_of_another_end_change_nothing(coordinator: Coordinator, ours: ProducerIdAndEpoch) -> None:
    holder = coordinator.initialize()
    coordinator.add(holder, ORDERS)
    coordinator.end(holder)

    coordinator.under_test.on_marker_written(coordinator.sent[0][0]._replace(producer=ours), ORDERS, now_ms=0)
    assert coordinator.held.state is TransactionState.PREPARE_COMMIT


@pytest.mark.parametrize("state", TransactionState)
@pytest.mark.parametrize("event", TransactionEvent)
def test_an_event_without_a_transition_fails_an_assertion(state: TransactionState, event: TransactionEvent) -> None:
    transaction = Transaction("tx", 1, state=state)
    target = TRANSITIONS[state].get(event)

    if target is None:
        with pytest.raises(AssertionError):
            transaction.apply_event(event, now_ms=0)
        assert transaction.state is state
    else:
        transaction.apply_event(event, now_ms=0)
        assert transaction.state is target
