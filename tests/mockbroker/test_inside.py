"""Looking inside a share partition: its start, its end, and what is in flight, at any moment."""

from __future__ import annotations

import pytest

from mockbroker.inside import InFlightRun, SharePartitionView, share_partition
from mockbroker.kafka_error import KafkaError
from mockbroker.state.in_flight import State
from mockbroker.state.share_history import Happening, ShareHistory
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


def _told(broker: ShareBroker, offset: int | None = None) -> list[str]:
    """The history without its times."""
    view = _look(broker)
    notes = view.history if offset is None else view.history_of(offset)
    return [str(note).partition("  ")[2] for note in notes]


def test_the_history_tells_what_happened_to_each_run_of_records(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(0, 2, ACCEPT), (3, 3, [3]), (4, 4, [0]), (5, 6, RELEASE)]})
    broker.fetch("m1", 3)

    assert _told(broker) == [
        "0-  loaded: AVAILABLE/0",
        "0-9  acquired by m1: ACQUIRED/1",
        "0-2  accepted by m1: ACKNOWLEDGED/1",
        "3  rejected by m1: ARCHIVED/1",
        "4  gap by m1: ARCHIVED/1",
        "5-6  released by m1: AVAILABLE/1",
        "5-6  acquired by m1: ACQUIRED/2",
    ]
    assert _told(broker, 5) == [
        "0-  loaded: AVAILABLE/0",
        "0-9  acquired by m1: ACQUIRED/1",
        "5-6  released by m1: AVAILABLE/1",
        "5-6  acquired by m1: ACQUIRED/2",
    ]


def test_what_is_settled_one_by_one_is_told_as_one_run(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(offset, offset, ACCEPT) for offset in range(10)]})

    assert _told(broker)[2:] == ["0-9  accepted by m1: ACKNOWLEDGED/1"]


def test_a_lock_that_ends_is_told_with_its_time_and_its_holder(broker: ShareBroker) -> None:
    delivered_ms = broker.now_ms
    broker.advance(LOCK_MS)

    expired = _look(broker).history[-1]
    assert (expired.happening, expired.member_id, expired.state) == (Happening.EXPIRED, "m1", State.AVAILABLE)
    assert expired.at_ms == delivered_ms + LOCK_MS


def test_a_session_that_closes_is_told_and_a_refused_acknowledgement_is_not(broker: ShareBroker) -> None:
    broker.ack("m1", 2, {("A", 0): [(0, 3, ACCEPT), (4, 12, ACCEPT)]})
    broker.ack("m1", -1, {})

    assert _told(broker)[2:] == ["0-9  session closed by m1: AVAILABLE/1"]


def test_a_release_at_the_delivery_limit_is_told_as_archived(broker: ShareBroker) -> None:
    epoch = 2
    for _ in range(4):
        broker.ack("m1", epoch, {("A", 0): [(0, 0, RELEASE)]})
        broker.fetch("m1", epoch + 1)
        epoch += 2
    broker.ack("m1", epoch, {("A", 0): [(0, 0, RELEASE)]})

    assert _told(broker, 0)[-1] == "0  released by m1: ARCHIVED/5"


def test_the_history_outlives_the_share_partition_in_memory(broker: ShareBroker) -> None:
    node = broker.core.state.nodes[0]
    node.share_partitions.drop_group("g")
    broker.fetch("m1", 2)

    assert _told(broker)[1:] == ["0-9  acquired by m1: ACQUIRED/1", "0-  loaded: AVAILABLE/0"]


def test_a_share_partition_prints_itself_and_its_history(broker: ShareBroker) -> None:
    first, loaded, acquired = str(_look(broker)).splitlines()

    assert first == "g: A-0 is ACTIVE on node 0, start 0, end 10"
    assert loaded.endswith("0-  loaded: AVAILABLE/0")
    assert acquired == f"  {broker.now_ms} ms  0-9  acquired by m1: ACQUIRED/1"


def test_only_the_newest_of_the_history_is_kept() -> None:
    history = ShareHistory(limit=3)
    for at_ms in range(5):
        history.note(
            "key", at_ms, Happening.GAP, first=7, last=7, member_id="m", delivery_count=1, state=State.ARCHIVED
        )

    assert [note.at_ms for note in history.of("key")] == [2, 3, 4]
    assert not list(history.of("another"))
