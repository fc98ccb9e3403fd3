"""Escaping of untrusted text for output: it cannot move the cursor, change colours, hide text or break a line."""

from __future__ import annotations

# For Python a character is printable when it is not a control character, does not reorder or hide text
# (bidirectional overrides, zero-width characters: the "Trojan Source" attack), and is not a lone surrogate, a line
# separator, an unassigned or private character, or a space other than U+0020. Only those are shown unchanged.


def escape(text: str, *, limit: int | None = None) -> str:
    r"""The text with every character that could act on a terminal written as ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``.

    Args: limit: the longest text shown, in characters before escaping; the rest is replaced by its length.
    """
    cut = "" if limit is None or len(text) <= limit else f"... ({len(text) - limit} more characters)"
    shown = text if limit is None else text[:limit]
    if not shown.isprintable() or "\\" in shown:
        shown = "".join(map(_escape_character, shown))
    return shown + cut


def one_line(text: str) -> str:
    """A message for the terminal, on one line. Backslashes are not doubled: it may hold escaped text."""
    return text if text.isprintable() else "".join(map(_escape_unprintable, text))


def printable_lines(text: str) -> str:
    """A text of several lines for the terminal, with each line as of `one_line`; a tab is four spaces."""
    return "\n".join(one_line(line.expandtabs(4)) for line in text.split("\n"))


def safe_json(tree: object, *, indent: int | None = None) -> str:
    """JSON that is readable in every language and cannot act on a terminal: unsafe characters are JSON escapes."""
    import json  # The log of mockbroker, which escapes every line, starts without it.

    text = json.dumps(tree, indent=indent, ensure_ascii=False)
    # Outside of strings JSON has only printable ASCII and its line breaks, so only strings can change here.
    return "".join(map(_escape_for_json, text)) if not text.replace("\n", "").isprintable() else text


def _escape_for_json(character: str) -> str:
    if character == "\n" or character.isprintable():
        return character
    # Characters beyond the first 65,536 are two UTF-16 units in JSON.
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _escape_character(character: str) -> str:
    # The backslash is doubled, so that escaped text is different from a text that contains the escape sequence.
    return "\\\\" if character == "\\" else _escape_unprintable(character)


def _escape_unprintable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
