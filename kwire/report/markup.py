"""Builder of HTML and SVG that escapes all text: every value that is not `Markup` is escaped."""

from __future__ import annotations

import html
import json

from kwire.escape import escape


class Markup(str):
    """A string that contains HTML or SVG."""

    __slots__ = ()


Child = Markup | str | int | None
EMPTY = frozenset({"circle", "line", "path", "rect", "br", "meta"})


def text(value: str) -> Markup:
    """Escape text from any source for an element or a quoted attribute; control characters are shown as escapes.

    Bidirectional overrides and control characters are harmless in HTML, but they would misrepresent a name.
    """
    return Markup(html.escape(escape(value)))


def tag(name: str, *children: Child, **attributes: str | int | float | None) -> Markup:
    """One element. In attribute names a last `_` is removed and other `_` become `-`; None omits it."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    """The children in sequence."""
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
