"""Kafka's form of a JAAS configuration in one property: `Module flag name=value ...;`. Source: Kafka's JaasConfig.

The texts hold passwords: no message here quotes a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mockbroker.config import ConfigError

_FLAGS = ("required", "requisite", "sufficient", "optional")

#: As Java's StreamTokenizer is set up there: a word holds dots and digits, but begins with neither.
_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/|/[^\r\n]*)
      | (?P<word>[A-Za-z\x80-\uffff_$][A-Za-z\x80-\uffff_$0-9.\-]*)
      | "(?P<double>(?:[^"\\\r\n]|\\.)*)" | '(?P<single>(?:[^'\\\r\n]|\\.)*)'
      | (?P<number>-?[0-9.]+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LoginModule(NamedTuple):
    """One entry: a class of Java, and its options, which may be secret."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, ***)"


class _Token(NamedTuple):
    """A word or quoted text, or a sign with `text` None."""

    text: str | None
    sign: str = ""


def parse_jaas(key: str, text: str) -> LoginModule:
    """The one login module of a property.

    Raises: ConfigError that names the property, when the text is anything else; values are not shown.
    """
    tokens = _tokens(key, text)
    entries = []
    for token in tokens:
        entries.append(_entry(key, token, tokens))
    if len(entries) != 1:
        raise ConfigError(f"{key}: has {len(entries)} login modules; it must have one")
    return entries[0]


def _entry(key: str, first: _Token, tokens: Iterator[_Token]) -> LoginModule:
    if first.text is None:
        raise ConfigError(f"{key}: begins with {first.sign!r} where a login module should be")
    flag = next(tokens, _Token(None)).text
    if flag is None or flag.lower() not in _FLAGS:
        raise ConfigError(f"{key}: {first.text} is not followed by one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    for token in tokens:
        if token.sign == ";":
            return LoginModule(first.text, options)
        equals, value = next(tokens, _Token(None)), next(tokens, _Token(None))
        if token.text is None or equals.sign != "=" or value.text is None:
            raise ConfigError(
                f"{key}: option {token.text or token.sign!r} has no value; "
                "one that does not begin with a letter has to stand in quotes"
            )
        options[token.text] = value.text
    raise ConfigError(f"{key}: the login module does not end with a semicolon")


def _tokens(key: str, text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind, found = match.lastgroup, match.group(match.lastgroup or 0)
        if kind == "blank":
            continue
        if kind == "word":
            yield _Token(found)
        elif kind in ("double", "single"):
            yield _Token(_ESCAPE.sub(_plain, found))
        elif found in "\"'":
            raise ConfigError(f"{key}: a quoted value does not end")
        else:
            yield _Token(None, found if kind == "other" else "a number")


def _plain(match: re.Match[str]) -> str:
    code: str = match.group(1)
    return chr(int(code, 8)) if code[0] in "01234567" else _LETTERS.get(code, code)
