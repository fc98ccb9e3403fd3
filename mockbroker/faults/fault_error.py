"""`FaultError`: a fault that cannot be, and suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class FaultError(ValueError):
    """A fault with an unknown name, a wrong value, or actions that exclude each other. The message says what works."""


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the most similar known name, or all of them."""
    names = sorted(known)
    by_lower_case = {known_name.lower(): known_name for known_name in names}
    matches = get_close_matches(name.lower(), by_lower_case, n=1)
    return f"did you mean {by_lower_case[matches[0]]!r}?" if matches else f"expected one of {', '.join(names)}"
