"""Tables of the generated pages: Markdown rows, version ranges, and the texts of the fields of rules."""

from __future__ import annotations

import re
from enum import Enum

import msgspec

_FIELD = re.compile(r"(\w+): (.*)")


def render_table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def version_range(versions: tuple[int, int]) -> str:
    """The text of a first and a last version: 0-4, or 0 for one version."""
    low, high = versions
    return str(low) if low == high else f"{low}-{high}"


def field_texts(rules: type[msgspec.Struct]) -> dict[str, str]:
    """The text of each field in the docstring of one subject's rules."""
    texts: dict[str, str] = {}
    name = ""
    for line in (rules.__doc__ or "").splitlines()[1:]:
        text = line.strip()
        field = _FIELD.fullmatch(text)
        if field is not None and field[1] in rules.__struct_fields__:
            name = field[1]
            texts[name] = field[2]
        elif text and name:
            texts[name] += f" {text}"
    return texts


def value_text(value: object) -> str:
    """The text of a rule's value."""
    if value is None or isinstance(value, (bool, type)):  # A class is the factory of what only some editions have.
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, frozenset):
        return ", ".join(f"`{item}`" for item in sorted(value))
    if isinstance(value, tuple):
        return ", ".join(str(item) or "none" for item in value)
    return str(value) or "none"
