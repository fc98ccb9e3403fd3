"""The reorder buffer returns items in the order of their requests, within a window."""

from __future__ import annotations

from kwire.capture.columnar.batch_merge import BatchSorter, RowBatch, row_batch
from kwire.capture.kafka.exchange import Outcome
from kwire.capture.model import CaptureIssue, Row
from kwire.capture.pipeline import order_rows
from kwire.capture.rows.columns import arrow_schema
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW, SIZE_MAX, ReorderBuffer


def at(ts: int) -> CaptureIssue:
    return CaptureIssue("file_corrupt", "", 0, ts)


def test_items_are_returned_in_order() -> None:
    held = ReorderBuffer[int]()
    for ts in (3, 1, 2):
        assert held.push(at(ts), [ts]) == ()

    assert [held.pop() for _ in range(4)] == [[1], [2], [3], None]


def test_the_buffer_is_limited_to_the_window() -> None:
    held = ReorderBuffer[int]()
    came = [held.push(at(ts), [ts]) for ts in range(ORDER_WINDOW + 2)]

    assert came[-3:] == [(), [0], [1]]


def test_what_was_taken_can_be_put_back() -> None:
    held = ReorderBuffer[int](counts_all=True)
    for ts in (3, 1):
        held.push(at(ts), [ts], 10)
    taken = [(key, items, 10) for key, items in held.take_all()]

    assert held.pop() is None
    assert held.refill([*taken, ((4, 0), [4], 10)]) == ()
    assert held.push(at(2), [2], 10) == ()
    assert [held.pop() for _ in range(5)] == [[1], [2], [3], [4], None]


def test_what_is_put_back_is_limited_in_size() -> None:
    held = ReorderBuffer[int]()

    assert held.refill([((ts, 0), [ts], SIZE_MAX // 2) for ts in range(4)]) == [0, 1]
    assert held.pop() == [2]


def test_the_buffer_is_limited_in_size() -> None:
    held, quarter = ReorderBuffer[int](), SIZE_MAX // 4
    came = [held.push(at(ts), [ts], quarter) for ts in (4, 3, 2, 1, 0)]
    assert came == [(), (), (), (), [0]]

    assert held.push(at(9), [9], SIZE_MAX) == [1, 2, 3, 4]
    assert held.pop() == [9]
    assert held.push(at(1), [1], SIZE_MAX + 1) == [1]


def test_with_counts_all_a_rare_item_is_returned_after_a_window_of_outcomes() -> None:
    patient, quick = ReorderBuffer[int](), ReorderBuffer[int](counts_all=True)
    came = []
    for ts in range(ORDER_WINDOW + 1):
        assert patient.push(at(ts), [ts] if ts == 0 else []) == ()
        came.append(quick.push(at(ts), [ts] if ts == 0 else []))

    assert came[-1] == [0]
    assert set(map(tuple, came[:-1])) == {()}


def test_skipping_outcomes_is_the_same_as_pushing_them_without_items() -> None:
    one_by_one, at_once = ReorderBuffer[int](counts_all=True), ReorderBuffer[int](counts_all=True)
    came: list[int] = []
    for held in (one_by_one, at_once):
        for ts in (5, 1, 3):
            held.push(at(ts), [ts])
    for _ in range(ORDER_WINDOW):
        came += one_by_one.push(at(9), [])

    assert came == [1, 3]
    assert list(at_once.skip(ORDER_WINDOW)) == [1, 3]
    assert at_once.skip(1) == one_by_one.push(at(9), [])


def test_rows_with_large_bodies_are_returned_early() -> None:
    text, made = "x" * (SIZE_MAX // 4), []

    def make(outcome: Outcome) -> list[Row]:
        made.append(outcome)
        # One text for all: it is counted each time.
        return [{"body_request": text, "key": None, "ts": getattr(outcome, "ts", None)}]

    found = order_rows([at(ts) for ts in (3, 1, 2, 0, 4, 5, 6)], make)

    assert next(found)["ts"] == 0
    assert len(made) == 5


def test_batches_of_large_rows_are_returned_early() -> None:
    sorter, text = BatchSorter(), "x" * (SIZE_MAX // 8)

    def piece(first: int) -> RowBatch:
        rows: list[Row] = [
            dict.fromkeys(arrow_schema("messages").names) | {"issues": [], "body_request": text, "req_ts": 1000 * ts}
            for ts in range(first, first + 6)
        ]
        return row_batch(rows, ["req_ts", "body_request"])

    came = [sum(batch.num_rows for batch in sorter.add_batches([piece(first)])) for first in (0, 6, 12)]
    assert came[0] == 0
    assert came[1] >= 4
    assert came[2] >= 4
    assert sum(batch.num_rows for batch in sorter.add_batches([], window=0)) == 18 - sum(came)
