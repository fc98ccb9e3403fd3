"""The timeline of share partitions, on events made by hand and on real captures."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.share_timeline import share_timeline
from kwire.capture.share_timeline.events import CAUSES, Event, Kind, Runs, Transition
from kwire.capture.share_timeline.machine import SharePartitionMachine
from kwire.capture.share_timeline.runs import Run, RunMap
from tests.kwire.capture.wire import CAPTURES

S = 1_000_000_000
LOCK_S = 30
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
INVALID_RECORD_STATE = 121


def acquire(at: float, *runs: tuple[int, int, int], member: str = "A") -> Event:
    return _event(at, Kind.ACQUIRE, runs, member, lock_ms=LOCK_S * 1000)


def word(at: float, *runs: tuple[int, int, int], member: str = "A", error: int | None = 0) -> Event:
    return _event(at, Kind.ACKNOWLEDGE, runs, member, error_code=error)


def write(at: float, start: int, *runs: tuple[int, int, int, int]) -> Event:
    return _event(at, Kind.WRITE, runs, None, start=start)


def _event(at: float, kind: Kind, runs: Runs = (), member: str | None = None, **more: object) -> Event:
    made: dict[str, object] = {"member_id": member, "runs": runs, **more}
    return Event(int(at * S), kind, "g", "t", 0, **made)  # type: ignore[arg-type]


def play(*events: Event, until: float = 20.0, limit: int = 5) -> list[Transition]:
    return list(SharePartitionMachine(delivery_count_limit=limit).run(events, int(until * S)))


def told(found: Sequence[Transition]) -> list[tuple[object, ...]]:
    return [(each.cause, each.first_offset, each.last_offset, each.state, each.delivery_count) for each in found]


def test_what_is_acquired_and_settled_is_told_and_moves_the_start() -> None:
    found = play(acquire(1, (0, 9, 1)), word(2, (0, 2, ACCEPT), (3, 3, RELEASE), (4, 4, REJECT)))

    assert told(found) == [
        ("acquire", 0, 9, "Acquired", 1),
        ("accept", 0, 2, "Acknowledged", 1),
        ("release", 3, 3, "Available", 1),
        ("reject", 4, 4, "Archived", 1),
    ]
    assert not any(each.is_inferred for each in found)
    assert {each.start_offset for each in found[1:]} == {3}
    last = found[-1]
    assert (last.end_offset, last.available, last.acquired, last.member_id) == (10, 1, 5, "A")
    # The leader writes its start from before the change, and how many records behind it are settled.
    assert (last.stored_start_offset, last.delivery_complete_count) == (0, 4)


def test_a_refused_acknowledgement_changes_nothing() -> None:
    assert len(play(acquire(1, (0, 9, 1)), word(2, (0, 9, ACCEPT), error=INVALID_RECORD_STATE))) == 1


def test_of_a_refused_acknowledgement_the_renewals_in_front_hold() -> None:
    refused = word(2, (0, 1, RENEW), (5, 5, ACCEPT), (6, 6, RENEW), error=INVALID_RECORD_STATE)
    found = play(acquire(1, (0, 4, 1)), acquire(1, (5, 5, 1), member="B"), refused)

    assert [(each.cause, each.first_offset, each.last_offset, each.is_inferred) for each in found[2:]] == [
        ("renew", 0, 1, True)
    ]


def test_an_acknowledgement_without_an_answer_is_believed_and_marked() -> None:
    (_, accepted) = play(acquire(1, (0, 0, 1)), word(2, (0, 0, ACCEPT), error=None))

    assert (accepted.cause, accepted.is_inferred) == ("accept", True)


def test_a_lock_that_has_run_out_is_inferred_from_the_time_and_a_renewal_puts_it_off() -> None:
    found = play(acquire(1, (0, 1, 1)), word(11, (1, 1, RENEW)), until=60)

    assert [(each.cause, each.first_offset, each.ts // S, each.is_inferred) for each in found] == [
        ("acquire", 0, 1, False),
        ("renew", 1, 11, False),
        ("lock_timeout", 0, 1 + LOCK_S, True),
        ("lock_timeout", 1, 11 + LOCK_S, True),
    ]


def test_a_lock_does_not_run_out_after_the_end_of_the_capture() -> None:
    assert told(play(acquire(1, (0, 1, 1)), until=30)) == [("acquire", 0, 1, "Acquired", 1)]


def test_what_runs_out_at_the_delivery_limit_is_archived_and_the_start_passes_it() -> None:
    found = play(acquire(1, (0, 0, 2), (1, 1, 1)), until=60, limit=2)

    assert [(each.state, each.start_offset) for each in found[2:]] == [("Archived", 1), ("Available", 1)]


def test_a_delivery_with_a_higher_count_shows_that_a_lock_has_run_out() -> None:
    found = play(acquire(1, (0, 4, 1)), acquire(30.5, (0, 4, 2), member="B"))

    assert [(each.cause, each.ts, each.member_id, each.is_inferred) for each in found[1:]] == [
        ("lock_timeout", int(30.5 * S), "A", True),
        ("acquire", int(30.5 * S), "B", False),
    ]


def test_a_delivery_long_before_the_lock_ends_is_told_to_have_no_cause_in_the_capture() -> None:
    found = play(acquire(1, (0, 4, 1)), acquire(5, (0, 4, 2), member="B"))

    assert told(found)[1:] == [("unseen", 0, 4, "Available", 1), ("acquire", 0, 4, "Acquired", 2)]
    assert found[1].is_inferred


def test_a_count_that_falls_shows_that_a_leader_has_read_an_older_state() -> None:
    found = play(acquire(1, (0, 4, 3)), acquire(40, (0, 4, 1), member="B"), until=41)

    assert told(found)[2:] == [("load", 0, 4, "Available", 0), ("acquire", 0, 4, "Acquired", 1)]


def test_the_end_of_a_session_gives_back_what_its_member_holds_and_nothing_else() -> None:
    held = [acquire(1, (0, 1, 1)), acquire(1, (2, 3, 1), member="B"), acquire(1, (4, 4, 1))]
    found = play(*held, _event(2, Kind.CLOSE, member="A"), _event(3, Kind.DISCONNECT, member="B"))

    assert [(each.cause, each.first_offset, each.last_offset, each.is_inferred) for each in found[3:]] == [
        ("session_close", 0, 1, False),
        ("session_close", 4, 4, False),
        ("session_close", 2, 3, True),
    ]


def test_a_lock_that_ran_out_before_the_session_ended_is_told_as_that() -> None:
    found = play(acquire(1, (0, 1, 1)), _event(31.2, Kind.CLOSE, member="A"), until=32)

    assert [(each.cause, each.ts // S) for each in found] == [("acquire", 1), ("lock_timeout", 31)]


def test_what_a_leader_writes_shows_that_a_lock_has_run_out() -> None:
    (_, run_out) = play(acquire(1, (0, 9, 1)), write(31.1, 0, (0, 9, 1, 0)), until=32)

    assert (run_out.cause, run_out.state, run_out.is_inferred) == ("lock_timeout", "Available", False)


def test_a_state_that_a_leader_reads_is_where_everything_begins_anew() -> None:
    load = _event(5, Kind.LOAD, ((10, 12, 1, 2), (15, 16, 3, 0)), None, start=10)
    found = play(acquire(1, (0, 9, 1)), load, acquire(6, (13, 16, 1)))

    assert told(found)[1:] == [
        ("load", 10, None, "Available", 0),
        ("load", 10, 12, "Acknowledged", 1),
        ("load", 15, 16, "Available", 3),
        ("load", 15, 16, "Available", 0),
        ("acquire", 13, 16, "Acquired", 1),
    ]
    assert found[3].start_offset == 13  # A hole in what is stored is delivered before the start passes it.


def test_a_start_that_is_altered_forgets_what_was_in_flight() -> None:
    altered = _event(5, Kind.RESET, start=50, note="alter_offsets")
    found = play(acquire(1, (0, 9, 1)), altered, acquire(6, (50, 50, 1)), word(7, (0, 9, ACCEPT)))

    assert told(found)[1:] == [("alter_offsets", 50, None, "Available", 0), ("acquire", 50, 50, "Acquired", 1)]
    assert found[1].start_offset == 50


def test_the_delivery_limit_is_that_of_the_group_as_soon_as_it_is_told() -> None:
    limit = _event(0, Kind.LIMIT, start=2)
    found = play(limit, acquire(1, (0, 0, 2)), word(2, (0, 0, RELEASE)))

    assert told(found)[1:] == [("release", 0, 0, "Archived", 2)]


def test_a_delivery_beyond_the_assumed_limit_raises_it() -> None:
    found = play(acquire(1, (0, 0, 1), (1, 1, 2)), word(2, (1, 1, RELEASE)), acquire(3, (1, 1, 3)), limit=2)

    assert told(found)[3:] == [("unseen", 1, 1, "Available", 2), ("acquire", 1, 1, "Acquired", 3)]


def test_records_that_were_delivered_before_the_capture_began_are_settled_without_a_count() -> None:
    found = play(word(1, (5, 7, ACCEPT), (8, 8, RELEASE)), acquire(2, (8, 8, 3)))

    assert told(found) == [
        ("accept", 5, 7, "Acknowledged", None),
        ("release", 8, 8, "Available", None),
        ("acquire", 8, 8, "Acquired", 3),
    ]
    assert found[-1].start_offset == 8


def test_a_word_on_what_the_start_has_passed_changes_nothing() -> None:
    assert len(play(acquire(1, (0, 4, 1)), word(2, (0, 4, ACCEPT)), word(3, (0, 4, RELEASE)))) == 2


def test_what_lay_below_a_new_log_start_is_archived_when_something_behind_it_is_delivered() -> None:
    cut = _event(3, Kind.LOG_START, start=8)
    found = play(acquire(1, (0, 9, 1)), word(2, (0, 9, RELEASE)), cut, acquire(4, (8, 9, 2)))

    assert told(found)[2:] == [("log_start", 0, 7, "Archived", 1), ("acquire", 8, 9, "Acquired", 2)]
    assert found[-1].start_offset == 8


@pytest.mark.parametrize("seed", range(30))
def test_any_events_in_any_order_give_rows_and_never_an_exception(seed: int) -> None:
    chance = random.Random(seed)
    ends = [-5, 0, 1, 2, 3, 7, 10, 2**62, 2**63 - 1]

    def runs(width: int) -> Runs:
        return tuple(
            (*sorted(chance.choices(ends, k=2)), *chance.choices([-1, 0, 1, 2, 4, 9], k=width))
            for _ in range(chance.randrange(3))
        )

    widths = {Kind.LOAD: 2, Kind.WRITE: 2, Kind.ACQUIRE: 1, Kind.ACKNOWLEDGE: 1}
    events = []
    for at in range(60):
        kind = chance.choice(list(Kind))
        more = {"start": chance.choice([None, *ends]), "error_code": chance.choice([0, 0, None, 6, 121])}
        made = runs(widths[kind]) if kind in widths else ()
        events.append(_event(at * chance.random(), kind, made, chance.choice("AB"), lock_ms=1_000, **more))

    found = play(*sorted(events, key=lambda event: event.ts), until=100)

    assert all(each.cause in CAUSES or each.cause == "load" for each in found)
    assert [each.number for each in found] == list(range(len(found)))
    numbers = [value for each in found for value in each if isinstance(value, int)]
    assert all(-(2**63) <= value < 2**63 for value in numbers)


@pytest.mark.parametrize("name", ["share", "jshare"])
def test_what_the_timeline_says_is_stored_is_what_the_real_leader_has_written(name: str) -> None:
    """The broker's own WriteShareGroupState is in the capture: it is hidden here, and compared afterwards."""
    path = CAPTURES / f"small_{name}.pcap"
    messages = list(rows(path, "messages"))
    hidden = [row for row in messages if row["api_name"] != "WriteShareGroupState"]
    timeline = share_timeline(hidden, rows(path, "flows"))

    stored = {(row["topic_id"], row["partition"]): _stored(row) for row in timeline}
    written = {place: state for row in messages for place, state in _written(row)}
    assert {place: stored[place] for place in written} == written
    assert len(written) == (2 if name == "share" else 0)


