"""The views of ``kwire decode``: every outcome becomes lines of cells, escaped for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from kwire.capture.exchange import Outcome
from kwire.capture.options import Options
from kwire.capture.pipeline import row_maker
from kwire.capture.rows import MessageRows, Row
from kwire.capture.schemas import columns
from kwire.capture.text import json_line
from kwire.cli.decode_cells import (
    CELL_MAX,
    about,
    api,
    api_text,
    cell_maker,
    connection,
    grid_column,
    latency,
    latency_text,
    result,
    result_text,
    shown_columns,
    time_of_day,
)
from kwire.cli.decode_filter import Filter
from kwire.cli.decode_rows import BODIES, Messages
from kwire.cli.grid import Cell, Column, Grid, Line
from kwire.cli.terminal import Screen, paint
from kwire.escape import escape

#: The lines of one row.
Block = Sequence[Line]
Maker = Callable[[Outcome], list[Block]]


class Layout(Protocol):
    """How lines become text."""

    def add(self, line: Line) -> Iterator[str]:
        """What can be printed now that this line has come."""

    def settle(self, *, is_early: bool = False) -> Iterator[str]:
        """What was held until more is known; `is_early` where more is to come."""


class OfRows(NamedTuple):
    """How rows of messages are shown that have these columns, and those that a filter asks for."""

    columns: frozenset[str]
    blocks: Callable[[Row, Filter], list[Block]]


class View(Protocol):
    """One way to show outcomes."""

    @property
    def of_rows(self) -> OfRows | None:
        """Where rows of messages are enough for it; None where it shows more of an exchange than they tell."""

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """What turns an outcome of a file into the lines of its rows."""

    def layout(self, screen: Screen) -> Layout:
        """How its lines are printed."""


class Plain:
    """Lines that are printed as they come."""

    def __init__(self, screen: Screen) -> None:
        """Only the colours of the screen matter."""
        self._is_coloured = screen.is_coloured

    def add(self, line: Line) -> Iterator[str]:
        """The cells of the line, one after the other."""
        yield "".join(paint(cell.text, cell.style) if self._is_coloured else cell.text for cell in line)

    def settle(self, *, is_early: bool = False) -> Iterator[str]:
        """Nothing is held."""
        return iter(())


def _of_rows(level: str, names: Sequence[str], blocks: Callable[[Row, Filter], list[Block]]) -> OfRows | None:
    if level != "messages":
        return None
    return OfRows(frozenset(names or [column.name for column in columns(level)]), blocks)


class JsonLines:
    """One JSON object for each row."""

    def __init__(self, level: str, names: Sequence[str] = ()) -> None:
        """`names` are the columns to show; all by default."""
        self._level = level
        self._names = names

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """Rows of the level."""
        level, names = self._level, self._names
        bodies = not names or not BODIES.isdisjoint(names)
        options = replace(options, bodies=bodies)
        if level == "messages":
            return self._messages(file, options, chosen)
        make_rows = row_maker(level, file, options)

        def make(outcome: Outcome) -> list[Block]:
            """A line for each row that is chosen. Every outcome is made, since any may tell a topic's name."""
            rows = make_rows(outcome)
            if not rows or not chosen.passes(outcome):
                return []
            return [block for row in rows for block in self._blocks(row, chosen)]

        return make

    def _messages(self, file: str, options: Options, chosen: Filter) -> Maker:
        """Bodies are written down only for what a filter has chosen."""
        later = options.bodies and chosen.where is not None
        messages = Messages(file, options, chosen, bodies=options.bodies and not later)
        whole = MessageRows(file, options, messages.names) if later else None

        def make(outcome: Outcome) -> list[Block]:
            """The line of an outcome, if it is chosen."""
            row = messages.row(outcome)
            if row is None:
                return []
            if whole is not None:
                row = whole.rows(outcome)[0]
            return [((Cell(json_line(row, "messages", self._names)),),)]

        return make

    @property
    def of_rows(self) -> OfRows | None:
        """Of messages, rows are enough."""
        return _of_rows(self._level, self._names, self._blocks)

    def _blocks(self, row: Row, chosen: Filter) -> list[Block]:
        return [((Cell(json_line(row, self._level, self._names)),),)] if chosen.passes_row(row) else []

    def layout(self, screen: Screen) -> Layout:
        """As they are; JSON is for programs, and has no colours."""
        return Plain(Screen())


