"""Snapshots of a share partition: its start, its end, and the records in flight."""

from __future__ import annotations

import pytest

from mockbroker.broker.inspection import InFlightRun, SharePartitionView, share_partition
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.in_flight_batch import RecordState
from mockbroker.state.share.share_history import HistoryEvent
from tests.support.brokers.share_members import ShareBroker, opened

LOCK_MS = 30_000
ACCEPT, RELEASE = [1], [2]


def _snapshot(broker: ShareBroker) -> SharePartitionView:
    view = share_partition(broker.core.state, "g", "A", 0)
    assert view is not None
    return view


def _shown(broker: ShareBroker) -> list[str]:
    runs = _snapshot(broker).in_flight
    return [f"{run.first_offset}-{run.last_offset} {run.state.name}/{run.delivery_count}" for run in runs]


@pytest.fixture
def broker() -> ShareBroker:
    broker = ShareBroker()
    opened(broker)
    broker.produce("A", 10)
    broker.fetch("m1", 1)
    return broker


def test_a_delivered_batch_is_one_run_with_member_and_deadline(broker: ShareBroker) -> None:
    view = _snapshot(broker)

    assert (view.start_offset, view.end_offset, view.leader, view.delivery_complete_count) == (0, 10, 0, 0)
    deadline_ms = broker.now_ms + LOCK_MS
    assert view.in_flight == (InFlightRun(0, 9, RecordState.ACQUIRED, 1, "m1", deadline_ms, is_in_transition=False),)


def test_offsets_with_different_states_are_separate_runs(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(2, 4, ACCEPT), (5, 5, RELEASE)]})

    assert _shown(broker) == ["0-1 ACQUIRED/1", "2-4 ACKNOWLEDGED/1", "5-5 AVAILABLE/1", "6-9 ACQUIRED/1"]
    assert [run.member_id for run in _snapshot(broker).in_flight] == ["m1", None, None, "m1"]
    assert _snapshot(broker).in_flight[1].lock_deadline_ms is None
    assert _snapshot(broker).delivery_complete_count == 3


def test_every_offset_has_a_state(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(0, 1, ACCEPT), (5, 5, ACCEPT)]})
    view = _snapshot(broker)

    assert view.start_offset == 2
    states = " ".join(view.state_of(offset).name for offset in (0, 1, 2, 5, 9, 10, 99))
    assert states == "ARCHIVED ARCHIVED ACQUIRED ACKNOWLEDGED ACQUIRED AVAILABLE AVAILABLE"


def test_with_nothing_in_flight_start_and_end_are_the_same(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(0, 9, ACCEPT)]})
    view = _snapshot(broker)

    assert (view.start_offset, view.end_offset, view.in_flight) == (10, 10, ())


def test_a_change_that_the_coordinator_has_not_stored_is_in_transition(broker: ShareBroker) -> None:
    broker.core.state.inter_broker.latency_ms = 50
    broker.ack("m1", 2, {("A", 0): [(0, 9, ACCEPT)]})

    (run,) = _snapshot(broker).in_flight
    assert run.is_in_transition


def test_a_partition_that_no_fetch_has_requested_has_no_snapshot(broker: ShareBroker) -> None:
    assert share_partition(broker.core.state, "g", "B", 0) is None
    assert share_partition(broker.core.state, "other", "A", 0) is None
    with pytest.raises(KafkaError, match="no partition A-7"):
        share_partition(broker.core.state, "g", "A", 7)


def _history_lines(broker: ShareBroker, offset: int | None = None) -> list[str]:
    """The history without its times."""
    view = _snapshot(broker)
    events = view.history if offset is None else view.history_of(offset)
    return [str(event).partition("  ")[2] for event in events]


def test_the_history_contains_every_event_of_each_run_of_records(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(0, 2, ACCEPT), (3, 3, [3]), (4, 4, [0]), (5, 6, RELEASE)]})
    broker.fetch("m1", 3)

    first = ["0-  loaded: AVAILABLE/0", "0-9  acquired by m1: ACQUIRED/1"]
    others = ["0-2  accepted by m1: ACKNOWLEDGED/1", "3  rejected by m1: ARCHIVED/1", "4  gap by m1: ARCHIVED/1"]
    last = ["5-6  released by m1: AVAILABLE/1", "5-6  acquired by m1: ACQUIRED/2"]
    assert _history_lines(broker) == [*first, *others, *last]
    assert _history_lines(broker, 5) == [*first, *last]


def test_offsets_acknowledged_one_by_one_are_one_run_of_the_history(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(offset, offset, ACCEPT) for offset in range(10)]})

    assert _history_lines(broker)[2:] == ["0-9  accepted by m1: ACKNOWLEDGED/1"]


def test_an_expired_lock_is_in_the_history_with_its_time_and_member(broker: ShareBroker) -> None:
    delivered_ms = broker.now_ms
    broker.advance(LOCK_MS)

    expired = _snapshot(broker).history[-1]
    assert (expired.event, expired.member_id, expired.state) == (HistoryEvent.EXPIRED, "m1", RecordState.AVAILABLE)
    assert expired.at_ms == delivered_ms + LOCK_MS


def test_a_closed_session_is_in_the_history_and_a_refused_acknowledgement_is_not(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(0, 3, ACCEPT), (4, 12, ACCEPT)]})
    broker.ack("m1", -1, {})

    assert _history_lines(broker)[2:] == ["0-9  session closed by m1: AVAILABLE/1"]


def test_a_release_at_the_delivery_limit_is_in_the_history_as_archived(broker: ShareBroker) -> None:
    for epoch in range(2, 10, 2):
        broker.ack("m1", epoch, {("A", 0): [(0, 0, RELEASE)]})
        broker.fetch("m1", epoch + 1)
    broker.ack("m1", 10, {("A", 0): [(0, 0, RELEASE)]})

    assert _history_lines(broker, 0)[-1] == "0  released by m1: ARCHIVED/5"


def test_the_history_outlives_the_share_partition_in_memory(broker: ShareBroker) -> None:
    node = broker.core.state.nodes[0]
    node.share_partitions.drop_group("g")
    broker.fetch("m1", 2)

    assert _history_lines(broker)[1:] == ["0-9  acquired by m1: ACQUIRED/1", "0-  loaded: AVAILABLE/0"]


def test_a_share_partition_prints_itself_and_its_history(broker: ShareBroker) -> None:
    first, loaded, acquired = str(_snapshot(broker)).splitlines()

    assert first == "g: A-0 is ACTIVE on node 0, start 0, end 10"
    assert loaded.endswith("0-  loaded: AVAILABLE/0")
    assert acquired == f"  {broker.now_ms} ms  0-9  acquired by m1: ACQUIRED/1"
