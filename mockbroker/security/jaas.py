"""Parser of JAAS configurations in one property: `Module flag name=value ...;`. Source: Kafka's JaasConfig.

The texts contain passwords: no error message here quotes a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mockbroker.config.broker_config import ConfigError

_FLAGS = ("required", "requisite", "sufficient", "optional")

#: As Kafka configures Java's StreamTokenizer: a word contains dots and digits, but begins with neither.
_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/|/[^\r\n]*)
      | (?P<word>[A-Za-z\x80-\uffff_$][A-Za-z\x80-\uffff_$0-9.\-]*)
      | "(?P<double>(?:[^"\\\r\n]|\\.)*)" | '(?P<single>(?:[^'\\\r\n]|\\.)*)'
      | (?P<number>-?[0-9.]+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_CONTROL_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LoginModule(NamedTuple):
    """One entry: a Java class name, and its options, which may be secret."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, ***)"


class _Token(NamedTuple):
    """A word or quoted text, or a punctuation character with `text` None."""

    text: str | None
    punctuation: str = ""


def parse_jaas(key: str, text: str) -> LoginModule:
    """Parse the single login module of a property.

    Raises: ConfigError that names the property, for any other text; values are not shown.
    """
    tokens = _tokenize(key, text)
    entries = [_parse_login_module(key, token, tokens) for token in tokens]
    if len(entries) != 1:
        raise ConfigError(f"{key}: has {len(entries)} login modules; it must have one")
    return entries[0]


def _parse_login_module(key: str, first: _Token, tokens: Iterator[_Token]) -> LoginModule:
    if first.text is None:
        raise ConfigError(f"{key}: begins with {first.punctuation!r} where a login module is expected")
    flag = next(tokens, _Token(None)).text
    if flag is None or flag.lower() not in _FLAGS:
        raise ConfigError(f"{key}: {first.text} is not followed by one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    for token in tokens:
        if token.punctuation == ";":
            return LoginModule(first.text, options)
        equals, value = next(tokens, _Token(None)), next(tokens, _Token(None))
        if token.text is None or equals.punctuation != "=" or value.text is None:
            raise ConfigError(
                f"{key}: option {token.text or token.punctuation!r} has no value; "
                "a value that does not begin with an alphabetic character must be quoted"
            )
        options[token.text] = value.text
    raise ConfigError(f"{key}: the login module does not end with a semicolon")


def _tokenize(key: str, text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind, text_part = match.lastgroup, match.group(match.lastgroup or 0)
        if kind == "blank":
            continue
        if kind == "word":
            yield _Token(text_part)
        elif kind in ("double", "single"):
            yield _Token(_ESCAPE.sub(_unescape, text_part))
        elif text_part in "\"'":
            raise ConfigError(f"{key}: unterminated quoted value")
        else:
            yield _Token(None, text_part if kind == "other" else "a number")


def _unescape(match: re.Match[str]) -> str:
    code: str = match.group(1)
    return chr(int(code, 8)) if code[0] in "01234567" else _CONTROL_CHARACTERS.get(code, code)
