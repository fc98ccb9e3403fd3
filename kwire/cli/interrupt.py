"""Handling of Ctrl-C as the end of an endless input: rows read until then are still printed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Within the context, the first Ctrl-C (or SIGTERM) requests a stop; a second one raises KeyboardInterrupt.

    The first one interrupts only `wait_for`, so that other work is completed.
    """

    def __init__(self, *, seconds: float | None = None) -> None:
        """`seconds`: request a stop after this time."""
        self.was_signalled = False
        self._is_waiting = False
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._old_handlers: dict[signal.Signals, object] = {}

    @property
    def is_requested(self) -> bool:
        """Whether a stop is requested."""
        return self.was_signalled or self.seconds_left == 0

    @property
    def seconds_left(self) -> float | None:
        """The remaining time; None without a limit."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0)

    def wait_for(self, work: Callable[[], T]) -> T | None:
        """The result of a blocking operation; None if a stop is requested before it ends."""
        if self.is_requested:
            return None
        try:
            self._is_waiting = True
            return work()
        except KeyboardInterrupt:
            return None
        finally:
            self._is_waiting = False

    def sleep(self, seconds: float) -> None:
        """Sleep, or wait until a stop is requested."""
        remaining = self.seconds_left
        self.wait_for(lambda: time.sleep(seconds if remaining is None else min(seconds, remaining)))

    def __enter__(self) -> Self:
        # Only the main thread can set signal handlers; Ctrl-C is delivered to it only.
        if threading.current_thread() is threading.main_thread():
            self._old_handlers = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        was_signalled, self.was_signalled = self.was_signalled, True
        if self._is_waiting or was_signalled:
            raise KeyboardInterrupt
