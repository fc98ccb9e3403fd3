"""All cases, found in the modules of `mockbroker.certify.cases`, and the selection by patterns."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from mockbroker.certify import cases
from mockbroker.certify.case import FAMILIES, Case


class NoSuchCase(ValueError):
    """A pattern that matches no case."""


def find_cases() -> list[Case]:
    """Every case, by family and id. Raises: ValueError for an id that stands twice."""
    found: dict[str, Case] = {}
    for module in _case_modules():
        for value in vars(importlib.import_module(module)).values():
            if not isinstance(value, Case) or value.function.__module__ != module:
                continue
            if found.setdefault(value.id, value) is not value:
                raise ValueError(
                    f"case id {value.id!r} stands twice: in {module} and {found[value.id].function.__module__}"
                )
    return sorted(found.values(), key=lambda case: (FAMILIES.index(case.family), case.id))


def _case_modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(cases.__path__, f"{cases.__name__}."):
        if not module.ispkg:
            yield module.name


def select_cases(all_cases: Sequence[Case], patterns: Iterable[str]) -> list[Case]:
    """The cases that match one of the patterns, `share.*`, `*.leader-moved`; a family stands for all its cases.

    Raises: NoSuchCase for a pattern without a match.
    """
    selected: set[str] = set()
    for pattern in patterns:
        whole = f"{pattern}.*"
        matched = [each.id for each in all_cases if fnmatchcase(each.id, pattern) or fnmatchcase(each.id, whole)]
        if not matched:
            nearest = get_close_matches(pattern, [each.id for each in all_cases], n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else "; --list shows the cases"
            raise NoSuchCase(f"no case matches {pattern!r}{hint}")
        selected.update(matched)
    return [each for each in all_cases if each.id in selected]
