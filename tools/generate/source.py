"""Source text that is built line by line, unique local names, and line breaking."""

from __future__ import annotations

import builtins
import keyword
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

#: Names that generated functions use themselves.
_USED_BY_FUNCTIONS = {
    *("data", "at", "end", "size", "tag", "tags", "parts", "view", "message", "known", "field_count", "previous")
}
_RESERVED = _USED_BY_FUNCTIONS.union(dir(builtins), keyword.kwlist, keyword.softkwlist)

#: The width of the repository's lines.
WIDTH = 120


class Source:
    """Lines of source text; blocks indent them."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def __call__(self, *lines: str) -> None:
        """Append lines at the current indentation."""
        self.lines += [" " * 4 * self.indent + line if line else "" for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A head such as `if x:`; lines that are added inside are indented."""
        self(head)
        self.indent += 1
        yield
        self.indent -= 1

    def add_block(self, head: str, *lines: str) -> None:
        """A head and all the lines of its block."""
        with self.block(head):
            self(*lines)

    def text(self) -> str:
        """All lines, each with its newline."""
        return "".join(line + "\n" for line in self.lines)


class Names:
    """The local names of one function."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def new_name(self, preferred: str, owner: str = "") -> str:
        """A name that is not in use: the preferred one, with its owner's in front, or with a number behind."""
        candidates = [preferred, f"{owner}_{preferred}" if owner else f"{preferred}_value"]
        candidates += [f"{candidates[-1]}{n}" for n in range(2, 100)]
        name = next(name for name in candidates if name not in self._used and name not in _RESERVED)
        self._used.add(name)
        return name


def singular_of(name: str) -> str:
    """The singular of a name: entries, entry; batches, batch; topics, topic."""
    if name.endswith("ies") and len(name) > 4:
        return name[:-3] + "y"
    if name.endswith(("ches", "shes", "xes", "sses")):
        return name[:-2]
    if name.endswith("s") and not name.endswith("ss"):
        return name[:-1]
    return name


def wrap_text(text: str, indent: int, first: str, rest: str) -> list[str]:
    """A paragraph broken to the width of the repository."""
    pad = " " * 4 * indent
    return _wrap(text, pad + first, pad + rest)


def _wrap(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def fit_line(line: str) -> list[str]:
    """A line of code, broken inside its longest brackets when it is too wide."""
    if len(line) <= WIDTH:
        return [line]
    indent = len(line) - len(line.lstrip())
    target, equals, call = line.partition(" = ")
    if equals and "," in target and "(" not in target:
        # Many names on the left of an unpacking.
        return [*_break_brackets(" " * indent + "(", target.strip().rstrip(","), f") = {call}", indent)]
    commas, start, end = max(_bracket_pairs(line), default=(0, 0, 0))
    if not commas:
        return _break_expression(line, indent)
    return [*_break_brackets(line[: start + 1], line[start + 1 : end], line[end:], indent)]


def _break_expression(line: str, indent: int) -> list[str]:
    """A line whose brackets hold one expression, or that assigns one: the expression goes on a separate line."""
    head, equals, value = line.partition(" = ")
    if equals and "(" not in head:
        return [f"{head} = (", " " * (indent + 4) + value, " " * indent + ")"]
    head, bracket, value = line.partition("(")
    if bracket and value.endswith(")"):
        return [f"{head}(", " " * (indent + 4) + value[:-1], " " * indent + ")"]
    return [line]


def _break_brackets(head: str, inside: str, tail: str, indent: int) -> Iterator[str]:
    pad = " " * (indent + 4)
    yield from (head, *_wrap(f"{inside},", pad, pad), " " * indent + tail)


def _bracket_pairs(line: str) -> list[tuple[int, int, int]]:
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
