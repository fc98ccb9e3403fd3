"""`FailedComponents`: components whose deadlines fail by internal errors: they are tried again, later each time.

A deadline that fails and stays due would be due again at once: its cluster would do nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from mockbroker.engine.internal_errors import InternalErrors

#: How often what is due in a component is tried at one time: a timer that fails is removed, and others may follow it.
_TRIES_MAX = 5
#: How long a component that fails has to wait, milliseconds of the cluster's clock: twice as long after each failure.
_FIRST_MS, _LONGEST_MS = 1_000, 24 * 3_600_000


class Expiring(Protocol):
    """A component with deadlines."""

    def expire(self, *, now_ms: int) -> object:
        """Run what is due."""


class _Failure(msgspec.Struct):
    """A component that has failed, and until when it waits."""

    component: Expiring
    until_ms: int
    wait_ms: int


class FailedComponents(dict[int, _Failure]):
    """The components that wait after failures, by the ids of the objects."""

    def __init__(self, errors: InternalErrors) -> None:
        super().__init__()
        self._errors = errors

    def postpone(self, component: Expiring, due_ms: int | None) -> int | None:
        """When a component runs whose deadline is at a time."""
        failure = self.get(id(component)) if self else None
        return due_ms if failure is None or due_ms is None else max(due_ms, failure.until_ms)

    def expire(self, component: Expiring, where: str, *, now_ms: int) -> None:
        """Run what is due in a component, unless it waits. where: of what it is a part, for the log."""
        failure = self.get(id(component)) if self else None
        if failure is not None and failure.until_ms > now_ms:
            return
        for _ in range(_TRIES_MAX):
            try:
                component.expire(now_ms=now_ms)
            except Exception as error:
                self._errors.report(f"a deadline of {type(component).__name__} {where} at {now_ms} ms", error)
            else:
                if failure is not None:
                    del self[id(component)]
                return
        wait_ms = _FIRST_MS if failure is None else min(2 * failure.wait_ms, _LONGEST_MS)
        self[id(component)] = _Failure(component, now_ms + wait_ms, wait_ms)
