"""Java's .properties syntax, for Kafka's server.properties files: their parser, and values of Python in this form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from mockbroker.config.keys import ConfigError

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in file order; the last value of a duplicate key is used, as in Java."""
    return dict(_parse_entry(line) for line in _logical_lines(text))


def format_value(name: str, value: object) -> str:
    """A value as in a server.properties file: Python's True becomes Kafka's true, a list has commas.

    Raises: ConfigError, without the value, for one that has no such form.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(format_value(name, part) for part in value)
    if isinstance(value, str | int | float | PurePath):
        return str(value)
    hint = "; leave it out for the default" if value is None else "; expected a text, a number, a boolean or a list"
    raise ConfigError(f"{name}: a value of the type {type(value).__name__}{hint}")


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
