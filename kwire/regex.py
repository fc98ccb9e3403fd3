"""Regular expressions in the language of RE2, whose time grows with the text alone, whatever the expression.

Kafka's brokers read theirs in the same language, and texts that come from the wire may be as bad as somebody likes:
Python's `re` could be kept busy for ever. Source: https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re2

#: A longer expression is refused before it is read.
LENGTH_MAX = 10_000


class PatternError(ValueError):
    """A text that is no expression of the language; `fragment` is the part at which that showed."""

    def __init__(self, what: str, fragment: str) -> None:
        super().__init__(f"{what}: {fragment}" if fragment else what)
        self.fragment = fragment


class Pattern:
    """An expression, read once.

    Raises: PatternError.
    """

    def __init__(self, text: str) -> None:
        import re2

        if len(text) > LENGTH_MAX:
            raise PatternError(f"an expression of more than {LENGTH_MAX} characters", "")
        try:
            self._compiled = re2.compile(text, _quiet())
        except re2.error as error:
            what, _, fragment = _text(error.args[0]).partition(": ")
            raise PatternError(what, fragment) from None
        except UnicodeEncodeError:
            raise PatternError("half of a surrogate pair", ascii(text)) from None

    def search(self, text: str) -> bool:
        """Whether the expression is found anywhere in the text."""
        return self._compiled.search(_utf8(text)) is not None

    def matches(self, text: str) -> bool:
        """Whether the whole text is what the expression says."""
        return self._compiled.fullmatch(_utf8(text)) is not None


@cache
def _quiet() -> re2.Options:
    """RE2 as it is, but that it writes nothing to stderr."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return options


def _utf8(text: str) -> str:
    """The text, with "?" for what UTF-8 cannot say: names of files may have such characters."""
    return text.encode(errors="replace").decode()


def _text(said: bytes | str) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