def _stored(row: Row) -> tuple[object, ...]:
    return row["stored_start_offset"], row["delivery_complete_count"]


def _written(row: Row) -> list[tuple[tuple[str, int], tuple[object, ...]]]:
    if row["api_name"] != "WriteShareGroupState":
        return []
    return [
        ((topic["topicId"], each["partition"]), (each["startOffset"], each["deliveryCompleteCount"]))
        for topic in json.loads(str(row["body_request"]))["topics"]
        for each in topic["partitions"]
    ]


@pytest.mark.parametrize("seed", range(10))
def test_the_map_of_runs_knows_of_each_offset_what_was_said_last(seed: int) -> None:
    chance, runs, known = random.Random(seed), RunMap(), dict[int, tuple[str, int | None]]()
    for _ in range(200):
        first = chance.randrange(60)
        run = Run(first, first + chance.randrange(8), chance.choice(["Available", "Acquired", "Archived"]), 1)
        runs.put(run)
        known |= dict.fromkeys(range(run.first, run.last + 1), (run.state, 1))
        if chance.random() < 0.05:
            runs.settle_front()
            open_ones = [offset for offset, (state, _) in sorted(known.items()) if state != "Archived"]
            known = {offset: known[offset] for offset in known if open_ones and offset >= open_ones[0]}

        found = {offset: (each.state, 1) for each in runs for offset in range(each.first, each.last + 1)}
        assert found == known
        assert {state: size for state, size in runs.sizes.items() if size} == Counter(
            state for state, _ in known.values()
        )
        pieces = [(low, high, None if each is None else each.state) for low, high, each in runs.pieces(10, 30)]
        told = [(offset, state) for low, high, state in pieces for offset in range(low, high + 1)]
        assert told == [(offset, known.get(offset, (None,))[0]) for offset in range(10, 31)]
