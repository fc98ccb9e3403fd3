"""What a terminal can do: colours, its width, and how many of its columns a text takes.

Colours mean something and nothing is told by colour alone. They are the sixteen that every terminal has and lets its
user choose, so that they can be read on light and dark.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from typing import NamedTuple, TextIO

ALWAYS, AUTO, NEVER = "always", "auto", "never"
COLOUR_CHOICES = (AUTO, ALWAYS, NEVER)

#: Style -> the parameters of its escape sequence (ECMA-48, "select graphic rendition").
STYLES = {
    "": "",
    "head": "1",
    "dim": "2",
    "name": "36",
    "api": "1",
    "bad": "1;31",
    "warn": "33",
    "slow": "1;33",
    "good": "32",
}
_RESET = "\x1b[0m"
# Beyond it a line cannot be followed by the eye, and a hostile COLUMNS would cost memory.
_WIDTH_MAX = 10_000


class Screen(NamedTuple):
    """What lines are laid out for: `width` is None where there is no edge. `slow_us` is what counts as slow."""

    width: int | None = None
    is_coloured: bool = False
    slow_us: int = 100_000


def wants_colour(choice: str, stream: TextIO) -> bool:
    """Whether to colour what goes to the stream: `auto` asks the terminal, NO_COLOR (no-color.org) and TERM."""
    if choice != AUTO:
        return choice == ALWAYS
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO) -> bool:
    """Whether a person reads the stream as it comes; a closed stream is read by nobody."""
    return not stream.closed and stream.isatty()


def width_for(stream: TextIO) -> int | None:
    """How many columns a line may take; None where there is no edge, as in a file or a pipe."""
    if not is_terminal(stream):
        return None
    return min(max(shutil.get_terminal_size().columns, 20), _WIDTH_MAX)


def paint(text: str, style: str) -> str:
    """The text in a style."""
    codes = STYLES[style]
    return f"\x1b[{codes}m{text}{_RESET}" if codes and text else text


def width_of(text: str) -> int:
    """How many columns of a terminal a printable text takes: East Asian wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits with an ellipsis in its place."""
    if width_of(text) <= width:
        return text
    if text.isascii():
        return text[: max(width - 1, 0)] + ("…" if width else "")
    kept, taken = "", 0
    for character in text:
        taken += _width(character)
        if taken > width - 1:
            break
        kept += character
    return kept + ("…" if width else "")
