"""Output of the rows of ``kwire decode``: in order, formatted, as early as possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from kwire.capture.kafka.exchange import Outcome
from kwire.capture.rows.reorder_buffer import PrebuiltRow, ReorderBuffer
from kwire.cli.decode.views import Block, LineLayout

# The longest time that rows are buffered for their order when output goes to a terminal.
_HELD_SECONDS = 0.5


class Printer:
    """Prints the rows of one input: `head` before the first row; `before_row` is called before each output."""

    def __init__(
        self,
        layout: LineLayout,
        out: TextIO,
        *,
        head: str = "",
        limit: int | None = None,
        is_live: bool = False,
        is_watched: bool = False,
        before_row: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_live`: rows are printed as they arrive. `is_watched`: rows in order are not buffered for widths."""
        self._layout = layout
        self._out = out
        self._head = head
        self._left = limit
        self._is_live = is_live
        self._is_watched = is_watched
        self._before_row = before_row
        self._held = ReorderBuffer[Block](counts_all=True)
        self._shown_at = time.monotonic()

    def idle(self) -> None:
        """Print all buffered rows, because the input is waiting for data."""
        self.show(is_early=True)

    @property
    def left(self) -> int | None:
        """How many more rows are requested; None without a limit."""
        return self._left

    @property
    def is_full(self) -> bool:
        """Whether the requested number of rows is printed."""
        return self._left == 0

    def push(self, outcome: Outcome | PrebuiltRow, blocks: Sequence[Block]) -> None:
        """Add the rows of an outcome; prints the rows that are next in order."""
        self._print(self._held.push(outcome, blocks, _count_characters(blocks)))
        self._flush_if_due()

    def skip_outcomes(self, count: int) -> None:
        """Skip `count` outcomes that are not shown; prints rows that waited for them."""
        self._print(self._held.skip(count))
        self._flush_if_due()

    def print_due_rows(self) -> None:
        """On a terminal, print the rows that are next in order, before a long step."""
        if self._is_watched:
            self._flush_layout(is_early=True)
        self._out.flush()

    def _flush_if_due(self) -> None:
        if (self._is_live or self._is_watched) and time.monotonic() - self._shown_at > _HELD_SECONDS:
            if self._is_live:
                self.show(is_early=True)
            else:
                self._flush_layout(is_early=True)

    def show(self, *, is_early: bool = False) -> None:
        """Print all buffered rows; `is_early`: more rows will follow."""
        while (blocks := self._held.pop()) is not None:
            self._print(blocks)
        self._flush_layout(is_early=is_early)

    def _flush_layout(self, *, is_early: bool) -> None:
        self._write(self._layout.flush(is_early=is_early))
        self._out.flush()
        self._shown_at = time.monotonic()

    def _print(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            if self._left == 0:
                return
            if self._left is not None:
                self._left -= 1
            for line in block:
                self._write(self._layout.add(line))

    def _write(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._before_row()
            if self._head:
                self._out.write(self._head + "\n")
                self._head = ""
            self._out.write(text + "\n")


def _count_characters(blocks: Sequence[Block]) -> int:
    """The number of characters of the rows, including bodies and payloads."""
    return sum(len(cell.text) for block in blocks for line in block for cell in line)
