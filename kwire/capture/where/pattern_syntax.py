r"""The syntax of patterns: a text becomes parts inside each other.

There are characters, `.`, `[a-z]` and `[^a-z]`, `\d \w \s \D \W \S`, `\n \t \r`, a backslash before a sign that means
itself, `( )` and `(?: )`, `|`, `* + ?` and `{2} {2,} {2,5}`, `^` and `$`, and `(?i)` at the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

ONE, SEQUENCE, CHOICE, REPEAT = "one", "sequence", "choice", "repeat"
ANCHORS = ("^", "$")

_REPEATS_MAX = 1_000
_DEPTH_MAX = 50

Test = Callable[[str], bool]


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


_SETS: dict[str, Test] = {
    "d": str.isdecimal,
    "w": _is_word,
    "s": str.isspace,
    "D": lambda each: not each.isdecimal(),
    "W": lambda each: not _is_word(each),
    "S": lambda each: not each.isspace(),
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


class PatternError(ValueError):
    """A pattern that is not in the language; `at` is the place in it."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.at = at


class Part(NamedTuple):
    """`test` is for one character, `parts` for all that holds others; an anchor has neither."""

    kind: str
    test: Test | None = None
    parts: tuple[Part, ...] = ()
    least: int = 1
    most: int | None = 1


def parse(text: str) -> Part:
    """The parts of a pattern.

    Raises: PatternError when it is not in the language.
    """
    any_case = text.startswith("(?i)")
    parser = _Parser(text, 4 if any_case else 0, any_case=any_case)
    whole = parser.choice()
    if parser.at < len(text):
        raise PatternError("this ) has no ( before it", parser.at)
    return whole


class _Parser:
    """Goes through the text once."""

    def __init__(self, text: str, at: int, *, any_case: bool) -> None:
        self.text = text
        self.at = at
        self._any_case = any_case
        self._depth = 0

    def choice(self) -> Part:
        """What stands between the bars."""
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Part(CHOICE, parts=tuple(parts))

    def _sequence(self) -> Part:
        parts: list[Part] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self._repeated())
        return Part(SEQUENCE, parts=tuple(parts))

    def _repeated(self) -> Part:
        part = self._single()
        times = self._times()
        if times is None:
            return part
        # With a question mark the shortest match is meant instead of the longest: both are in the same texts.
        self._take("?")
        if self._times() is not None:
            raise PatternError("a repetition cannot be repeated without ( )", self.at - 1)
        return Part(REPEAT, parts=(part,), least=times[0], most=times[1])

    def _times(self) -> tuple[int, int | None] | None:
        for sign, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return times
        at = self.at
        if not self._take("{"):
            return None
        end = self.text.find("}", at)
        low, comma, high = self.text[at + 1 : max(end, at)].partition(",")
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
            raise PatternError(r"{ begins a count, as {2}, {2,} or {2,5}; the sign itself is \{", at)
        least, most = int(low), int(high) if high else (None if comma else int(low))
        if max(least, most or 0) > _REPEATS_MAX or (most is not None and most < least):
            raise PatternError(f"counts go up to {_REPEATS_MAX}, the lesser one first", at)
        self.at = end + 1
        return least, most

    def _single(self) -> Part:
        at, character = self.at, self.text[self.at]
        self.at += 1
        if character in ANCHORS:
            return Part(character)
        if character == "(":
            return self._group(at)
        if character == "[":
            return Part(ONE, self._set(at))
        if character == "\\":
            return Part(ONE, self._escaped(at))
        if character in "*+?{":
            raise PatternError(f"there is nothing that {character} could repeat", at)
        return Part(ONE, _is_not_line_end if character == "." else self._is(character))

    def _group(self, at: int) -> Part:
        if not self._take("?:") and self.text.startswith("?", self.at):
            raise PatternError("of the groups with (? there are only (?: ) and, at the beginning, (?i)", at)
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise PatternError(f"more than {_DEPTH_MAX} groups are inside each other", at)
        inner = self.choice()
        self._depth -= 1
        if not self._take(")"):
            raise PatternError("this ( is not closed", at)
        return inner

    def _escaped(self, at: int) -> Test:
        """What stands behind a backslash."""
        character = self.text[self.at : self.at + 1]
        self.at += 1
        if character in _SETS and character:
            return _SETS[character]
        if character in _CONTROLS and character:
            return self._is(_CONTROLS[character])
        if not character or character.isalnum():
            raise PatternError(f"\\{character} is not among \\d \\w \\s \\D \\W \\S \\n \\t \\r and escaped signs", at)
        return self._is(character)

    def _set(self, at: int) -> Test:
        """The characters of `[...]`; a bracket that comes first means itself."""
        is_negative = self._take("^")
        tests: list[Test] = []
        while not tests or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise PatternError("this [ is not closed", at)
            tests.append(self._member())
        self.at += 1
        return lambda each: any(test(each) for test in tests) != is_negative

    def _member(self) -> Test:
        at, low = self.at, self.text[self.at]
        self.at += 1
        if low == "\\":
            return self._escaped(at)
        if not (self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in ("", "]")):
            return self._is(low)
        high = self.text[self.at + 1]
        self.at += 2
        if high == "\\" or high < low:
            raise PatternError(f"{low}-{high} is no range of characters", at)
        if self._any_case:
            return lambda each: any(low <= form <= high for form in (each, each.lower(), each.upper()))
        return lambda each: low <= each <= high

    def _is(self, character: str) -> Test:
        if self._any_case:
            forms = frozenset((character, character.lower(), character.upper()))
            return forms.__contains__
        return character.__eq__

    def _take(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True


def _is_not_line_end(character: str) -> bool:
    return character != "\n"
