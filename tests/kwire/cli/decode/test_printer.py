"""Rows are printed in order, and buffered rows have a limited size."""

from __future__ import annotations

import io

from kwire.capture.model import CaptureIssue
from kwire.capture.rows.reorder_buffer import SIZE_MAX
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
