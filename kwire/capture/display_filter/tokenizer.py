"""Splits the text of a display filter into tokens with positions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# No useful filter is longer; a longer one is a mistake, as a file instead of the filter.
TEXT_SIZE_MAX = 10_000

WORD, QUOTED, SIGN, END = "word", "quoted", "sign", "end"

_SIGNS = ("==", "!=", "<=", ">=", "!~", "&&", "||", "=", "<", ">", "~", "!", "(", ")", ",")
_WORD = re.compile(r"""[^\s()=!<>~,"'&|]+""")
_SPACE = re.compile(r"\s*")


class FilterError(ValueError):
    """A display filter with a syntax error. `at` and `size` are its position in `text`."""

    def __init__(self, message: str, text: str, at: int, size: int = 1) -> None:
        super().__init__(f"character {at + 1}: {message}")
        self.text = text
        self.at = at
        self.size = max(size, 1)


class Token(NamedTuple):
    """A word, quoted text, a sign or the end. `text` does not include the quotes, `size` does."""

    kind: str
    text: str
    at: int
    size: int

    @property
    def keyword(self) -> str:
        """The word in lower case; empty for other tokens, since quoted text is never a keyword."""
        return self.text.lower() if self.kind == WORD else ""

    @property
    def description(self) -> str:
        """The token in error messages."""
        return "the end" if self.kind == END else repr(self.text)


def tokenize(text: str) -> list[Token]:
    """All tokens, with an end token.

    Raises: FilterError for a character that is no token.
    """
    if len(text) > TEXT_SIZE_MAX:
        raise FilterError(f"a filter has no more than {TEXT_SIZE_MAX} characters", text, TEXT_SIZE_MAX)
    return list(_iter_tokens(text))


def _iter_tokens(text: str) -> Iterator[Token]:
    at = _skip_space(text, 0)
    while at < len(text):
        token = _read_quoted(text, at) if text[at] in "\"'" else _read_word_or_sign(text, at)
        yield token
        at = _skip_space(text, at + token.size)
    yield Token(END, "", len(text), 0)


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _read_word_or_sign(text: str, at: int) -> Token:
    word = _WORD.match(text, at)
    if word is not None:
        return Token(WORD, word[0], at, len(word[0]))
    for sign in _SIGNS:
        if text.startswith(sign, at):
            return Token(SIGN, sign, at, len(sign))
    message = f"{text[at]!r} is not a sign of filters; 'and' is && and 'or' is ||, put text in quotes"
    raise FilterError(message, text, at)


def _read_quoted(text: str, at: int) -> Token:
    """Text in single or double quotes. The quote itself is written twice; a backslash is not special."""
    quote = text[at]
    parts: list[str] = []
    begin = at + 1
    while True:
        end = text.find(quote, begin)
        if end < 0:
            raise FilterError(f"this quote is not closed: {quote} is missing", text, at, len(text) - at)
        parts.append(text[begin:end])
        if not text.startswith(quote, end + 1):
            return Token(QUOTED, quote.join(parts), at, end + 1 - at)
        begin = end + 2
