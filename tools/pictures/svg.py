"""Rendering of terminal output with colours as SVG: each text span at its columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape

from kwire.cli.terminal import text_width

_FONT_SIZE, _LINE, _COLUMN = 13, 19, 7.8
_PADDING = 16
_FONTS = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
_SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m")
# Colours for the codes of `kwire.cli.terminal` on white; the contrast of each is at least 4.5.
_CLASSES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y", "36": "c"}
_CSS = (
    f"text{{font:{_FONT_SIZE}px {_FONTS};fill:#1f2328;white-space:pre}}"
    ".b{font-weight:700}.d{fill:#656d76}.r{fill:#cf222e}.g{fill:#1a7f37}.y{fill:#8a5a00}.c{fill:#0b6e74}"
)


class TextSpan(NamedTuple):
    """A text with one style, and the column where it begins."""

    column: int
    text: str
    classes: str


def draw(command: str, printed: str, comment: str) -> str:
    """The picture of a command and its output. `comment` becomes its first line."""
    lines = [f"\x1b[2m$\x1b[0m \x1b[1m{command}\x1b[0m", *printed.split("\n")]
    columns = max(sum(text_width(span.text) for span in text_spans(line)) for line in lines)
    width, height = round(columns * _COLUMN) + 2 * _PADDING, len(lines) * _LINE + 2 * _PADDING
    out = [
        f"<!-- {comment} -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        ' role="img">',
        f"<title>{escape(command)}</title>",
        f"<style>{_CSS}</style>",
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" fill="#fff" stroke="#d0d7de"/>',
    ]
    for number, line in enumerate(lines):
        out += _texts(line, _PADDING + number * _LINE + _FONT_SIZE)
    return "\n".join([*out, "</svg>", ""])


def text_spans(line: str) -> Iterator[TextSpan]:
    """The text spans of a line, without escape sequences."""
    column, classes = 0, ""
    for number, part in enumerate(_SEQUENCE.split(line)):
        if number % 2:
            classes = " ".join(_CLASSES[code] for code in part.split(";") if code in _CLASSES)
        elif part:
            yield TextSpan(column, part, classes)
            column += text_width(part)


def _texts(line: str, y: int) -> Iterator[str]:
    for column, text, classes in text_spans(line):
        # Each group of words is placed at its own column; wide gaps need no text.
        for word in re.finditer(r"\S+(?: \S+)*", text):
            x = _PADDING + (column + text_width(text[: word.start()])) * _COLUMN
            size = text_width(word[0]) * _COLUMN
            style = f' class="{classes}"' if classes else ""
            yield f'<text x="{x:.1f}" y="{y}" textLength="{size:.1f}"{style}>{escape(word[0])}</text>'
