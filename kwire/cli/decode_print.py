"""How the rows of ``kwire decode`` get out: in order, laid out, as soon as that can be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from kwire.capture.exchange import Outcome
from kwire.capture.order import InOrder, Made
from kwire.cli.decode_view import Block, Layout

# What is held to come in order waits no longer than this where somebody watches.
_HELD_SECONDS = 0.5


class Printer:
    """Of one input. `head` is printed before the first row; `before_row` is called before anything is."""

    def __init__(
        self,
        layout: Layout,
        out: TextIO,
        *,
        head: str = "",
        limit: int | None = None,
        is_live: bool = False,
        is_watched: bool = False,
        before_row: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_live`: rows are shown as they come. `is_watched`: those whose turn it is are not held to measure them."""
        self._layout = layout
        self._out = out
        self._head = head
        self._left = limit
        self._is_live = is_live
        self._is_watched = is_watched
        self._before_row = before_row
        self._held = InOrder[Block](counts_all=True)
        self._shown_at = time.monotonic()

    def idle(self) -> None:
        """Print all that is held, since nobody knows when more will come."""
        self.show(is_early=True)

    @property
    def left(self) -> int | None:
        """How many more rows were asked for; None without a limit."""
        return self._left

    @property
    def is_full(self) -> bool:
        """Whether as many rows as were asked for are printed."""
        return self._left == 0

    def push(self, outcome: Outcome | Made, made: Sequence[Block]) -> None:
        """The rows of an outcome; those whose turn it is are printed."""
        self._print(self._held.push(outcome, made, _size_of(made)))
        self._settle_in_time()

    def pass_over(self, count: int) -> None:
        """So many outcomes are not shown; rows that waited for them are printed."""
        self._print(self._held.pass_over(count))
        self._settle_in_time()

    def rest(self) -> None:
        """Somebody who watches sees what is due, since more takes a moment."""
        if self._is_watched:
            self._settle(is_early=True)
        self._out.flush()

    def _settle_in_time(self) -> None:
        if (self._is_live or self._is_watched) and time.monotonic() - self._shown_at > _HELD_SECONDS:
            if self._is_live:
                self.show(is_early=True)
            else:
                self._settle(is_early=True)

    def show(self, *, is_early: bool = False) -> None:
        """Print all that is held; `is_early`: though more is to come."""
        while (made := self._held.pop()) is not None:
            self._print(made)
        self._settle(is_early=is_early)

    def _settle(self, *, is_early: bool) -> None:
        self._write(self._layout.settle(is_early=is_early))
        self._out.flush()
        self._shown_at = time.monotonic()

    def _print(self, made: Sequence[Block]) -> None:
        for block in made:
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


def _size_of(made: Sequence[Block]) -> int:
    """How many characters the rows have, bodies and payloads included."""
    return sum(len(cell.text) for block in made for line in block for cell in line)
