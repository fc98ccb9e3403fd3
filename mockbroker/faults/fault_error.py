"""`FaultError`: a fault that cannot be, and suggestions for misspelt names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import msgspec

#: A message of msgspec with the path of the value.
_WITH_PATH = re.compile(r"(.*) - at `(\$.*)`", re.DOTALL)
#: How msgspec shows the key of an object whose keys are any texts, and what is no value in one.
_ANY_KEY = "[...]"
_NO_SCALARS = (dict, list, tuple, float)


class FaultError(ValueError):
    """A fault with an unknown name, a wrong value, or actions that exclude each other. The message says what works."""

    __module__ = "mockbroker"


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the most similar known name, or all of them."""
    names = sorted(known)
    by_lower_case = {known_name.lower(): known_name for known_name in names}
    matches = get_close_matches(name.lower(), by_lower_case, n=1)
    return f"did you mean {by_lower_case[matches[0]]!r}?" if matches else f"expected one of {', '.join(names)}"


def explain_wrong_json(error: msgspec.ValidationError, value: object, *kinds: type[msgspec.Struct]) -> FaultError:
    """The error for a wrong JSON form of these classes, with the path; for an unknown field with the most similar one.

    value: the whole form, which has the key where the error only says that it is one of an object.
    """
    match = _WITH_PATH.fullmatch(str(error))
    text, path = (match[1], match[2]) if match is not None else (str(error), "$")
    unknown = re.search(r"unknown field `([^`]*)`", text)
    if unknown is not None:
        names = {name for kind in kinds for name in kind.__struct_encode_fields__}
        text = f"{text}; {suggest(unknown[1], names)}"
    if path == "$":
        return FaultError(text)
    shown = ".".join(_find_keys(path, value)).replace(".[", "[")
    return FaultError(f"{shown}: {text[:1].lower()}{text[1:]}")


def _find_keys(path: str, value: object) -> Iterator[str]:
    """The parts of a path; of a key that the error does not name, the first one whose value is a wrong one."""
    for part in re.findall(r"\[[^\]]*\]|[^.\[\]]+", path.removeprefix("$")):
        key = part
        if part == _ANY_KEY and isinstance(value, dict):
            key = next((str(name) for name, item in value.items() if isinstance(item, _NO_SCALARS)), part)
        yield key
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list | tuple) and key[1:-1].isdigit():
            value = value[int(key[1:-1])]
