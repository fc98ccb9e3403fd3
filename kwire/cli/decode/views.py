"""The views of ``kwire decode``: they convert outcomes to lines of cells, escaped for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from kwire.capture.kafka.exchange import Outcome
from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.reader import make_row_builder
from kwire.capture.rows.columns import level_columns
from kwire.capture.rows.exchange_summary import CELL_MAX
from kwire.capture.rows.json_lines import format_json_line
from kwire.capture.rows.message_rows import MessageRowBuilder
from kwire.capture.rows.reorder_buffer import LineFormat, TableLine
from kwire.cli.decode import cells
from kwire.cli.decode.message_rows import BODY_COLUMNS, MessageRows
from kwire.cli.decode.row_filter import RowFilter
from kwire.cli.table import Cell, Column, Line, TableLayout
from kwire.cli.terminal import Screen, paint
from kwire.escape import escape

#: The lines of one row.
Block = Sequence[Line]
BlockMaker = Callable[[Outcome], list[Block]]
RowBlocks = Callable[[Row, RowFilter], list[Block]]


class LineLayout(Protocol):
    """Formats lines as text."""

    def add(self, line: Line) -> Iterator[str]:
        """Add a line; yields the texts that can be printed now."""

    def add_prebuilt(self, lines: Sequence[str | TableLine]) -> Iterator[str]:
        """Add lines of `View.line_format`; yields the texts that can be printed now."""

    def flush(self, *, is_early: bool = False) -> Iterator[str]:
        """The texts of buffered lines; `is_early`: more lines will follow."""


class RowView(NamedTuple):
    """A view of message rows: the columns that it needs, and the conversion of a row."""

    columns: frozenset[str]
    blocks: RowBlocks


class View(Protocol):
    """A format for outcomes."""

    @property
    def row_view(self) -> RowView | None:
        """The view of message rows; None if whole exchanges are needed."""

    @property
    def line_format(self) -> LineFormat | None:
        """The format of complete exchanges that are read as lines; None for views without one."""

    def make_builder(self, file: str, options: Options, row_filter: RowFilter) -> BlockMaker:
        """A function that converts an outcome of a file to the lines of its rows."""

    def layout(self, screen: Screen) -> LineLayout:
        """The layout of the lines."""


class PlainLayout:
    """A layout without alignment: lines are printed immediately."""

    def __init__(self, screen: Screen) -> None:
        """Only the colours of the screen are used."""
        self._is_coloured = screen.is_coloured

    def add(self, line: Line) -> Iterator[str]:
        """The cells of the line, joined."""
        yield "".join(paint(cell.text, cell.style) if self._is_coloured else cell.text for cell in line)

    def add_prebuilt(self, lines: Sequence[str | TableLine]) -> Iterator[str]:
        """The lines, which are texts already."""
        return iter(map(str, lines))

    def flush(self, *, is_early: bool = False) -> Iterator[str]:
        """Nothing is buffered."""
        return iter(())


def _make_row_view(level: str, names: Sequence[str], blocks: RowBlocks) -> RowView | None:
    if level != "messages":
        return None
    return RowView(frozenset(names or [column.name for column in level_columns(level)]), blocks)


def _make_block_builder(
    level: str, file: str, options: Options, row_filter: RowFilter, blocks: RowBlocks
) -> BlockMaker:
    make_rows = make_row_builder(level, file, options)

    def make(outcome: Outcome) -> list[Block]:
        """The lines of rows that pass. Rows are built for every outcome, because any may contain topic names."""
        rows = make_rows(outcome)
        if not rows or not row_filter.passes(outcome):
            return []
        return [block for row in rows for block in blocks(row, row_filter)]

    return make


class JsonLinesView:
    """One JSON object for each row."""

    def __init__(self, level: str, names: Sequence[str] = ()) -> None:
        """`names`: the columns to show; all by default."""
        self._level = level
        self._names = names

    def make_builder(self, file: str, options: Options, row_filter: RowFilter) -> BlockMaker:
        """Build JSON lines of the rows of the level."""
        options = replace(options, bodies=not self._names or not BODY_COLUMNS.isdisjoint(self._names))
        if self._level == "messages":
            return self._messages(file, options, row_filter)
        return _make_block_builder(self._level, file, options, row_filter, self._blocks)

    def _messages(self, file: str, options: Options, row_filter: RowFilter) -> BlockMaker:
        """With a filter, bodies are rendered only for the rows that pass it."""
        bodies_later = options.bodies and row_filter.display_filter is not None
        messages = MessageRows(file, options, row_filter, bodies=options.bodies and not bodies_later)
        complete_rows = MessageRowBuilder(file, options, messages.names) if bodies_later else None

        def make(outcome: Outcome) -> list[Block]:
            """The line of an outcome, if it passes."""
            row = messages.row(outcome)
            if row is None:
                return []
            if complete_rows is not None:
                row = complete_rows.build_rows(outcome)[0]
            return [((Cell(format_json_line(row, "messages", self._names)),),)]

        return make

    @property
    def line_format(self) -> LineFormat | None:
        """JSON with the named columns, or all."""
        if self._level != "messages":
            return None
        return LineFormat(self._names or [column.name for column in level_columns("messages")])

    @property
    def row_view(self) -> RowView | None:
        """JSON lines need only rows."""
        return _make_row_view(self._level, self._names, self._blocks)

    def _blocks(self, row: Row, row_filter: RowFilter) -> list[Block]:
        return [((Cell(format_json_line(row, self._level, self._names)),),)] if row_filter.passes_row(row) else []

    def layout(self, screen: Screen) -> LineLayout:
        """Unaligned and without colours."""
        return PlainLayout(Screen())


class MessageTable:
    """One line for each message: time, connection, API, latency, result, and a summary."""

    row_view: RowView | None = None
    line_format: LineFormat | None = LineFormat(None)

    _HEADS = (
        Column("TIME", short=2),
        Column("CONNECTION", short=1, usual=31),
        Column("API", shrinks=((4, 21), (6, 12)), usual=22),
        Column("LATENCY", is_right=True, short=3, usual=10),
        Column("RESULT", shrinks=((3, 20), (6, 8)), usual=12),
        Column("SUMMARY", shrinks=((0, 60), (3, 36), (5, 24), (7, 8)), usual=40),
    )

    def __init__(self, screen: Screen) -> None:
        self._slow_us = screen.slow_us

    def make_builder(self, file: str, options: Options, row_filter: RowFilter) -> BlockMaker:
        """Build lines of the table."""
        messages = MessageRows(file, options, row_filter)

        def make(outcome: Outcome) -> list[Block]:
            """The line of one outcome, if it passes."""
            row = messages.row(outcome)
            if row is None:
                return []
            line = (
                cells.time_cell(row),
                cells.connection_cell(row),
                cells.api_cell(row),
                cells.latency_cell(row, outcome, self._slow_us),
                cells.result_cell(row),
                cells.summary_cell(outcome, row, messages.names),
            )
            return [([cell._replace(text=escape(cell.text, limit=CELL_MAX)) for cell in line],)]

        return make

    def layout(self, screen: Screen) -> LineLayout:
        """Aligned columns under a header."""
        build = partial(cells.line_cells, slow_us=self._slow_us)
        return TableLayout(self._HEADS, build_line=build, width=screen.width, is_coloured=screen.is_coloured)


class LevelTable:
    """The rows of any level, one line each, with selected columns."""

    line_format: LineFormat | None = None

    def __init__(self, level: str, names: Sequence[str] = ()) -> None:
        """`names`: the columns to show; by default those of general interest."""
        self._level = level
        self._columns = cells.shown_columns(level, names)
        self._makers = [cells.make_cell_builder(column) for column in self._columns]
        self.row_view = _make_row_view(level, [column.name for column in self._columns], self._blocks)

    def make_builder(self, file: str, options: Options, row_filter: RowFilter) -> BlockMaker:
        """Build lines of the table."""
        if self._level != "messages":
            return _make_block_builder(self._level, file, options, row_filter, self._blocks)
        # A filter may use the topics of a message, which are no column.
        messages = MessageRows(file, options, row_filter, bodies=options.bodies)

        def make(outcome: Outcome) -> list[Block]:
            """The line of an outcome, if it passes."""
            row = messages.row(outcome)
            return [] if row is None else [self._line(row)]

        return make

    def _blocks(self, row: Row, row_filter: RowFilter) -> list[Block]:
        return [self._line(row)] if row_filter.passes_row(row) else []

    def _line(self, row: Row) -> Block:
        return ([make(row) for make in self._makers],)

    def layout(self, screen: Screen) -> LineLayout:
        """Aligned columns under a header."""
        heads = [cells.table_column(column) for column in self._columns]
        return TableLayout(heads, width=screen.width, is_coloured=screen.is_coloured)


class TreeView:
    """Frames as trees with the byte range of each field."""

    row_view: RowView | None = None
    line_format: LineFormat | None = None

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def make_builder(self, file: str, options: Options, row_filter: RowFilter) -> BlockMaker:
        """Build a header line, the issues, and the trees of request and response."""
        from kwire.cli.decode.tree import tree_lines

        messages = MessageRows(file, options, row_filter)

        def make(outcome: Outcome) -> list[Block]:
            """The lines of one outcome, if it passes."""
            row = messages.row(outcome)
            return [] if row is None else [list(tree_lines(outcome, row, messages.names, options, self._screen))]

        return make

    def layout(self, screen: Screen) -> LineLayout:
        """Unaligned: values are never cut."""
        return PlainLayout(screen)


class PacketComments:
    """Comments on the packets of an exchange: one line for its request, one for its response."""

    row_view: RowView | None = None
    line_format: LineFormat | None = None

    def make_builder(self, file: str, options: Options, row_filter: RowFilter) -> BlockMaker:
        """Build the comments of the packets."""
        messages = MessageRows(file, options, row_filter)

        def make(outcome: Outcome) -> list[Block]:
            """The comments of one outcome, if it passes."""
            row = messages.row(outcome)
            if row is None:
                return []
            name = cells.api_text(row) or cells.result_text(row)
            correlation = "" if row["correlation_id"] is None else f"correlation id {row['correlation_id']}"
            request_parts = [name, correlation, f"client {row['client_id']}" if row["client_id"] else ""]
            response_parts = [f"{name} response", cells.latency_text(row), cells.result_text(row)]
            lines = (", ".join(filter(None, parts)) for parts in (request_parts, response_parts))
            return [[(Cell(escape(line, limit=CELL_MAX)),) for line in lines]]

        return make

    def layout(self, screen: Screen) -> LineLayout:
        """Unaligned."""
        return PlainLayout(Screen())
