"""Text from the wire or from a file, made safe to print: it cannot move the cursor, colour, hide or break a line."""

from __future__ import annotations

import json

# Python calls a character printable when it is neither a control character, nor one that reorders or hides text
# (bidirectional overrides, zero-width characters: the "Trojan Source" trick), nor a lone surrogate, a line separator,
# an unassigned or private one, nor a space other than the plain one. Just those can be shown as they are.


def escape(text: str, *, limit: int | None = None) -> str:
    r"""The text with every character that could act on a terminal written as ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``.

    Args: limit: the longest text shown, in characters before escaping; the rest is cut and its length told.
    """
    cut = "" if limit is None or len(text) <= limit else f"... ({len(text) - limit} more characters)"
    shown = text if limit is None else text[:limit]
    if not shown.isprintable() or "\\" in shown:
        shown = "".join(map(_safe, shown))
    return shown + cut


def one_line(text: str) -> str:
    """A message for the terminal, on one line. Backslashes stay single, as it may hold text that is escaped already."""
    return text if text.isprintable() else "".join(map(_printable, text))


def safe_json(tree: object, *, indent: int | None = None) -> str:
    """JSON that is readable in every language and cannot act on a terminal: unsafe characters are JSON escapes."""
    text = json.dumps(tree, indent=indent, ensure_ascii=False)
    # Outside of strings JSON is printable ASCII and line breaks of its own making, so only strings can change here.
    return "".join(map(_json_safe, text)) if not text.replace("\n", "").isprintable() else text


def _json_safe(character: str) -> str:
    if character == "\n" or character.isprintable():
        return character
    # The one unprintable character that JSON leaves alone even when it writes ASCII.
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def _safe(character: str) -> str:
    # The backslash is doubled, so that what was escaped here cannot be mistaken for the same text sent on purpose.
    return "\\\\" if character == "\\" else _printable(character)


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
