"""Matching expressions in time that grows with the text only, whatever the expression: all paths are walked at once.

Python's own `re` tries one path after the other, and a client could stop the broker with "(a+)+b".
"""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.state.regex_syntax import Assertion, Chars, Choice, Node, RegexError, Repeat, Sequence, parse

#: An expression that takes more steps than this is refused; it bounds the work for each character.
_PROGRAM_MAX = 2_000


@dataclass(slots=True)
class _Fork:
    """Go on at any of these steps."""

    targets: list[int]


_Step = Chars | Assertion | _Fork | None


class Pattern:
    """An expression made into steps; None is the last one.

    Raises: RegexError.
    """

    def __init__(self, text: str) -> None:
        self._steps: list[_Step] = []
        self._emit(parse(text))
        self._add(None)

    def matches(self, text: str) -> bool:
        """Say whether the expression matches the whole text."""
        alive = self._reachable({0}, text, 0)
        for position, char in enumerate(text):
            moved = {at + 1 for at in alive if isinstance(step := self._steps[at], Chars) and step.matches(char)}
            alive = self._reachable(moved, text, position + 1)
            if not alive:
                return False
        return len(self._steps) - 1 in alive

    def _reachable(self, starts: set[int], text: str, position: int) -> set[int]:
        """All steps that can be reached without reading a character."""
        seen = set(starts)
        waiting = list(starts)
        while waiting:
            at = waiting.pop()
            step = self._steps[at]
            if isinstance(step, _Fork):
                targets = step.targets
            elif isinstance(step, Assertion) and _holds(step.kind, text, position):
                targets = [at + 1]
            else:
                continue
            waiting += [target for target in targets if target not in seen]
            seen.update(targets)
        return seen

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= _PROGRAM_MAX:
            raise RegexError("too long an expression")
        self._steps.append(step)
        return len(self._steps) - 1

    def _emit(self, node: Node) -> None:
        if isinstance(node, Chars | Assertion):
            self._add(node)
        elif isinstance(node, Sequence):
            for part in node.parts:
                self._emit(part)
        elif isinstance(node, Choice):
            self._emit_choice(node)
        else:
            self._emit_repeat(node)

    def _emit_choice(self, node: Choice) -> None:
        fork = _Fork([])
        ends = _Fork([])
        self._add(fork)
        for part in node.parts:
            fork.targets.append(len(self._steps))
            self._emit(part)
            self._add(ends)
        ends.targets.append(len(self._steps))

    def _emit_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self._emit(node.part)
        if node.most is None:
            start = self._add(_Fork([]))
            self._emit(node.part)
            self._add(_Fork([start]))
            self._steps[start] = _Fork([start + 1, len(self._steps)])
            return
        exits = _Fork([])
        for _ in range(node.most - node.least):
            at = self._add(None)
            self._steps[at] = _Fork([at + 1, at + 1])
            exits.targets.append(at)
            self._emit(node.part)
        for at in exits.targets:
            self._steps[at] = _Fork([at + 1, len(self._steps)])


def _holds(kind: str, text: str, position: int) -> bool:
    if kind == "begin":
        return position == 0
    if kind == "end":
        return position == len(text)
    before, after = text[position - 1 : position] if position else "", text[position : position + 1]
    return (_is_word(before) != _is_word(after)) == (kind == "boundary")


def _is_word(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char == "_")
