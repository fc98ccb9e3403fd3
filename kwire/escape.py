"""Text from the wire or from a file, made safe to print: it cannot move the cursor, colour, hide or break a line."""

from __future__ import annotations

import json
import unicodedata

# Cc: terminal control characters. Cf: bidirectional overrides and zero-width characters, which reorder or hide what
# is shown (the "Trojan Source" trick). Cs: lone surrogates, which no output encoding takes. Zl, Zp: line breaks that
# some tools obey. Co and Cn have no agreed look. The plain space (Zs) stays.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def escape(text: str, *, limit: int | None = None) -> str:
    r"""The text with every character that could act on a terminal written as ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``.

    Args: limit: the longest text shown, in characters before escaping; the rest is cut and its length told.
    """
    cut = "" if limit is None or len(text) <= limit else f"... ({len(text) - limit} more characters)"
    shown = text if limit is None else text[:limit]
    if not shown.isascii() or not shown.isprintable() or "\\" in shown:
        shown = "".join(map(_safe, shown))
    return shown + cut


def one_line(text: str) -> str:
    """A message for the terminal, on one line. Backslashes stay single, as it may hold text that is escaped already."""
    return text if text.isascii() and text.isprintable() else "".join(map(_printable, text))


def safe_json(tree: object, *, indent: int | None = None) -> str:
    """JSON that is readable in every language and cannot act on a terminal: unsafe characters are JSON escapes."""
    text = json.dumps(tree, indent=indent, ensure_ascii=False)
    # Outside of strings JSON is printable ASCII and line breaks of its own making, so only strings can change here.
    return text if text.isascii() and "\x7f" not in text else "".join(map(_json_safe, text))


def _json_safe(character: str) -> str:
    if character == "\n" or unicodedata.category(character) not in _UNSAFE:
        return character
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def _safe(character: str) -> str:
    # The backslash is doubled, so that what was escaped here cannot be mistaken for the same text sent on purpose.
    return "\\\\" if character == "\\" else _printable(character)


def _printable(character: str) -> str:
    if unicodedata.category(character) in _UNSAFE:
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return character
