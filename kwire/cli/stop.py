"""Ctrl-C as the end of an input that has none: what came until then is still shown."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """While it is entered, the first Ctrl-C (or SIGTERM) asks the reader to end; a second one interrupts whatever runs.

    Only waiting is broken off by the first, so that no work is torn in the middle.
    """

    def __init__(self, *, seconds: float | None = None) -> None:
        """`seconds`: when to end in any case."""
        self.was_signalled = False
        self._is_waiting = False
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._before: dict[signal.Signals, object] = {}

    @property
    def is_asked(self) -> bool:
        """Whether it is time to end."""
        return self.was_signalled or self.seconds_left == 0

    @property
    def seconds_left(self) -> float | None:
        """How long there still is; None without a limit."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0)

    def waiting(self, work: Callable[[], T]) -> T | None:
        """Do what waits for others; None when it is time to end instead."""
        if self.is_asked:
            return None
        try:
            self._is_waiting = True
            return work()
        except KeyboardInterrupt:
            return None
        finally:
            self._is_waiting = False

    def sleep(self, seconds: float) -> None:
        """Wait a moment, or until it is time to end."""
        left = self.seconds_left
        self.waiting(lambda: time.sleep(seconds if left is None else min(seconds, left)))

    def __enter__(self) -> Self:
        # Handlers can be set by the main thread only; anywhere else nobody presses Ctrl-C.
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._asked) for each in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)  # type: ignore[arg-type]

    def _asked(self, number: int, frame: FrameType | None) -> None:
        was_signalled, self.was_signalled = self.was_signalled, True
        if self._is_waiting or was_signalled:
            raise KeyboardInterrupt
