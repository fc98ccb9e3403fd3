"""Rows get out in their order, and do not fill the memory while they wait for their turn."""

from __future__ import annotations

import io

from kwire.capture.order import SIZE_MAX
from kwire.capture.values import Trouble
from kwire.cli.decode_print import Printer
from kwire.cli.decode_view import JsonLines
from kwire.cli.grid import Cell
from kwire.cli.terminal import Screen


def test_large_rows_get_out_before_there_are_many_of_them() -> None:
    out, text = io.StringIO(), "x" * (SIZE_MAX // 4)
    printer = Printer(JsonLines("messages").layout(Screen()), out)
    for ts in (3, 1, 2, 0, 4, 5):
        # One text for all: it is counted each time.
        printer.push(Trouble("file_corrupt", "", 0, ts), [[[Cell(f"{ts}"), Cell(text)]]])

    assert out.getvalue()[:1] == "0"
    assert out.getvalue().count("\n") == 3
