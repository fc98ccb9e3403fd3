"""Building blocks of sections: tables, and figures (a plot with its table)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kwire.report.markup import Markup, tag


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first `labels` columns are text, the others are numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot (None: nothing to draw) with a table of the same data, next to it or, if `is_wide`, below."""

    title: str
    note: str
    plot: Markup | None
    table: Table
    is_wide: bool = False
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the report; `anchor` is its id in the page, `short` its name in the navigation bar."""

    anchor: str
    title: str
    lead: str
    figures: Sequence[Figure]
    short: str = ""


def render_table(content: Table) -> Markup:
    """The table as HTML."""
    classes = [None if index < content.labels else "number" for index in range(len(content.head))]
    columns = zip(content.head, classes, strict=True)
    head = tag("tr", *(tag("th", name, scope="col", class_=class_) for name, class_ in columns))
    rows = [
        tag("tr", *(tag("td", cell, class_=class_) for cell, class_ in zip(row, classes, strict=True)))
        for row in content.rows
    ]
    return tag("table", tag("thead", head), tag("tbody", *rows))
