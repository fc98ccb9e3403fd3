"""Parser of Java's .properties syntax, for Kafka's server.properties files."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in file order; the last value of a duplicate key is used, as in Java."""
    return dict(_parse_entry(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; a line that ends in an odd number of backslashes continues in the next."""
    open_line = ""
    # Java ends lines at CR, LF or both; str.splitlines splits at more characters.
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANK)
        if not open_line and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            open_line += line[:-1]
            continue
        yield open_line + line
        open_line = ""
    if open_line:
        yield open_line


def _parse_entry(line: str) -> tuple[str, str]:
    """The key ends at the first unescaped blank, = or :; blanks around one separator are ignored."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_match, text)


def _unescape_match(match: re.Match[str]) -> str:
    code: str = match.group(1)
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
