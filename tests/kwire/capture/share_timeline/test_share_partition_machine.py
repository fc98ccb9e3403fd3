"""The transitions of one share partition, for constructed events."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from kwire.capture.share_timeline.events import CAUSES, Event, EventKind, OffsetRuns, Transition
from kwire.capture.share_timeline.share_partition_machine import SharePartitionMachine

S = 1_000_000_000
LOCK_S = 30
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
INVALID_RECORD_STATE = 121


def acquire(at: float, *runs: tuple[int, int, int], member: str = "A") -> Event:
    return _event(at, EventKind.ACQUIRE, runs, member, lock_ms=LOCK_S * 1000)


def acknowledge(at: float, *runs: tuple[int, int, int], member: str = "A", error: int | None = 0) -> Event:
    return _event(at, EventKind.ACKNOWLEDGE, runs, member, error_code=error)


def write(at: float, start: int, *runs: tuple[int, int, int, int]) -> Event:
    return _event(at, EventKind.WRITE, runs, None, start=start)


def _event(at: float, kind: EventKind, runs: OffsetRuns = (), member: str | None = None, **more: object) -> Event:
    fields: dict[str, object] = {"member_id": member, "runs": runs, **more}
    return Event(int(at * S), kind, "g", "t", 0, **fields)  # type: ignore[arg-type]


def run_events(*events: Event, until: float = 20.0, limit: int = 5) -> list[Transition]:
    return list(SharePartitionMachine(delivery_count_limit=limit).run(events, int(until * S)))


def summaries(transitions: Sequence[Transition]) -> list[tuple[object, ...]]:
    return [(each.cause, each.first_offset, each.last_offset, each.state, each.delivery_count) for each in transitions]


def inferred(transitions: Sequence[Transition]) -> list[tuple[object, ...]]:
    return [(each.cause, each.first_offset, each.last_offset, each.is_inferred) for each in transitions]


def test_acquired_and_acknowledged_records_move_the_start_offset() -> None:
    transitions = run_events(acquire(1, (0, 9, 1)), acknowledge(2, (0, 2, ACCEPT), (3, 3, RELEASE), (4, 4, REJECT)))

    assert summaries(transitions) == [
        ("acquire", 0, 9, "Acquired", 1),
        ("accept", 0, 2, "Acknowledged", 1),
        ("release", 3, 3, "Available", 1),
        ("reject", 4, 4, "Archived", 1),
    ]
    assert not any(each.is_inferred for each in transitions)
    assert {each.start_offset for each in transitions[1:]} == {3}
    last = transitions[-1]
    assert (last.end_offset, last.available, last.acquired, last.member_id) == (10, 1, 5, "A")
    # The leader writes the start offset before the change, and the number of finished records after it.
    assert (last.stored_start_offset, last.delivery_complete_count) == (0, 4)


def test_a_rejected_acknowledgement_changes_nothing() -> None:
    assert len(run_events(acquire(1, (0, 9, 1)), acknowledge(2, (0, 9, ACCEPT), error=INVALID_RECORD_STATE))) == 1


def test_renewals_before_the_rejected_offset_are_valid() -> None:
    refused = acknowledge(2, (0, 1, RENEW), (5, 5, ACCEPT), (6, 6, RENEW), error=INVALID_RECORD_STATE)
    transitions = run_events(acquire(1, (0, 4, 1)), acquire(1, (5, 5, 1), member="B"), refused)

    assert inferred(transitions[2:]) == [("renew", 0, 1, True)]


def test_an_acknowledgement_without_a_response_is_applied_and_marked_as_inferred() -> None:
    (_, accepted) = run_events(acquire(1, (0, 0, 1)), acknowledge(2, (0, 0, ACCEPT), error=None))

    assert (accepted.cause, accepted.is_inferred) == ("accept", True)


def test_an_expired_lock_is_inferred_from_the_time_and_a_renewal_extends_it() -> None:
    transitions = run_events(acquire(1, (0, 1, 1)), acknowledge(11, (1, 1, RENEW)), until=60)

    assert [(each.cause, each.first_offset, each.ts // S, each.is_inferred) for each in transitions] == [
        ("acquire", 0, 1, False),
        ("renew", 1, 11, False),
        ("lock_timeout", 0, 1 + LOCK_S, True),
        ("lock_timeout", 1, 11 + LOCK_S, True),
    ]


def test_a_lock_does_not_expire_after_the_end_of_the_capture() -> None:
    assert summaries(run_events(acquire(1, (0, 1, 1)), until=30)) == [("acquire", 0, 1, "Acquired", 1)]


def test_records_at_the_delivery_limit_are_archived_and_the_start_offset_moves() -> None:
    transitions = run_events(acquire(1, (0, 0, 2), (1, 1, 1)), until=60, limit=2)

    assert [(each.state, each.start_offset) for each in transitions[2:]] == [("Archived", 1), ("Available", 1)]


def test_a_delivery_with_a_higher_count_implies_an_expired_lock() -> None:
    transitions = run_events(acquire(1, (0, 4, 1)), acquire(30.5, (0, 4, 2), member="B"))

    assert [(each.cause, each.ts, each.member_id, each.is_inferred) for each in transitions[1:]] == [
        ("lock_timeout", int(30.5 * S), "A", True),
        ("acquire", int(30.5 * S), "B", False),
    ]


def test_a_delivery_long_before_the_lock_ends_has_the_cause_unseen() -> None:
    transitions = run_events(acquire(1, (0, 4, 1)), acquire(5, (0, 4, 2), member="B"))

    assert summaries(transitions)[1:] == [("unseen", 0, 4, "Available", 1), ("acquire", 0, 4, "Acquired", 2)]
    assert transitions[1].is_inferred


def test_a_decreased_delivery_count_implies_that_a_leader_read_the_state() -> None:
    transitions = run_events(acquire(1, (0, 4, 3)), acquire(40, (0, 4, 1), member="B"), until=41)

    assert summaries(transitions)[2:] == [("load", 0, 4, "Available", 0), ("acquire", 0, 4, "Acquired", 1)]


def test_a_closed_session_releases_only_the_records_of_its_member() -> None:
    state_map = [acquire(1, (0, 1, 1)), acquire(1, (2, 3, 1), member="B"), acquire(1, (4, 4, 1))]
    ends = _event(2, EventKind.CLOSE, member="A"), _event(3, EventKind.DISCONNECT, member="B")
    transitions = run_events(*state_map, *ends)

    assert inferred(transitions[3:]) == [
        ("session_close", 0, 1, False),
        ("session_close", 4, 4, False),
        ("session_close", 2, 3, True),
    ]


def test_a_lock_that_expired_before_the_session_closed_has_the_cause_lock_timeout() -> None:
    transitions = run_events(acquire(1, (0, 1, 1)), _event(31.2, EventKind.CLOSE, member="A"), until=32)

    assert [(each.cause, each.ts // S) for each in transitions] == [("acquire", 1), ("lock_timeout", 31)]


def test_a_write_of_the_leader_shows_an_expired_lock() -> None:
    (_, run_out) = run_events(acquire(1, (0, 9, 1)), write(31.1, 0, (0, 9, 1, 0)), until=32)

    assert (run_out.cause, run_out.state, run_out.is_inferred) == ("lock_timeout", "Available", False)


def test_a_state_that_a_leader_reads_replaces_the_known_state() -> None:
    load = _event(5, EventKind.LOAD, ((10, 12, 1, 2), (15, 16, 3, 0)), None, start=10)
    transitions = run_events(acquire(1, (0, 9, 1)), load, acquire(6, (13, 16, 1)))

    assert summaries(transitions)[1:] == [
        ("load", 10, None, "Available", 0),
        ("load", 10, 12, "Acknowledged", 1),
        ("load", 15, 16, "Available", 3),
        ("load", 15, 16, "Available", 0),
        ("acquire", 13, 16, "Acquired", 1),
    ]
    assert transitions[3].start_offset == 13  # A hole in what is stored is delivered before the start passes it.


def test_an_altered_start_offset_drops_records_in_flight() -> None:
    altered = _event(5, EventKind.RESET, start=50, note="alter_offsets")
    transitions = run_events(acquire(1, (0, 9, 1)), altered, acquire(6, (50, 50, 1)), acknowledge(7, (0, 9, ACCEPT)))

    (_, reset, acquired) = summaries(transitions)
    assert reset == ("alter_offsets", 50, None, "Available", 0)
    assert acquired == ("acquire", 50, 50, "Acquired", 1)
    assert transitions[1].start_offset == 50


def test_the_delivery_limit_of_the_group_is_used_when_it_is_known() -> None:
    limit = _event(0, EventKind.LIMIT, start=2)
    transitions = run_events(limit, acquire(1, (0, 0, 2)), acknowledge(2, (0, 0, RELEASE)))

    assert summaries(transitions)[1:] == [("release", 0, 0, "Archived", 2)]


def test_a_delivery_beyond_the_assumed_limit_raises_it() -> None:
    events = acquire(1, (0, 0, 1), (1, 1, 2)), acknowledge(2, (1, 1, RELEASE)), acquire(3, (1, 1, 3))
    transitions = run_events(*events, limit=2)

    assert summaries(transitions)[3:] == [("unseen", 1, 1, "Available", 2), ("acquire", 1, 1, "Acquired", 3)]


def test_records_delivered_before_the_capture_are_acknowledged_without_a_count() -> None:
    transitions = run_events(acknowledge(1, (5, 7, ACCEPT), (8, 8, RELEASE)), acquire(2, (8, 8, 3)))

    assert summaries(transitions) == [
        ("accept", 5, 7, "Acknowledged", None),
        ("release", 8, 8, "Available", None),
        ("acquire", 8, 8, "Acquired", 3),
    ]
    assert transitions[-1].start_offset == 8


def test_an_acknowledgement_below_the_start_offset_changes_nothing() -> None:
    assert len(run_events(acquire(1, (0, 4, 1)), acknowledge(2, (0, 4, ACCEPT)), acknowledge(3, (0, 4, RELEASE)))) == 2


def test_records_below_a_new_log_start_are_archived_at_the_next_delivery_beyond_it() -> None:
    cut = _event(3, EventKind.LOG_START, start=8)
    transitions = run_events(acquire(1, (0, 9, 1)), acknowledge(2, (0, 9, RELEASE)), cut, acquire(4, (8, 9, 2)))

    assert summaries(transitions)[2:] == [("log_start", 0, 7, "Archived", 1), ("acquire", 8, 9, "Acquired", 2)]
    assert transitions[-1].start_offset == 8


@pytest.mark.parametrize("seed", range(30))
def test_any_events_in_any_order_return_rows_without_an_exception(seed: int) -> None:
    chance = random.Random(seed)
    ends = [-5, 0, 1, 2, 3, 7, 10, 2**62, 2**63 - 1]

    def runs(width: int) -> OffsetRuns:
        return tuple(
            (*sorted(chance.choices(ends, k=2)), *chance.choices([-1, 0, 1, 2, 4, 9], k=width))
            for _ in range(chance.randrange(3))
        )

    widths = {EventKind.LOAD: 2, EventKind.WRITE: 2, EventKind.ACQUIRE: 1, EventKind.ACKNOWLEDGE: 1}
    events = []
    for at in range(60):
        kind = chance.choice(list(EventKind))
        more = {"start": chance.choice([None, *ends]), "error_code": chance.choice([0, 0, None, 6, 121])}
        fields = runs(widths[kind]) if kind in widths else ()
        events.append(_event(at * chance.random(), kind, fields, chance.choice("AB"), lock_ms=1_000, **more))

    transitions = run_events(*sorted(events, key=lambda event: event.ts), until=100)

    assert all(each.cause in CAUSES or each.cause == "load" for each in transitions)
    assert [each.number for each in transitions] == list(range(len(transitions)))
    numbers = [value for each in transitions for value in each if isinstance(value, int)]
    assert all(-(2**63) <= value < 2**63 for value in numbers)


def test_records_on_their_way_to_the_dead_letter_queue_hold_the_start() -> None:
    """By the writes of Kafka 4.4.0: state 3 before the queue has the record, state 4 afterwards (KIP-1191)."""
    reject = (acquire(1, (0, 2, 1)), acknowledge(2, (0, 0, REJECT), (1, 2, ACCEPT)))
    transitions = run_events(*reject, write(2.1, 0, (0, 0, 1, 3), (1, 2, 1, 2)), write(2.2, 0, (0, 0, 1, 4)))

    assert summaries(transitions)[-2:] == [
        ("dead_letter", 0, 0, "Archiving", None),
        ("dead_letter_done", 0, 0, "Archived", None),
    ]
    assert [(each.start_offset, each.archived) for each in transitions[-2:]] == [(0, 1), (3, 0)]


def test_a_dead_letter_whose_lock_expired_shows_both() -> None:
    events = (acquire(1, (0, 1, 5)), write(31.1, 0, (0, 1, 5, 3)), write(31.2, 0, (0, 1, 5, 4)))
    transitions = run_events(*events, until=32)

    assert [each.cause for each in transitions] == ["acquire", "lock_timeout", "dead_letter", "dead_letter_done"]
    assert transitions[-1].start_offset == 2
