"""What all plots share: the drawing, its description for those who do not see it, the legend.

Places along the x axis are percentages, so that a plot keeps the size of its text at any width of the page.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.spark.markup import Markup, tag


def drawing(
    title: str, *parts: Markup, height: int, description: str | None = None, class_: str | None = None
) -> Markup:
    """An SVG as wide as its place, with a name and a description that screen readers tell."""
    about = f"{title} {description}" if description else title
    return tag("svg", *parts, class_=class_, role="img", aria_label=about, width="100%", height=height)


def percent(value: float) -> str:
    """A place or length along the x axis."""
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def anchor(index: int, count: int) -> str:
    """How the label of a tick is aligned, so that the first and the last one stay inside."""
    if index == 0:
        return "start"
    return "end" if index == count - 1 else "middle"


def legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """Names beside swatches of their colour."""
    items = [
        tag("li", _swatch(tag("rect", class_=class_, width=10, height=10, rx=2)), tag("span", name))
        for name, class_ in entries
    ]
    return tag("ul", *items, class_="legend")


def _swatch(mark: Markup) -> Markup:
    return tag("svg", mark, width=10, height=10, aria_hidden="true")
