"""The transaction coordinator without its cluster: epochs, ends, repeats and timeouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.producer_ids import ProducerIds
from mockbroker.state.transaction import EPOCH_LAST, TRANSITIONS, Event, Holder, Place, State, Transaction
from mockbroker.state.transactions import Ending, Transactions

CONFIG: dict[str, object] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 10_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 3_600_000,
    "transactional.id.expiration.ms": 604_800_000,
}
ORDERS = Place("orders", 0)
BILLS = Place("bills", 3)
OLD, NEW = 0, 2


class Desk:
    """A coordinator, and the markers that it has sent."""

    def __init__(self, *, transaction_version: int = NEW) -> None:
        self.sent: list[tuple[Ending, frozenset[Place]]] = []
        self.epoch: int | None = 4
        self.room = Transactions(
            ProducerIds(0),
            CONFIG,
            coordinator_epoch=lambda _: self.epoch,
            transaction_version=lambda: transaction_version,
            send=lambda ending, places, now_ms: self.sent.append((ending, places)),
        )

    def initialize(self, expected: Holder | None = None, *, now_ms: int = 0) -> Holder:
        return self.room.initialize("tx", timeout_ms=60_000, expected=expected, now_ms=now_ms)

    def add(self, holder: Holder, *places: Place, version: int = NEW, now_ms: int = 0) -> None:
        self.room.add("tx", holder, places, version=version, now_ms=now_ms)

    def end(self, holder: Holder, *, commit: bool = True, version: int = NEW, now_ms: int = 0) -> Holder | None:
        return self.room.end("tx", holder, commit=commit, version=version, now_ms=now_ms)

    def write_markers(self) -> None:
        ending, places = self.sent[-1]
        for place in places:
            self.room.written(ending, place, now_ms=0)

    @property
    def held(self) -> Transaction:
        held = self.room.find("tx")
        assert held is not None
        return held


def refusal(action: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        action()
    return caught.value.code


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_each_takeover_of_a_transactional_id_has_the_next_epoch(desk: Desk) -> None:
    first = desk.initialize()

    assert first.epoch == 0
    assert desk.initialize() == (first.producer_id, 1)
    assert desk.room.initialize("other", timeout_ms=1, expected=None, now_ms=0).producer_id != first.producer_id


def test_a_producer_that_recovers_says_who_it_is_and_may_repeat_itself(desk: Desk) -> None:
    first = desk.initialize()

    assert desk.initialize(first) == (first.producer_id, 1)
    assert desk.initialize(first) == (first.producer_id, 1)


@pytest.mark.parametrize("expected", [Holder(0, 5), Holder(12345, 0)])
def test_who_is_not_the_owner_is_fenced(desk: Desk, expected: Holder) -> None:
    desk.initialize()

    assert refusal(lambda: desk.initialize(expected)) is ErrorCode.PRODUCER_FENCED


def test_after_the_last_epoch_comes_another_producer_id(desk: Desk) -> None:
    first = desk.initialize()
    desk.held.epoch = EPOCH_LAST

    second = desk.initialize(Holder(first.producer_id, EPOCH_LAST))
    assert (second.producer_id != first.producer_id, second.epoch) == (True, 0)
    assert desk.initialize(Holder(first.producer_id, EPOCH_LAST)) == second


def test_without_an_epoch_left_a_producer_of_another_epoch_gets_kafkas_own_failure(desk: Desk) -> None:
    first = desk.initialize()
    desk.held.epoch, desk.held.last_epoch = EPOCH_LAST, EPOCH_LAST - 1

    assert refusal(lambda: desk.initialize(Holder(first.producer_id, EPOCH_LAST - 1))) is (
        ErrorCode.UNKNOWN_SERVER_ERROR
    )


def test_a_fence_in_the_last_epoch_hands_over_to_a_fresh_producer_id(desk: Desk) -> None:
    first = desk.initialize()
    desk.held.epoch = EPOCH_LAST
    desk.add(Holder(first.producer_id, EPOCH_LAST), ORDERS)
    assert refusal(desk.initialize) is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()

    assert (desk.held.producer_id != first.producer_id, desk.held.epoch) == (True, 0)
    assert desk.initialize().epoch == 1


def test_a_transaction_begins_with_its_first_partition_and_is_complete_with_its_last_marker(desk: Desk) -> None:
    holder = desk.initialize()
    desk.add(holder, ORDERS, now_ms=10)
    desk.add(holder, BILLS, now_ms=20)
    assert (desk.held.state, desk.held.started_ms) == (State.ONGOING, 10)

    assert desk.end(holder) == (holder.producer_id, 1)
    ending, places = desk.sent[0]
    assert (ending.holder.epoch, ending.coordinator_epoch, ending.commit, ending.version) == (1, 4, True, 2)
    assert places == {ORDERS, BILLS}
    desk.room.written(ending, ORDERS, now_ms=30)
    assert desk.held.state is State.PREPARE_COMMIT
    desk.room.written(ending, BILLS, now_ms=30)
    assert (desk.held.state, desk.held.partitions) == (State.COMPLETE_COMMIT, set())


def test_while_markers_are_on_their_way_everything_waits(desk: Desk) -> None:
    holder = desk.initialize()
    desk.add(holder, ORDERS)
    successor = desk.end(holder)
    assert successor is not None

    assert refusal(lambda: desk.add(successor, BILLS)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(lambda: desk.end(holder)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(desk.initialize) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(lambda: desk.room.verify("tx", successor, [ORDERS])) is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    desk.add(successor, BILLS)


# Kafka's own table of EndTxn version 5, by state, wish and epoch: None is an answer with the epoch that is in force,
# True an answer with a raised one.
@pytest.mark.parametrize(
    ("state", "commit", "retry", "answer"),
    [
        (State.EMPTY, False, True, ErrorCode.PRODUCER_FENCED),
        (State.EMPTY, False, False, True),
        (State.EMPTY, True, True, ErrorCode.PRODUCER_FENCED),
        (State.EMPTY, True, False, ErrorCode.INVALID_TXN_STATE),
        (State.COMPLETE_ABORT, False, True, None),
        (State.COMPLETE_ABORT, False, False, True),
        (State.COMPLETE_ABORT, True, True, ErrorCode.INVALID_TXN_STATE),
        (State.COMPLETE_ABORT, True, False, ErrorCode.INVALID_TXN_STATE),
        (State.COMPLETE_COMMIT, False, True, ErrorCode.INVALID_TXN_STATE),
        (State.COMPLETE_COMMIT, False, False, True),
        (State.COMPLETE_COMMIT, True, True, None),
        (State.COMPLETE_COMMIT, True, False, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_an_end_of_what_is_not_open(
    desk: Desk, state: State, commit: bool, retry: bool, answer: ErrorCode | bool | None
) -> None:
    desk.initialize()
    holder = desk.initialize()
    if state is not State.EMPTY:
        desk.add(holder, ORDERS)
        successor = desk.end(holder, commit=state is State.COMPLETE_COMMIT)
        assert successor is not None
        desk.write_markers()
        holder = successor
    asked = Holder(holder.producer_id, holder.epoch - 1) if retry else holder

    if isinstance(answer, ErrorCode):
        assert refusal(lambda: desk.end(asked, commit=commit)) is answer
    else:
        assert desk.end(asked, commit=commit) == (holder.producer_id, holder.epoch + (1 if answer else 0))


def test_clients_of_the_first_version_keep_their_epoch_and_may_only_repeat_what_they_did(desk: Desk) -> None:
    holder = desk.initialize()
    assert refusal(lambda: desk.end(holder, commit=False, version=OLD)) is ErrorCode.INVALID_TXN_STATE
    desk.add(holder, ORDERS, version=OLD)

    assert desk.end(holder, version=OLD) is None
    ending, _ = desk.sent[0]
    assert (ending.holder, ending.version) == (holder, 0)
    desk.write_markers()
    assert desk.end(holder, version=OLD) is None
    assert refusal(lambda: desk.end(holder, commit=False, version=OLD)) is ErrorCode.INVALID_TXN_STATE
    assert len(desk.sent) == 1


def test_an_end_in_the_last_epoch_hands_over_to_a_fresh_producer_id_and_may_be_repeated(desk: Desk) -> None:
    first = desk.initialize()
    desk.held.epoch = EPOCH_LAST
    last = Holder(first.producer_id, EPOCH_LAST)
    desk.add(last, ORDERS)

    successor = desk.end(last)
    assert successor is not None
    assert (successor.producer_id != first.producer_id, successor.epoch) == (True, 0)
    assert desk.sent[0][0].holder == (first.producer_id, EPOCH_LAST + 1)
    desk.write_markers()
    assert desk.held.holder == successor
    assert desk.end(last) == successor


@pytest.mark.parametrize("version", [OLD, NEW])
def test_a_new_producer_aborts_what_the_one_before_left_open(version: int) -> None:
    desk = Desk(transaction_version=version)
    before = desk.initialize()
    desk.add(before, ORDERS, version=version)

    assert refusal(desk.initialize) is ErrorCode.CONCURRENT_TRANSACTIONS
    ending, places = desk.sent[0]
    assert (ending.commit, ending.holder.epoch, places) == (False, 1, frozenset({ORDERS}))
    waits = ErrorCode.CONCURRENT_TRANSACTIONS if version == NEW else ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: desk.end(before, version=version)) is waits
    desk.write_markers()
    assert desk.initialize() == (before.producer_id, 2)
    assert refusal(lambda: desk.add(before, ORDERS)) is ErrorCode.PRODUCER_FENCED


def test_a_transaction_is_aborted_at_the_first_look_after_its_timeout(desk: Desk) -> None:
    holder = desk.initialize(now_ms=1_000)
    desk.add(holder, ORDERS, now_ms=5_000)

    assert desk.room.next_deadline_ms() == 70_000
    desk.room.expire(now_ms=69_999)
    assert desk.sent == []
    desk.room.expire(now_ms=70_000)
    assert desk.held.state is State.PREPARE_ABORT
    assert desk.sent[0][0].commit is False


def test_a_transaction_that_is_open_for_exactly_its_timeout_stays_open(desk: Desk) -> None:
    holder = desk.initialize()
    desk.add(holder, ORDERS, now_ms=10_000)

    assert desk.room.next_deadline_ms() == 80_000


def test_an_id_that_nobody_uses_is_forgotten(desk: Desk) -> None:
    desk.initialize()
    due_ms = desk.room.next_deadline_ms()

    assert due_ms == 604_800_000
    desk.room.expire(now_ms=due_ms)
    assert desk.room.find("tx") is None
    assert desk.room.next_deadline_ms() is None


def test_partitions_are_in_a_transaction_or_make_it_abortable(desk: Desk) -> None:
    holder = desk.initialize()
    desk.add(holder, ORDERS)

    assert desk.room.verify("tx", holder, [ORDERS, BILLS]) == {
        ORDERS: ErrorCode.NONE,
        BILLS: ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_only_the_coordinator_answers(desk: Desk) -> None:
    holder = desk.initialize()
    desk.epoch = None

    assert refusal(desk.initialize) is ErrorCode.NOT_COORDINATOR
    assert refusal(lambda: desk.add(holder, ORDERS)) is ErrorCode.NOT_COORDINATOR
    assert desk.room.all() == []


@pytest.mark.parametrize("ours", [Holder(99, 0), Holder(0, 3)])
def test_markers_of_another_end_change_nothing(desk: Desk, ours: Holder) -> None:
    holder = desk.initialize()
    desk.add(holder, ORDERS)
    desk.end(holder)

    desk.room.written(desk.sent[0][0]._replace(holder=ours), ORDERS, now_ms=0)
    assert desk.held.state is State.PREPARE_COMMIT


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_what_the_table_does_not_allow_is_a_mistake_of_ours(state: State, event: Event) -> None:
    transaction = Transaction("tx", 1, state=state)
    target = TRANSITIONS[state].get(event)

    if target is None:
        with pytest.raises(AssertionError):
            transaction.move(event, now_ms=0)
        assert transaction.state is state
    else:
        transaction.move(event, now_ms=0)
        assert transaction.state is target
