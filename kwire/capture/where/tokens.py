"""The words of a filter, each with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# No filter that a person writes is longer; a longer one is a mistake of the shell, as a file in its place.
TEXT_SIZE_MAX = 10_000

WORD, QUOTED, SIGN, END = "word", "quoted", "sign", "end"

_SIGNS = ("==", "!=", "<=", ">=", "!~", "&&", "||", "=", "<", ">", "~", "!", "(", ")", ",")
_WORD = re.compile(r"""[^\s()=!<>~,"'&|]+""")
_SPACE = re.compile(r"\s*")


class FilterError(ValueError):
    """A filter that cannot be understood. `at` and `size` are the place in `text` that it is about."""

    def __init__(self, what: str, text: str, at: int, size: int = 1) -> None:
        super().__init__(f"character {at + 1}: {what}")
        self.text = text
        self.at = at
        self.size = max(size, 1)


class Token(NamedTuple):
    """A word, a quoted text, a sign, or the end. `text` is without the quotes, `size` counts them."""

    kind: str
    text: str
    at: int
    size: int

    @property
    def keyword(self) -> str:
        """The word in lower case, empty for everything else: quoted text is never a keyword."""
        return self.text.lower() if self.kind == WORD else ""

    @property
    def shown(self) -> str:
        """The token as messages name it."""
        return "the end" if self.kind == END else repr(self.text)


def tokens(text: str) -> list[Token]:
    """All tokens, the end included.

    Raises: FilterError for what is no token.
    """
    if len(text) > TEXT_SIZE_MAX:
        raise FilterError(f"a filter has no more than {TEXT_SIZE_MAX} characters", text, TEXT_SIZE_MAX)
    return list(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    at = _after_space(text, 0)
    while at < len(text):
        token = _quoted(text, at) if text[at] in "\"'" else _plain(text, at)
        yield token
        at = _after_space(text, at + token.size)
    yield Token(END, "", len(text), 0)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _plain(text: str, at: int) -> Token:
    word = _WORD.match(text, at)
    if word is not None:
        return Token(WORD, word[0], at, len(word[0]))
    for sign in _SIGNS:
        if text.startswith(sign, at):
            return Token(SIGN, sign, at, len(sign))
    raise FilterError(f"{text[at]!r} means nothing here; 'and' is && and 'or' is ||, text goes in quotes", text, at)


def _quoted(text: str, at: int) -> Token:
    """Text in quotes of either kind; the quote itself is written twice, and a backslash is a backslash."""
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
