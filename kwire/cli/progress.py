"""How far a long work has come: one line on stderr that is written over, and gone when the work is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from kwire.cli.terminal import cut, width_for

# Work that is done sooner shows nothing.
_QUIET_SECONDS = 1.0
_REDRAW_SECONDS = 0.1
_CLEAR = "\r\x1b[K"
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class Progress:
    """Of one input of known size."""

    def __init__(self, label: str, total: int, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        """`label` is printable; `stream` is a terminal."""
        self._label = label
        self._total = max(total, 1)
        self._stream = stream
        self._clock = clock
        self._begin = clock()
        self._drawn = self._begin + _QUIET_SECONDS - _REDRAW_SECONDS
        self._is_shown = False

    def at(self, count: int) -> None:
        """So many bytes are done."""
        now = self._clock()
        if now - self._drawn < _REDRAW_SECONDS:
            return
        self._drawn = now
        self._is_shown = True
        width = width_for(self._stream) or 80
        self._stream.write(_CLEAR + cut(self._text(count, now - self._begin), width - 1))
        self._stream.flush()

    def hide(self) -> None:
        """Take the line away, since something else is to be printed or all is done."""
        if self._is_shown:
            self._is_shown = False
            self._stream.write(_CLEAR)
            self._stream.flush()

    def _text(self, count: int, seconds: float) -> str:
        part = min(count / self._total, 1.0)
        filled = round(part * 20)
        bar = "█" * filled + "░" * (20 - filled)
        rate = count / max(seconds, 0.001)
        left = (self._total - count) / rate if rate else 0
        done = f"{part:4.0%}  {size_text(count)} of {size_text(self._total)}  {size_text(int(rate))}/s"
        return f"{bar} {done}  {span_text(left)} left  {self._label}"


def size_text(count: int) -> str:
    """Bytes as people say them."""
    value = float(count)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return ""


def span_text(seconds: float) -> str:
    """A span of time as people say it."""
    whole = max(int(seconds + 0.5), 0)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60}:{whole % 60:02} min" if whole < 3600 else f"{whole // 3600}:{whole % 3600 // 60:02} h"
