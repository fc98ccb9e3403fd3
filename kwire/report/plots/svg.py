"""Shared parts of all plots: the SVG element with its description for screen readers, and the legend.

Positions along the x axis are percentages, so that text keeps its size at any width of the page.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.report.markup import Markup, tag


def draw_svg(title: str, *parts: Markup, height: int, description: str | None = None) -> Markup:
    """An SVG as wide as its container, with a name and a description for screen readers."""
    label = f"{title} {description}" if description else title
    return tag("svg", *parts, role="img", aria_label=label, width="100%", height=height)


def percent(value: float) -> str:
    """A position or length along the x axis."""
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def tick_anchor(index: int, count: int) -> str:
    """The alignment of a tick's label, so that the first and last one stay inside the plot."""
    if index == 0:
        return "start"
    return "end" if index == count - 1 else "middle"


def draw_legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """Names next to swatches of their colour."""
    items = []
    for name, class_ in entries:
        mark = tag("rect", class_=class_, width=10, height=10, rx=2)
        items.append(tag("li", tag("svg", mark, width=10, height=10, aria_hidden="true"), tag("span", name)))
    return tag("ul", *items, class_="legend")
