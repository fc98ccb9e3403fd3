"""`InternalErrors`: what becomes of an exception that no code expects, a defect of this project.

Where a cluster serves clients it ends only what caused it, a request or a deadline, and is logged once with its
context. Everywhere else, as in the simulator and in tests without sockets, it is raised. `collect_internal_errors`
finds both: tests, simulator, fuzzer and attacks fail by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mockbroker.log.subject_log import SubjectLog
from mockbroker.log.subjects import SERVER

_collections: list[list[str]] = []


@contextmanager
def collect_internal_errors() -> Iterator[list[str]]:
    """A list that gets a line for each internal error of the process, in any thread, until the block ends."""
    found: list[str] = []
    _collections.append(found)
    try:
        yield found
    finally:
        _collections[:] = [each for each in _collections if each is not found]


def _collect(what: str, error: Exception) -> None:
    for found in _collections:
        found.append(f"internal error in {what}: {error!r}")


def log_internal_error(what: str, error: Exception, log: SubjectLog = SERVER) -> None:
    """Log an internal error with its traceback. what: that was done, as "a request of connection 3"."""
    _collect(what, error)
    log.error("internal error in %(what)s: %(cause)s", error, what=what, cause=repr(error))


class InternalErrors:
    """The internal errors of one cluster. is_contained: whether they are logged, and not raised."""

    def __init__(self) -> None:
        self.is_contained = False

    def report(self, what: str, error: Exception) -> None:
        """Log an error of a request or deadline that has been ended for it. Raises: the error, unless contained."""
        if self.is_contained:
            log_internal_error(what, error)
            return
        _collect(what, error)
        raise error
