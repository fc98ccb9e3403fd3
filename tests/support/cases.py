"""Many small cases in one test, without what pytest spends on each test; a failure names its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Case = TypeVar("Case")


def check_cases(cases: Iterable[Case], check: Callable[[Case], object]) -> None:
    """Check every case, also after one that fails.

    Raises: ExceptionGroup of what the checks raised, each with its case as a note; AssertionError without any case.
    """
    failures, count = [], 0
    for case in cases:
        count += 1
        try:
            check(case)
        except Exception as error:
            error.add_note(f"case: {case}")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} cases fail", failures)
    assert count, "there are no cases"
