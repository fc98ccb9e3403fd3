r"""Regular expressions whose time grows with the text alone, whatever the pattern: Python's `re` may take for ever.

The text comes from the wire, so that somebody else may choose it. A pattern becomes a machine whose states are walked
all at once (Thompson's construction), and the sets of states met are remembered. What needs to look back or ahead
(`\1`, `(?=...)`, `\b`) is not in the language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kwire.capture.where.pattern_syntax import ANCHORS, ONE, REPEAT, SEQUENCE, Part, PatternError, parse

__all__ = ["Pattern", "PatternError"]

# Counted repetitions multiply; no pattern that a person writes comes near.
_STATES_MAX = 5_000
# What is remembered of walks; then it begins anew.
_STEPS_REMEMBERED = 20_000
_START, _FINISH = ANCHORS


class _State(NamedTuple):
    """`test` lets a character pass to `after`; without a test, `anchor` may bind the way on to a place in the text."""

    test: Callable[[str], bool] | None
    anchor: str
    after: list[int]


class Pattern:
    """A pattern that is searched for anywhere in a text."""

    def __init__(self, text: str) -> None:
        """Read the pattern.

        Raises: PatternError when it is not in the language.
        """
        self._states: list[_State] = []
        self._begin, self._end = self._built(parse(text))
        self._first = self._closure((self._begin,), is_start=True, is_end=False)
        self._again = self._closure((self._begin,), is_start=False, is_end=False)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def search(self, text: str) -> bool:
        """Whether the pattern is found."""
        now = self._first
        for character in text:
            if self._end in now:
                return True
            step = now, character
            found = self._steps.get(step)
            if found is None:
                if len(self._steps) >= _STEPS_REMEMBERED:
                    self._steps.clear()
                found = self._steps[step] = self._step(now, character)
            now = found
        return self._end in self._closure(now, is_start=not text, is_end=True)

    def _step(self, now: frozenset[int], character: str) -> frozenset[int]:
        reached: list[int] = []
        for number in now:
            state = self._states[number]
            if state.test is not None and state.test(character):
                reached += state.after
        # A search begins anew at every character.
        return self._closure(reached, is_start=False, is_end=False) | self._again

    def _closure(self, states: Iterable[int], *, is_start: bool, is_end: bool) -> frozenset[int]:
        """All states that are reached without a character."""
        seen = set(states)
        waiting = list(seen)
        while waiting:
            state = self._states[waiting.pop()]
            blocked = (state.anchor == _START and not is_start) or (state.anchor == _FINISH and not is_end)
            if state.test is not None or blocked:
                continue
            new = [each for each in state.after if each not in seen]
            seen.update(new)
            waiting += new
        return frozenset(seen)

    def _state(self, test: Callable[[str], bool] | None = None, anchor: str = "") -> int:
        if len(self._states) >= _STATES_MAX:
            raise PatternError("the pattern is too large: its counted repetitions multiply", 0)
        self._states.append(_State(test, anchor, []))
        return len(self._states) - 1

    def _built(self, part: Part) -> tuple[int, int]:
        """The first and the last state of a part."""
        if part.kind == REPEAT:
            return self._repeated(part)
        if part.kind == SEQUENCE:
            begin = end = self._state()
            for each in part.parts:
                first, last = self._built(each)
                self._states[end].after.append(first)
                end = last
            return begin, end
        begin = self._state(part.test, part.kind if part.kind in ANCHORS else "")
        end = self._state()
        if part.kind == ONE or part.kind in ANCHORS:
            self._states[begin].after.append(end)
        for each in part.parts:
            first, last = self._built(each)
            self._states[begin].after.append(first)
            self._states[last].after.append(end)
        return begin, end

    def _repeated(self, part: Part) -> tuple[int, int]:
        begin = end = self._state()
        least, most = part.least, part.most
        exits: list[int] = []
        for number in range(least if most is None else most):
            if number >= least:
                exits.append(end)
            first, last = self._built(part.parts[0])
            self._states[end].after.append(first)
            end = last
        if most is None:
            first, last = self._built(part.parts[0])
            self._states[end].after.append(first)
            self._states[last].after.append(end)
        final = self._state()
        for each in (*exits, end):
            self._states[each].after.append(final)
        return begin, final
