"""Text that grows line by line, and names that do not clash."""

from __future__ import annotations

import builtins
import keyword
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

#: Names that generated functions use themselves, beside Python's own.
_TAKEN = {"data", "at", "end", "size", "tag", "tags", "parts", "view", "message", "known", "field_count", "previous"}
_RESERVED = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | _TAKEN

#: The width of the repository's lines.
WIDTH = 120


class Source:
    """Lines with an indentation that blocks raise for a while."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def __call__(self, line: str = "") -> None:
        """Append a line at the current indentation."""
        self.lines.append(" " * 4 * self.indent + line if line else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A head such as `if x:` and what stands indented under it."""
        self(head)
        self.indent += 1
        yield
        self.indent -= 1

    def text(self) -> str:
        """All lines, each with its newline."""
        return "".join(line + "\n" for line in self.lines)


class Names:
    """The local names of one function."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def new(self, wanted: str, owner: str = "") -> str:
        """The name wanted; with its owner's in front, or a number behind, when it is taken."""
        candidates = [wanted, f"{owner}_{wanted}" if owner else f"{wanted}_value"]
        candidates += [f"{candidates[-1]}{n}" for n in range(2, 100)]
        name = next(name for name in candidates if name not in self._used and name not in _RESERVED)
        self._used.add(name)
        return name


def singular(name: str) -> str:
    """What one of them is called: entries, entry; batches, batch; topics, topic."""
    if name.endswith("ies") and len(name) > 4:
        return name[:-3] + "y"
    if name.endswith(("ches", "shes", "xes", "sses")):
        return name[:-2]
    if name.endswith("s") and not name.endswith("ss"):
        return name[:-1]
    return name


def wrap(text: str, indent: int, first: str, rest: str) -> list[str]:
    """A paragraph broken to the width of the repository."""
    pad = " " * 4 * indent
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=pad + first,
        subsequent_indent=pad + rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fit(line: str) -> list[str]:
    """A line of code, broken inside its longest brackets when it is too wide."""
    if len(line) <= WIDTH:
        return [line]
    indent = len(line) - len(line.lstrip())
    target, equals, call = line.partition(" = ")
    if equals and "," in target and "(" not in target:
        # Many names on the left of an unpacking.
        return [*_broken(" " * indent + "(", target.strip().rstrip(","), f") = {call}", indent)]
    commas, start, end = max(_brackets(line), default=(0, 0, 0))
    if not commas:
        return _parenthesised(line, indent)
    return [*_broken(line[: start + 1], line[start + 1 : end], line[end:], indent)]


def _parenthesised(line: str, indent: int) -> list[str]:
    """A line whose brackets hold one expression, or that assigns one: the expression gets a line of its own."""
    head, equals, value = line.partition(" = ")
    if equals and "(" not in head:
        return [f"{head} = (", " " * (indent + 4) + value, " " * indent + ")"]
    head, bracket, value = line.partition("(")
    if bracket and value.endswith(")"):
        return [f"{head}(", " " * (indent + 4) + value[:-1], " " * indent + ")"]
    return [line]


def _broken(head: str, inside: str, tail: str, indent: int) -> Iterator[str]:
    yield head
    yield from textwrap.wrap(
        f"{inside},",
        WIDTH,
        initial_indent=" " * (indent + 4),
        subsequent_indent=" " * (indent + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield " " * indent + tail


def _brackets(line: str) -> list[tuple[int, int, int]]:
    """The pairs of round brackets around a plain list: how many commas it has itself, and where it starts and ends."""
    pairs = []
    opened: list[int] = []
    commas: list[int] = []
    for at, character in enumerate(line):
        if character in "([":
            opened.append(at)
            commas.append(0)
        elif character == "," and commas:
            commas[-1] += 1
        elif character in ")]" and opened:
            start, count = opened.pop(), commas.pop()
            inside = line[start + 1 : at]
            if character == ")" and count and " if " not in inside and " for " not in inside:
                pairs.append((count, start, at))
    return pairs