class Table:
    """One line for each message: time, connection, API, latency, outcome, and what it was about."""

    of_rows: OfRows | None = None

    _HEADS = (
        Column("TIME", short=2),
        Column("CONNECTION", short=1, usual=31),
        Column("API", gives=((4, 21), (6, 12)), usual=22),
        Column("LATENCY", is_right=True, short=3, usual=10),
        Column("RESULT", gives=((3, 20), (6, 8)), usual=12),
        Column("SUMMARY", gives=((0, 60), (3, 36), (5, 24), (7, 8)), usual=40),
    )

    def __init__(self, screen: Screen) -> None:
        self._slow_us = screen.slow_us

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """A line of the table."""

        messages = Messages(file, options, chosen)

        def make(outcome: Outcome) -> list[Block]:
            """The line of one outcome, if it is chosen."""
            row = messages.row(outcome)
            if row is None:
                return []
            line = (
                time_of_day(row),
                connection(row),
                api(row),
                latency(row, outcome, self._slow_us),
                result(row),
                about(outcome, row, messages.names),
            )
            return [([cell._replace(text=escape(cell.text, limit=CELL_MAX)) for cell in line],)]

        return make

    def layout(self, screen: Screen) -> Layout:
        """Aligned in columns under a head."""
        return Grid(self._HEADS, width=screen.width, is_coloured=screen.is_coloured)


class LevelTable:
    """The rows of any level, one line each, with the columns that matter to a reader."""

    def __init__(self, level: str, names: Sequence[str] = ()) -> None:
        """`names` are the columns to show; by default those that a person looks at."""

        self._level = level
        self._columns = shown_columns(level, names)
        self._makers = [cell_maker(column) for column in self._columns]
        self.of_rows = _of_rows(level, [column.name for column in self._columns], self._blocks)

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """A line of the table."""

        make_rows = row_maker(self._level, file, options)

        def make(outcome: Outcome) -> list[Block]:
            """The lines of one outcome that are chosen. Every outcome is made, since any may tell a topic's name."""
            rows = make_rows(outcome)
            if not rows or not chosen.passes(outcome):
                return []
            return [block for row in rows for block in self._blocks(row, chosen)]

        return make

    def _blocks(self, row: Row, chosen: Filter) -> list[Block]:
        return [([make(row) for make in self._makers],)] if chosen.passes_row(row) else []

    def layout(self, screen: Screen) -> Layout:
        """Aligned in columns under a head."""

        heads = [grid_column(column) for column in self._columns]
        return Grid(heads, width=screen.width, is_coloured=screen.is_coloured)


class Trees:
    """Every frame with the byte range of each field."""

    of_rows: OfRows | None = None

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """A head line, the issues, and the trees of request and response."""
        from kwire.cli.decode_tree import tree_lines

        messages = Messages(file, options, chosen)

        def make(outcome: Outcome) -> list[Block]:
            """The lines of one outcome, if it is chosen."""
            row = messages.row(outcome)
            return [] if row is None else [list(tree_lines(outcome, row, messages.names, options, self._screen))]

        return make

    def layout(self, screen: Screen) -> Layout:
        """As they are: a value that was cut would be no value."""
        return Plain(screen)


class Packets:
    """What is said of the packets of an exchange: one line for its request, one for its response."""

    of_rows: OfRows | None = None

    def maker(self, file: str, options: Options, chosen: Filter) -> Maker:
        """The comments of the packets."""
        messages = Messages(file, options, chosen)

        def make(outcome: Outcome) -> list[Block]:
            """The comments of one outcome, if it is chosen."""
            row = messages.row(outcome)
            if row is None:
                return []
            name = api_text(row) or result_text(row)
            facts = [name, f"correlation id {row['correlation_id']}" if row["correlation_id"] is not None else ""]
            asked = [*facts, f"client {row['client_id']}" if row["client_id"] else ""]
            answered = [f"{name} response", latency_text(row), result_text(row)]
            lines = (", ".join(filter(None, each)) for each in (asked, answered))
            return [[(Cell(escape(line, limit=CELL_MAX)),) for line in lines]]

        return make

    def layout(self, screen: Screen) -> Layout:
        """As they are."""
        return Plain(Screen())
