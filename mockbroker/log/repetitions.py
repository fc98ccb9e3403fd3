"""`Repetitions`: limits how often lines of one kind are logged, and counts those that are left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

#: The maximum number of lines of one kind in a window, and its length in seconds.
LINES_MAX, WINDOW_S = 10, 10.0
#: The maximum number of kinds that are counted each on its own; further ones are counted together.
KINDS_MAX = 256
_OTHERS = "\0"


class Line(Protocol):
    """A line that may be logged. Implemented by `mockbroker.log.subject_log.LogLine`."""

    def write_count(self, count: int, seconds: float) -> None:
        """Log that so many lines like this one were left out in so many seconds."""


class LineKind(NamedTuple):
    """The kind of a line: its logger, its text before fields are filled in, and what it is about."""

    logger: str
    template: str
    about: str


class _Window:
    """The lines of one kind since the first of them. omitted: how many were left out; last: the newest of those."""

    __slots__ = ("count", "last", "omitted", "started_s")

    def __init__(self, started_s: float) -> None:
        self.started_s = started_s
        self.count = self.omitted = 0
        self.last: Line | None = None


class Repetitions:
    """Decides which lines are logged: of each kind the first ones of a window, then their number.

    A number is logged with the first line of any kind after the window, and by `flush`. Used by all clusters of a
    process, in any thread. now_s: seconds of a clock that does not go back.
    """

    def __init__(
        self,
        *,
        lines_max: int = LINES_MAX,
        window_s: float = WINDOW_S,
        kinds_max: int = KINDS_MAX,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lines_max = lines_max
        self._window_s = window_s
        self._kinds_max = kinds_max
        self._now_s = now_s
        self._windows: dict[LineKind, _Window] = {}
        self._due_s = inf
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._windows)

    def admit(self, kind: LineKind, line: Line) -> bool:
        """Whether a line is to be logged now; numbers that are due are logged before it."""
        with self._lock:
            now_s = self._now_s()
            ended = self._take_ended(now_s) if now_s >= self._due_s else []
            window = self._find_window(kind, now_s)
            window.count += 1
            is_admitted = window.count <= self._lines_max
            if not is_admitted:
                window.omitted += 1
                window.last = line
                self._due_s = min(self._due_s, window.started_s + self._window_s)
        _write_counts(ended, now_s)
        return is_admitted

    def flush(self) -> None:
        """Log all numbers, and forget what was logged before: at the end of a cluster."""
        with self._lock:
            now_s = self._now_s()
            ended, self._windows, self._due_s = list(self._windows.values()), {}, inf
        _write_counts(ended, now_s)

    def _find_window(self, kind: LineKind, now_s: float) -> _Window:
        window = self._windows.get(kind)
        if window is None and len(self._windows) >= self._kinds_max:
            self._drop_ended(now_s)
            if len(self._windows) >= self._kinds_max:
                kind = kind._replace(about=_OTHERS)
                window = self._windows.get(kind)
        if window is None or now_s >= window.started_s + self._window_s:
            window = self._windows[kind] = _Window(now_s)
        return window

    def _take_ended(self, now_s: float) -> list[_Window]:
        """Remove the windows that have ended, and return those with lines that were left out."""
        ended = [window for window in self._windows.values() if window.omitted and self._has_ended(window, now_s)]
        self._drop_ended(now_s)
        self._due_s = min((w.started_s + self._window_s for w in self._windows.values() if w.omitted), default=inf)
        return ended

    def _drop_ended(self, now_s: float) -> None:
        """Remove the windows that have ended; their numbers must have been taken."""
        self._windows = {kind: window for kind, window in self._windows.items() if not self._has_ended(window, now_s)}

    def _has_ended(self, window: _Window, now_s: float) -> bool:
        return now_s >= window.started_s + self._window_s


def _write_counts(windows: list[_Window], now_s: float) -> None:
    for window in windows:
        if window.last is not None:
            window.last.write_count(window.omitted, now_s - window.started_s)


#: Those of this process.
REPETITIONS = Repetitions()
