"""Tables of text: lines of cells under a header, aligned, and fitted to the width of a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kwire.cli.terminal import paint, text_width, truncate

# How many lines are measured before the widths are fixed. Wider cells of later lines shift the rest of their line.
_LINES_MEASURED = 500
_GAP = "  "
# The least width of a header that is cut.
_HEAD_MIN = 6
#: Columns shrink in steps from 0 on; the number of steps.
SHRINK_STEPS = 10


class Cell(NamedTuple):
    """A text, its style, and a shorter text for narrow terminals."""

    text: str
    style: str = ""
    short: str = ""


class Column(NamedTuple):
    """A header, and how the column shrinks if not all columns fit: `shrinks` has pairs of step and least width.

    Lower steps are applied first, within a step to the widest column. In step `short` a column uses its short texts; in
    step `bare` its header is cut to the width of its cells. `usual`: the least width while few lines are known.
    """

    head: str
    is_right: bool = False
    shrinks: tuple[tuple[int, int], ...] = ()
    short: int | None = None
    bare: int | None = None
    usual: int = 0


Line = Sequence[Cell]


class TableLayout:
    """Buffers lines until the column widths are fixed, then formats each line immediately."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        width: int | None,
        is_coloured: bool,
        build_line: Callable[[Any], Line] = list,
    ) -> None:
        """Args: width: that of the terminal, None without one. build_line: the cells of an item of `add_prebuilt`."""
        self._columns = columns
        self._build_line = build_line
        self._width = width
        self._is_coloured = is_coloured
        self._buffered: list[Line] = []
        self._natural = [text_width(column.head) for column in columns]
        self._shorts = list(self._natural)
        self._contents = [_HEAD_MIN] * len(columns)
        self._widths: list[int] | None = None

    def add(self, line: Line) -> Iterator[str]:
        """Add a line; yields the lines that can be printed now."""
        if self._widths is None:
            self._buffered.append(line)
            if len(self._buffered) >= _LINES_MEASURED:
                yield from self.flush()
        else:
            yield self._format_line(line)

    def add_prebuilt(self, lines: Sequence[Any]) -> Iterator[str]:
        """Add many lines; yields those that can be printed now, some of them joined.

        Args: lines: tuples of one size that begin with the texts of the cells, of which `build_line` makes the cells.
        """
        begin = 0
        while self._widths is None and begin < len(lines):
            yield from self.add(self._build_line(lines[begin]))
            begin += 1
        if self._width is not None or self._is_coloured or self._widths is None:
            for line in lines[begin:]:
                yield self._format_line(self._build_line(line))
            return
        if begin < len(lines):
            yield self._format_prebuilt(lines[begin:])

    def _format_prebuilt(self, lines: Sequence[Any]) -> str:
        """Lines without a width limit and without colours, from the texts at the beginning of each tuple."""
        assert self._widths is not None
        # The last column needs no spaces after it.
        widths = [*self._widths[:-1], self._widths[-1] if self._columns[-1].is_right else 0]
        parts = zip(self._columns, widths, strict=True)
        template = _GAP.join(f"%{'' if column.is_right else '-'}{width or ''}s" for column, width in parts)
        # What follows the texts is not printed.
        template += "%.0s" * (len(lines[0]) - len(self._columns))
        texts = list(map(template.__mod__, lines))
        text = "\n".join(texts)
        if not text.isascii():
            rows = zip(lines, texts, strict=True)
            return "\n".join(
                text.rstrip() if text.isascii() else self._format_line(self._build_line(line)) for line, text in rows
            )
        return "\n".join(map(str.rstrip, texts)) if " \n" in text or text.endswith(" ") else text

    def flush(self, *, is_early: bool = False) -> Iterator[str]:
        """Fix the widths and yield the buffered lines after the header; nothing if there is no line.

        Args: is_early: more lines will follow, so that the widths must be estimated.
        """
        if self._widths is not None or not self._buffered:
            return
        if is_early:
            self._natural = [max(size, column.usual) for size, column in zip(self._natural, self._columns, strict=True)]
        self._measure(self._buffered)
        self._widths = self._fit_widths()
        yield self._format_line([Cell(column.head, "head") for column in self._columns])
        for line in self._buffered:
            yield self._format_line(line)
        self._buffered = []

    def _measure(self, lines: Iterable[Line]) -> None:
        """Measure the columns: full texts, short texts, and cells without headers."""
        natural, shorts, contents = self._natural, self._shorts, self._contents
        for line in lines:
            for index, cell in enumerate(line):
                size = text_width(cell.text)
                natural[index] = max(natural[index], size)
                contents[index] = max(contents[index], size)
                shorts[index] = max(shorts[index], text_width(cell.short) if cell.short else size)

    def _fit_widths(self) -> list[int]:
        """The natural widths if all columns fit; else the widths after shrinking step by step."""
        widths = list(self._natural)
        if self._width is None:
            return widths
        available = self._width - len(_GAP) * (len(widths) - 1)
        for step in range(SHRINK_STEPS):
            if sum(widths) <= available:
                break
            for index, column in enumerate(self._columns):
                if column.short == step:
                    widths[index] = min(self._shorts[index], widths[index])
            self._shrink(widths, step, available)
        # Short texts may save more than needed: the rest is given to the last column.
        widths[-1] += max(min(available - sum(widths), self._natural[-1] - widths[-1]), 0)
        return widths

    def _shrink(self, widths: list[int], step: int, available: int) -> None:
        """Shrink the widest columns of this step, until all columns fit or have their least width."""
        least = {
            index: width
            for index, column in enumerate(self._columns)
            for column_step, width in column.shrinks
            if column_step == step and widths[index] > width
        }
        for index, column in enumerate(self._columns):
            if column.bare == step and widths[index] > self._contents[index]:
                least[index] = self._contents[index]
        while least and sum(widths) > available:
            widest = max(least, key=lambda index: widths[index])
            widths[widest] -= 1
            if widths[widest] <= least[widest]:
                del least[widest]

    def _format_line(self, line: Line) -> str:
        assert self._widths is not None
        if self._width is None:
            return self._format_full_line(line, self._widths)
        cells: list[str] = []
        available = self._width
        last = len(line) - 1
        for index, (column, cell, width) in enumerate(zip(self._columns, line, self._widths, strict=True)):
            text = cell.text
            if available is not None:
                if available <= 0:
                    break
                # A column that was shrunk keeps its reduced width.
                width_max = min(width, available) if width < self._natural[index] else available
                if cell.short and text_width(text) > width_max:
                    text = cell.short
                text = truncate(text, width_max)
                width = min(max(width, text_width(text)), available)  # noqa: PLW2901
                available -= width + len(_GAP)
            fill = " " * (width - text_width(text))
            painted = paint(text, cell.style) if self._is_coloured else text
            cells.append(fill + painted if column.is_right else painted + (fill if index != last else ""))
        return _GAP.join(cells).rstrip()

    def _format_full_line(self, line: Line, widths: list[int]) -> str:
        """The line without a width limit: nothing is cut."""
        cells: list[str] = []
        for column, cell, width in zip(self._columns, line, widths, strict=True):
            text = cell.text
            fill = " " * (width - (len(text) if text.isascii() else text_width(text)))
            if self._is_coloured:
                text = paint(text, cell.style)
            cells.append(fill + text if column.is_right else text + fill)
        return _GAP.join(cells).rstrip()
