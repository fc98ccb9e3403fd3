"""Output of the rows of ``kwire decode``: in order, formatted, as early as possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TextIO, cast

from kwire.capture.kafka.exchange import Outcome
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW, PrebuiltLines, PrebuiltRow, ReorderBuffer, TableLine
from kwire.cli.decode.views import Block, LineLayout

# The longest time that rows are buffered for their order when output goes to a terminal.
_HELD_SECONDS = 0.5

_Prebuilt = str | TableLine
_Item = Block | _Prebuilt


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
        self._held = ReorderBuffer[_Item](counts_all=True)
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

    def push_lines(self, lines: PrebuiltLines) -> None:
        """Add rows that are lines already, of a view with one line for each row; prints all but the last in order."""
        if len(lines.lines) < ORDER_WINDOW:
            for ts, offset, line in zip(lines.times.tolist(), lines.offsets.tolist(), lines.lines, strict=True):
                self._hold(ts, offset, line)
            return
        import numpy as np

        held = self._held.take_all()
        keys = np.array([key for key, _ in held], dtype=np.int64).reshape(-1, 2)
        times = np.concatenate([keys[:, 0], lines.times])
        offsets = np.concatenate([keys[:, 1], lines.offsets])
        items: list[_Prebuilt | Sequence[_Item]] = [*(_unwrap(blocks) for _, blocks in held), *lines.lines]
        order = np.lexsort((offsets, times))
        due = len(order) - ORDER_WINDOW
        limit = due if self._left is None else min(due, self._left)
        texts: list[str] = []
        ordered = map(items.__getitem__, order[:limit].tolist())
        if all(map(_is_prebuilt, items[: len(held)])):
            texts += self._layout.add_prebuilt(cast("list[_Prebuilt]", list(ordered)))
        else:
            for are_lines, group in groupby(ordered, _is_prebuilt):
                if are_lines:
                    texts += self._layout.add_prebuilt(cast("list[_Prebuilt]", list(group)))
                else:
                    for blocks in group:
                        texts += self._layout_texts(cast("Sequence[_Item]", blocks))
        self._left = None if self._left is None else self._left - limit
        if texts:
            self._write(["\n".join(texts)])
        rest = order[due:]
        entries = []
        rows = zip(times[rest].tolist(), offsets[rest].tolist(), map(items.__getitem__, rest.tolist()), strict=True)
        for ts, offset, item in rows:
            blocks = _wrap(item)
            entries.append(((ts, offset), blocks, _count_characters(blocks)))
        self._print(self._held.refill(entries))
        self._flush_if_due()

    def _hold(self, ts: int, offset: int, line: _Prebuilt) -> None:
        """Add a row that is a line already."""
        blocks = _wrap(line)
        self._print(self._held.push(PrebuiltRow(ts, offset, {}), blocks, _count_characters(blocks)))
        self._flush_if_due()

    def _layout_texts(self, blocks: Sequence[_Item]) -> Iterator[str]:
        for block in blocks:
            if _is_prebuilt(block):
                yield from self._layout.add_prebuilt([cast("_Prebuilt", block)])
            else:
                for line in cast("Block", block):
                    yield from self._layout.add(line)

    def skip_outcomes(self, count: int) -> None:
        """Skip `count` outcomes that are not shown; prints rows that waited for them."""
        self._print(self._held.skip(count))
        self._flush_if_due()

    def print_due_rows(self) -> None:
        """On a terminal, print the rows that are next in order, before a long step."""
        if self._is_watched:
            self._flush_layout(is_early=True)
        self._out.flush()

    def end_part(self) -> None:
        """Print the buffered rows, if the last ones were printed some time ago: there are no outcomes between them."""
        if self._is_live and self._is_due:
            self.show(is_early=True)

    def _flush_if_due(self) -> None:
        if self._is_watched and self._is_due:
            self._flush_layout(is_early=True)

    @property
    def _is_due(self) -> bool:
        return time.monotonic() - self._shown_at > _HELD_SECONDS

    def show(self, *, is_early: bool = False) -> None:
        """Print all buffered rows; `is_early`: more rows will follow."""
        while (blocks := self._held.pop()) is not None:
            self._print(blocks)
        self._flush_layout(is_early=is_early)

    def _flush_layout(self, *, is_early: bool) -> None:
        self._write(self._layout.flush(is_early=is_early))
        self._out.flush()
        self._shown_at = time.monotonic()

    def _print(self, blocks: Sequence[_Item]) -> None:
        for block in blocks:
            if self._left == 0:
                return
            if self._left is not None:
                self._left -= 1
            self._write(self._layout_texts((block,)))

    def _write(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._before_row()
            if self._head:
                self._out.write(self._head + "\n")
                self._head = ""
            self._out.write(text + "\n")


def _wrap(item: _Prebuilt | Sequence[_Item]) -> Sequence[_Item]:
    """The items of an outcome, of a line or of several blocks."""
    return [cast("_Prebuilt", item)] if _is_prebuilt(item) else cast("Sequence[_Item]", item)


def _unwrap(blocks: Sequence[_Item]) -> _Prebuilt | Sequence[_Item]:
    """The line that is the only item of an outcome; else its items."""
    return cast("_Prebuilt", blocks[0]) if len(blocks) == 1 and _is_prebuilt(blocks[0]) else blocks


def _is_prebuilt(item: object) -> bool:
    """Whether an item is a line, not the blocks of an outcome."""
    return isinstance(item, str | TableLine)


def _count_characters(blocks: Sequence[_Item]) -> int:
    """The number of characters of the rows, including bodies and payloads."""
    return sum(map(_item_size, blocks))


def _item_size(item: _Item) -> int:
    if isinstance(item, str):
        return len(item)
    if isinstance(item, TableLine):
        return len(item.summary)
    return sum(len(cell.text) for line in item for cell in line)
