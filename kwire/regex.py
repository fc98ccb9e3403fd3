"""Regular expressions in the syntax of RE2, which match in time linear in the length of the text.

Kafka's brokers use the same syntax. Expressions and texts from the wire may be hostile: Python's `re` could take
exponential time. Source: https://github.com/google/re2/wiki/Syntax.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re2

#: The longest expression that is accepted.
LENGTH_MAX = 10_000


class PatternError(ValueError):
    """A text that is not a valid expression; `fragment` is the invalid part."""

    def __init__(self, what: str, fragment: str) -> None:
        super().__init__(f"{what}: {fragment}" if fragment else what)
        self.fragment = fragment


class Pattern:
    """A compiled expression. Raises: PatternError."""

    def __init__(self, text: str) -> None:
        import re2

        if len(text) > LENGTH_MAX:
            raise PatternError(f"an expression of more than {LENGTH_MAX} characters", "")
        try:
            self._compiled = re2.compile(text, _quiet_options())
        except re2.error as error:
            what, _, fragment = _decode_text(error.args[0]).partition(": ")
            raise PatternError(what, fragment) from None
        except UnicodeEncodeError:
            raise PatternError("half of a surrogate pair", ascii(text)) from None

    def search(self, text: str) -> bool:
        """Whether the expression matches anywhere in the text."""
        return self._compiled.search(_to_utf8(text)) is not None

    def matches(self, text: str) -> bool:
        """Whether the expression matches the whole text."""
        return self._compiled.fullmatch(_to_utf8(text)) is not None


@cache
def _quiet_options() -> re2.Options:
    """The default options of RE2, without messages on stderr."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return options


def _to_utf8(text: str) -> str:
    """The text, with "?" for characters that UTF-8 cannot encode: names of files may have such characters."""
    return text.encode(errors="replace").decode()


def _decode_text(text: bytes | str) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
