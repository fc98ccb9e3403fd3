"""Looking inside a share partition: its start, its end, and what is in flight, at any moment."""

from __future__ import annotations

import pytest

from mockbroker.inside import InFlightRun, SharePartitionView, share_partition
from mockbroker.kafka_error import KafkaError
from mockbroker.state.in_flight import State
from tests.mockbroker.handlers.share_client import ShareBroker, opened

LOCK_MS = 30_000
ACCEPT, RELEASE = [1], [2]


def _look(broker: ShareBroker) -> SharePartitionView:
    view = share_partition(broker.core.state, "g", "A", 0)
    assert view is not None
    return view


def _shown(broker: ShareBroker) -> list[str]:
    runs = _look(broker).in_flight
    return [f"{run.first_offset}-{run.last_offset} {run.state.name}/{run.delivery_count}" for run in runs]


@pytest.fixture
def broker() -> ShareBroker:
    broker = ShareBroker()
    opened(broker)
    broker.produce("A", 10)
    broker.fetch("m1", 1)
    return broker


def test_a_delivered_batch_is_one_run_with_holder_and_deadline(broker: ShareBroker) -> None:
    view = _look(broker)

    assert (view.start_offset, view.end_offset, view.leader, view.delivery_complete_count) == (0, 10, 0, 0)
    deadline_ms = broker.now_ms + LOCK_MS
    assert view.in_flight == (InFlightRun(0, 9, State.ACQUIRED, 1, "m1", deadline_ms, is_in_transition=False),)


def test_what_was_settled_apart_is_shown_apart(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(2, 4, ACCEPT), (5, 5, RELEASE)]})

    assert _shown(broker) == ["0-1 ACQUIRED/1", "2-4 ACKNOWLEDGED/1", "5-5 AVAILABLE/1", "6-9 ACQUIRED/1"]
    assert [run.member_id for run in _look(broker).in_flight] == ["m1", None, None, "m1"]
    assert _look(broker).in_flight[1].lock_deadline_ms is None
    assert _look(broker).delivery_complete_count == 3


def test_every_offset_has_a_state(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(0, 1, ACCEPT), (5, 5, ACCEPT)]})
    view = _look(broker)

    assert view.start_offset == 2
    assert [view.state_of(offset) for offset in (0, 1, 2, 5, 9, 10, 99)] == [
        State.ARCHIVED,
        State.ARCHIVED,
        State.ACQUIRED,
        State.ACKNOWLEDGED,
        State.ACQUIRED,
        State.AVAILABLE,
        State.AVAILABLE,
    ]


def test_with_nothing_in_flight_start_and_end_are_the_same(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(0, 9, ACCEPT)]})
    view = _look(broker)

    assert (view.start_offset, view.end_offset, view.in_flight) == (10, 10, ())


def test_a_change_on_its_way_to_the_coordinator_is_in_transition(broker: ShareBroker) -> None:
    broker.core.state.calls.latency_ms = 50
    broker.ack("m1", 2, {("A", 0): [(0, 9, ACCEPT)]})

    assert [run.is_in_transition for run in _look(broker).in_flight] == [True]


def test_a_partition_that_no_fetch_has_asked_for_is_not_there(broker: ShareBroker) -> None:
    assert share_partition(broker.core.state, "g", "B", 0) is None
    assert share_partition(broker.core.state, "other", "A", 0) is None
    with pytest.raises(KafkaError, match="no partition A-7"):
        share_partition(broker.core.state, "g", "A", 7)
