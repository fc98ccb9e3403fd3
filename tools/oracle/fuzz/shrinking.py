"""Shrinks a script to the smallest one that still shows a difference."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

Json = Any
Script = dict[str, Json]
#: Whether a script still shows the difference.
Check = Callable[[Script], bool]

_CHECKS_MAX = 50
#: Without these a request would mean something else: their defaults are not usual values.
_KEPT_FIELDS = frozenset({"acks", "groupId", "rebalanceTimeoutMs", "replicaId", "sessionTimeoutMs", "timeoutMs"})


class CheckLimitReached(Exception):
    """No further script is tried."""


def shrink(
    script: Script, check: Check, *, is_plausible: Check = lambda script: True, checks_max: int = _CHECKS_MAX
) -> Script:
    """The smallest script found for which `check` is true; it is true for `script`.

    is_plausible: a fast check before `check`, for scripts with fewer steps. checks_max: calls of `check` at most.
    """
    shrinker = _Shrinker(script, check, is_plausible, checks_max)
    try:
        shrinker.remove_steps()
        shrinker.simplify_bodies()
        shrinker.remove_steps()
    except CheckLimitReached:
        pass
    return shrinker.script


class _Shrinker:
    def __init__(self, script: Script, check: Check, is_plausible: Check, checks_max: int) -> None:
        self.script = script
        self._check = check
        self._is_plausible = is_plausible
        self._checks_left = checks_max

    def remove_steps(self) -> None:
        """Leave out runs of steps before the last one, long runs first; a step is removed with the waits after it."""
        size = max(1, len(_units(self.script["steps"])) // 2)
        while size >= 1:
            end = len(_units(self.script["steps"])) - 1
            while end > 0:
                start = max(0, end - size)
                units = _units(self.script["steps"])
                steps = [step for unit in units[:start] + units[end:] for step in unit]
                self._try({**self.script, "steps": steps}, keeps_last_request=True)
                end = start
            size //= 2

    def simplify_bodies(self) -> None:
        """Leave out rows and fields, those of the last requests first."""
        for index in reversed(range(len(self.script["steps"]))):
            step = self.script["steps"][index]
            if "body" not in step or step.get("setup"):
                continue
            progress = True
            while progress:
                body = self.script["steps"][index]["body"]
                progress = any(self._try(self._with_body(index, smaller)) for smaller in smaller_trees(body))

    def _with_body(self, index: int, body: Json) -> Script:
        steps = list(self.script["steps"])
        steps[index] = {**steps[index], "body": body}
        return {**self.script, "steps": steps}

    def _try(self, script: Script, *, keeps_last_request: bool = False) -> bool:
        if keeps_last_request and not self._is_plausible(copy.deepcopy(script)):
            return False
        if self._checks_left <= 0:
            raise CheckLimitReached
        self._checks_left -= 1
        if not self._check(copy.deepcopy(script)):
            return False
        self.script = script
        return True


def _units(steps: list[Json]) -> list[list[Json]]:
    """The steps, each with the steps after it that wait for its effect."""
    units: list[list[Json]] = []
    for step in steps:
        if units and ("sleep_ms" in step or "until" in step):
            units[-1].append(step)
        else:
            units.append([step])
    return units


def smaller_trees(tree: Json) -> Iterator[Json]:
    """Copies of a body without one row of an array or one field."""
    if isinstance(tree, list):
        if len(tree) > 1:
            yield from (tree[:index] + tree[index + 1 :] for index in range(len(tree)))
        for index, row in enumerate(tree):
            yield from ([*tree[:index], smaller, *tree[index + 1 :]] for smaller in smaller_trees(row))
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if value not in ([], None, "", False) and key not in _KEPT_FIELDS:
                yield {name: other for name, other in tree.items() if name != key}
        for key, value in tree.items():
            if isinstance(value, list | dict):
                yield from ({**tree, key: smaller} for smaller in smaller_trees(value))
