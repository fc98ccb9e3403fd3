"""Lines of cells under a head: aligned, and on a terminal fitted to its width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kwire.cli.terminal import cut, paint, width_of

# So many lines are looked at before the widths are settled. Wider cells that come later push their line to the right.
_LINES_MEASURED = 500
_GAP = "  "
# What is left of a head that is cut.
_HEAD_MIN = 6
#: Columns give up room in turns from 0 on, before this one.
TURNS = 10


class Cell(NamedTuple):
    """A text, and how to show it; `short` says less of it where room is scarce."""

    text: str
    style: str = ""
    short: str = ""


class Column(NamedTuple):
    """A head, and what the column gives where all do not fit: `(turn, width)` says down to which width, and when.

    Lower turns give first; of one turn the widest. A column that is `short` in a turn takes its short texts then; one
    that is `bare` cuts its head, as far as its cells allow. `usual` is the least width where few lines are
    known.
    """

    head: str
    is_right: bool = False
    gives: tuple[tuple[int, int], ...] = ()
    short: int | None = None
    bare: int | None = None
    usual: int = 0


Line = Sequence[Cell]


class Grid:
    """Collects lines until their widths are known, then lays out each as it comes."""

    def __init__(self, columns: Sequence[Column], *, width: int | None, is_coloured: bool) -> None:
        """`width` is that of the terminal, None without one."""
        self._columns = columns
        self._width = width
        self._is_coloured = is_coloured
        self._held: list[Line] = []
        self._natural = [width_of(column.head) for column in columns]
        self._shorts = list(self._natural)
        self._contents = [_HEAD_MIN] * len(columns)
        self._widths: list[int] | None = None

    def add(self, line: Line) -> Iterator[str]:
        """What can be printed now that this line has come."""
        if self._widths is None:
            self._held.append(line)
            if len(self._held) >= _LINES_MEASURED:
                yield from self.settle()
        else:
            yield self._laid_out(line)

    def settle(self, *, is_early: bool = False) -> Iterator[str]:
        """Print what is held, after the head; nothing where there is no line at all.

        Args: is_early: more lines are to come, of which nothing is known.
        """
        if self._widths is not None or not self._held:
            return
        if is_early:
            self._natural = [max(size, column.usual) for size, column in zip(self._natural, self._columns, strict=True)]
        self._measure(self._held)
        self._widths = self._fitted()
        yield self._laid_out([Cell(column.head, "head") for column in self._columns])
        for line in self._held:
            yield self._laid_out(line)
        self._held = []

    def _measure(self, lines: Iterable[Line]) -> None:
        """What the columns need: for all that their cells say, for the short of it, and without their heads."""
        natural, shorts, contents = self._natural, self._shorts, self._contents
        for line in lines:
            for index, cell in enumerate(line):
                size = width_of(cell.text)
                natural[index] = max(natural[index], size)
                contents[index] = max(contents[index], size)
                shorts[index] = max(shorts[index], width_of(cell.short) if cell.short else size)

    def _fitted(self) -> list[int]:
        """The widths that all columns have, where they fit; else those that give up room do so in their turn."""
        widths = list(self._natural)
        if self._width is None:
            return widths
        room = self._width - len(_GAP) * (len(widths) - 1)
        for turn in range(TURNS):
            if sum(widths) <= room:
                break
            for index, column in enumerate(self._columns):
                if column.short == turn:
                    widths[index] = min(self._shorts[index], widths[index])
            self._give(widths, turn, room)
        # Short texts may give more than was needed: it goes to the column that says most.
        widths[-1] += max(min(room - sum(widths), self._natural[-1] - widths[-1]), 0)
        return widths

    def _give(self, widths: list[int], turn: int, room: int) -> None:
        """Take from the widest columns of the turn, until all fit or nothing is left to take."""
        least = {
            index: width
            for index, column in enumerate(self._columns)
            for when, width in column.gives
            if when == turn and widths[index] > width
        }
        for index, column in enumerate(self._columns):
            if column.bare == turn and widths[index] > self._contents[index]:
                least[index] = self._contents[index]
        while least and sum(widths) > room:
            widest = max(least, key=lambda index: widths[index])
            widths[widest] -= 1
            if widths[widest] <= least[widest]:
                del least[widest]

    def _laid_out(self, line: Line) -> str:
        assert self._widths is not None
        if self._width is None:
            return self._beside_each_other(line, self._widths)
        shown: list[str] = []
        room = self._width
        last = len(line) - 1
        for index, (column, cell, width) in enumerate(zip(self._columns, line, self._widths, strict=True)):
            text = cell.text
            if room is not None:
                if room <= 0:
                    break
                # A column that gave up room keeps to what it has left.
                most = min(width, room) if width < self._natural[index] else room
                if cell.short and width_of(text) > most:
                    text = cell.short
                text = cut(text, most)
                width = min(max(width, width_of(text)), room)  # noqa: PLW2901
                room -= width + len(_GAP)
            fill = " " * (width - width_of(text))
            painted = paint(text, cell.style) if self._is_coloured else text
            shown.append(fill + painted if column.is_right else painted + (fill if index != last else ""))
        return _GAP.join(shown).rstrip()

    def _beside_each_other(self, line: Line, widths: list[int]) -> str:
        """The line where there is no edge: nothing is cut."""
        shown: list[str] = []
        for column, cell, width in zip(self._columns, line, widths, strict=True):
            text = cell.text
            fill = " " * (width - (len(text) if text.isascii() else width_of(text)))
            if self._is_coloured:
                text = paint(text, cell.style)
            shown.append(fill + text if column.is_right else text + fill)
        return _GAP.join(shown).rstrip()
