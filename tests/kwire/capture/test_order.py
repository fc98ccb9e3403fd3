"""What is made of exchanges comes in the order of their requests, as far as a window of them allows."""

from __future__ import annotations

from kwire.capture.exchange import Outcome
from kwire.capture.lane.placed import Piece, Placed, piece_of
from kwire.capture.order import ORDER_WINDOW, SIZE_MAX, InOrder
from kwire.capture.pipeline import ordered
from kwire.capture.rows import Row
from kwire.capture.schemas import arrow_schema
from kwire.capture.values import Trouble


def at(ts: int) -> Trouble:
    return Trouble("file_corrupt", "", 0, ts)


def test_what_is_held_comes_in_its_order() -> None:
    held = InOrder[int]()
    for ts in (3, 1, 2):
        assert held.push(at(ts), [ts]) == ()

    assert [held.pop() for _ in range(4)] == [[1], [2], [3], None]


def test_no_more_is_held_than_the_window() -> None:
    held = InOrder[int]()
    came = [held.push(at(ts), [ts]) for ts in range(ORDER_WINDOW + 2)]

    assert came[-3:] == [(), [0], [1]]


def test_no_more_is_held_than_a_size() -> None:
    held, quarter = InOrder[int](), SIZE_MAX // 4
    came = [held.push(at(ts), [ts], quarter) for ts in (4, 3, 2, 1, 0)]
    assert came == [(), (), (), (), [0]]

    assert held.push(at(9), [9], SIZE_MAX) == [1, 2, 3, 4]
    assert held.pop() == [9]
    assert held.push(at(1), [1], SIZE_MAX + 1) == [1]


def test_where_all_count_a_rare_one_comes_after_a_window_of_others() -> None:
    patient, quick = InOrder[int](), InOrder[int](counts_all=True)
    came = []
    for ts in range(ORDER_WINDOW + 1):
        assert patient.push(at(ts), [ts] if ts == 0 else []) == ()
        came.append(quick.push(at(ts), [ts] if ts == 0 else []))

    assert came[-1] == [0]
    assert set(map(tuple, came[:-1])) == {()}


def test_outcomes_that_are_only_counted_let_others_go_as_if_they_had_come_one_by_one() -> None:
    one_by_one, at_once = InOrder[int](counts_all=True), InOrder[int](counts_all=True)
    came: list[int] = []
    for held in (one_by_one, at_once):
        for ts in (5, 1, 3):
            held.push(at(ts), [ts])
    for _ in range(ORDER_WINDOW):
        came += one_by_one.push(at(9), [])

    assert came == [1, 3]
    assert list(at_once.pass_over(ORDER_WINDOW)) == [1, 3]
    assert at_once.pass_over(1) == one_by_one.push(at(9), [])


def test_rows_of_large_bodies_do_not_wait_until_there_are_many() -> None:
    text, made = "x" * (SIZE_MAX // 4), []

    def make(outcome: Outcome) -> list[Row]:
        made.append(outcome)
        # One text for all: it is counted each time.
        return [{"body_request": text, "key": None, "ts": getattr(outcome, "ts", None)}]

    found = ordered([at(ts) for ts in (3, 1, 2, 0, 4, 5, 6)], make)

    assert next(found)["ts"] == 0
    assert len(made) == 5


def test_pieces_of_large_rows_do_not_wait_until_there_are_many() -> None:
    placed, text = Placed(), "x" * (SIZE_MAX // 8)

    def piece(first: int) -> Piece:
        rows: list[Row] = [
            dict.fromkeys(arrow_schema("messages").names) | {"issues": [], "body_request": text, "req_ts": 1000 * ts}
            for ts in range(first, first + 6)
        ]
        return piece_of(rows, ["req_ts", "body_request"])

    came = [sum(batch.num_rows for batch in placed.take([piece(first)])) for first in (0, 6, 12)]
    assert came[0] == 0
    assert came[1] >= 4
    assert came[2] >= 4
    assert sum(batch.num_rows for batch in placed.take([], held=0)) == 18 - sum(came)
