"""Building HTML and SVG so that text stays text: whatever is not `Markup` is escaped where it enters the page."""

from __future__ import annotations

import html
import json

from kwire.escape import escape


class Markup(str):
    """A string that is HTML or SVG already."""

    __slots__ = ()


Child = Markup | str | int | None
EMPTY = frozenset({"circle", "line", "path", "rect", "br", "meta"})


def text(value: str) -> Markup:
    """Text from anywhere, harmless in an element or a quoted attribute; what would act on the reader is spelled out.

    Bidirectional overrides and control characters are no danger to HTML, but they lie about what a name is.
    """
    return Markup(html.escape(escape(value)))


def tag(name: str, *children: Child, **attributes: str | int | float | None) -> Markup:
    """One element. Attribute names lose a last `_` and carry `-` for `_`; None leaves a child or an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """The children one after the other."""
    return Markup("".join(_child(child) for child in children if child is not None))


def data_island(tree: object) -> Markup:
    """JSON for a `<script type="application/json">`: no `<`, `>` or `&` is left that could end the element."""
    written = json.dumps(tree, ensure_ascii=True, separators=(",", ":"))
    return Markup(written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _child(child: Markup | str | int) -> str:
    return child if isinstance(child, Markup) else text(str(child))


def _attribute(value: str | int | float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value if isinstance(value, Markup) else text(str(value))
