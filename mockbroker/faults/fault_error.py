"""`FaultError`: a fault that cannot be, and suggestions for misspelt names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

import msgspec


class FaultError(ValueError):
    """A fault with an unknown name, a wrong value, or actions that exclude each other. The message says what works."""

    __module__ = "mockbroker"


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the most similar known name, or all of them."""
    names = sorted(known)
    by_lower_case = {known_name.lower(): known_name for known_name in names}
    matches = get_close_matches(name.lower(), by_lower_case, n=1)
    return f"did you mean {by_lower_case[matches[0]]!r}?" if matches else f"expected one of {', '.join(names)}"


def explain_wrong_json(error: msgspec.DecodeError, *kinds: type[msgspec.Struct]) -> FaultError:
    """The error for a wrong JSON form of these classes; for an unknown field with the most similar one."""
    unknown = re.search(r"unknown field `([^`]*)`", str(error))
    if unknown is None:
        return FaultError(f"{error}")
    return FaultError(
        f"{error}; {suggest(unknown[1], {name for kind in kinds for name in kind.__struct_encode_fields__})}"
    )
