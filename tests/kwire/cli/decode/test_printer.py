"""Rows are printed in order, and buffered rows have a limited size."""

from __future__ import annotations

import io

import numpy as np
import pytest

from kwire.capture.model import CaptureIssue
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW, SIZE_MAX, PrebuiltLines
from kwire.cli.decode.printer import Printer
from kwire.cli.decode.views import JsonLinesView
from kwire.cli.table import Cell
from kwire.cli.terminal import Screen


def test_large_rows_are_printed_before_there_are_many() -> None:
    out, text = io.StringIO(), "x" * (SIZE_MAX // 4)
    printer = Printer(JsonLinesView("messages").layout(Screen()), out)
    for ts in (3, 1, 2, 0, 4, 5):
        # The same text object in all rows: it is counted each time.
        printer.push(CaptureIssue("file_corrupt", "", 0, ts), [[[Cell(f"{ts}"), Cell(text)]]])

    assert out.getvalue()[:1] == "0"
    assert out.getvalue().count("\n") == 3


def prebuilt(times: list[int]) -> PrebuiltLines:
    """A line for each time, which is its text."""
    numbers = np.array(times, dtype=np.int64)
    return PrebuiltLines(
        numbers, numbers, np.zeros_like(numbers), [str(ts) for ts in times], numbers < 0, np.zeros_like(numbers)
    )


def printed(parts: list[list[int]], limit: int | None = None) -> list[int]:
    """Print parts: a part with one time as a row, others as lines."""
    out = io.StringIO()
    printer = Printer(JsonLinesView("messages").layout(Screen()), out, limit=limit)
    for part in parts:
        if len(part) == 1:
            printer.push(CaptureIssue("file_corrupt", "", 0, part[0]), [[[Cell(f"{part[0]}")]]])
        else:
            printer.push_lines(prebuilt(part))
    early = out.getvalue().count("\n")
    printer.show()
    assert early or sum(map(len, parts)) <= ORDER_WINDOW
    return [int(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("size", [2, ORDER_WINDOW - 1, ORDER_WINDOW, 3 * ORDER_WINDOW])
def test_lines_and_rows_are_printed_in_the_order_of_their_times(size: int) -> None:
    times = list(range(0, 10 * size, 10))
    swapped = [times[index ^ 1] for index in range(size - size % 2)]
    parts = [[5], swapped, [times[-1] - 5], [ts + 10 * size for ts in swapped], [20 * size - 15]]

    assert printed(parts) == sorted(ts for part in parts for ts in part)


def test_the_limit_counts_lines() -> None:
    times = list(range(3 * ORDER_WINDOW))

    assert printed([times], limit=7) == times[:7]
    assert printed([times], limit=2 * ORDER_WINDOW + 5) == times[: 2 * ORDER_WINDOW + 5]
    assert printed([times[:50], [50], times[51:]], limit=60) == times[:60]
