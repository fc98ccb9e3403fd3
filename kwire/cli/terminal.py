"""Terminal output: colours, the width of the terminal, and the display width of texts.

No information is given by colour alone. Only the sixteen colours are used that every terminal has and lets its user
choose, so that they are readable on light and dark backgrounds.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from typing import NamedTuple, TextIO

ALWAYS, AUTO, NEVER = "always", "auto", "never"
COLOUR_CHOICES = (AUTO, ALWAYS, NEVER)

#: Style -> the parameters of its escape sequence (ECMA-48, "select graphic rendition").
STYLES = {"": "", "head": "1", "dim": "2", "name": "36", "bad": "1;31", "warn": "33", "slow": "1;33"}
_RESET = "\x1b[0m"
# Longer lines are not readable, and an invalid COLUMNS would cost memory.
_WIDTH_MAX = 10_000


class Screen(NamedTuple):
    """The target of lines: `width` is None without a limit. `slow_us`: latencies from this on are marked as slow."""

    width: int | None = None
    is_coloured: bool = False
    slow_us: int = 100_000


def use_colour(choice: str, stream: TextIO) -> bool:
    """Whether to colour the stream: `auto` depends on the terminal, NO_COLOR (no-color.org) and TERM."""
    if choice != AUTO:
        return choice == ALWAYS
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal; a closed stream is none."""
    return not stream.closed and stream.isatty()


def terminal_width(stream: TextIO) -> int | None:
    """The number of columns of the terminal; None for a file or a pipe."""
    if not is_terminal(stream):
        return None
    return min(max(shutil.get_terminal_size().columns, 20), _WIDTH_MAX)


def paint(text: str, style: str) -> str:
    """The text with the escape sequences of a style."""
    codes = STYLES[style]
    return f"\x1b[{codes}m{text}{_RESET}" if codes and text else text


def text_width(text: str) -> int:
    """The display width of a printable text: East Asian wide characters take two columns, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def truncate(text: str, width: int) -> str:
    """The text, cut to `width` columns with an ellipsis at the end."""
    if text_width(text) <= width:
        return text
    if text.isascii():
        return text[: max(width - 1, 0)] + ("…" if width else "")
    prefix, used_width = "", 0
    for character in text:
        used_width += _character_width(character)
        if used_width > width - 1:
            break
        prefix += character
    return prefix + ("…" if width else "")
