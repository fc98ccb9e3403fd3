"""What a section is made of: figures, each a plot with its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.spark import formats
from kwire.spark.markup import Markup, tag


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first `labels` columns are text, the others are numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing shown twice: as a plot (None: nothing to draw), and as a table beside it or, if wide, below."""

    title: str
    note: str
    plot: Markup | None
    table: Table
    is_wide: bool = False
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter of the report; `anchor` is its address in the page, `short` its name where there is little room."""

    anchor: str
    title: str
    lead: str
    figures: Sequence[Figure]
    short: str = ""


def table(content: Table) -> Markup:
    """The table as HTML, in a place of its own that scrolls when it is too wide."""
    head = tag(
        "tr",
        *(tag("th", name, scope="col", class_=_cell_class(index, content)) for index, name in enumerate(content.head)),
    )
    rows = [
        tag("tr", *(tag("td", cell, class_=_cell_class(index, content)) for index, cell in enumerate(row)))
        for row in content.rows
    ]
    return tag("table", tag("thead", head), tag("tbody", *rows))


def named(value: str | None) -> str:
    """A name from the wire; a dash where there is none."""
    return formats.name(value) if value else "-"


def number(value: int | None) -> str:
    """A count; a dash where it is not known."""
    return "-" if value is None else formats.count(value)


def plain(value: int | None) -> str:
    """A number that is a name, as an offset or an id: without separators, to be copied and searched for."""
    return "-" if value is None else str(value)


def span(us: int | None) -> str:
    """A length of time; a dash where it is not known."""
    return "-" if us is None else formats.span(us)


def clock(us: int | None) -> str:
    """A time of day; a dash where it is not known."""
    return "-" if us is None else formats.clock(us)


def place(topic: str | None, partition: int | None) -> str:
    """A partition as Kafka writes it."""
    return "-" if topic is None and partition is None else f"{named(topic)}-{plain(partition)}"


def _cell_class(index: int, content: Table) -> str | None:
    return None if index < content.labels else "number"
