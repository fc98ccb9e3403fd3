"""A progress line on stderr, which is overwritten in place and removed at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from kwire.cli.terminal import terminal_width, truncate

# Shorter work shows no progress.
_QUIET_SECONDS = 1.0
_REDRAW_SECONDS = 0.1
_CLEAR = "\r\x1b[K"
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class Progress:
    """Progress of one input of known size."""

    def __init__(self, label: str, total: int, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        """`label` is printable; `stream` is a terminal."""
        self._label = label
        self._total = max(total, 1)
        self._stream = stream
        self._clock = clock
        self._begin = clock()
        self._drawn = self._begin + _QUIET_SECONDS - _REDRAW_SECONDS
        self._is_shown = False
        self._count = self._unpacked = 0

    def update_unpacked(self, count: int, read: int | None = None) -> None:
        """Show that the input has expanded to `count` bytes so far. Args: read: how many are done, if that changed."""
        self._unpacked = count
        self.update(self._count if read is None else read)

    def update(self, count: int) -> None:
        """Show that `count` bytes are done."""
        self._count = count
        now = self._clock()
        if now - self._drawn < _REDRAW_SECONDS:
            return
        self._drawn = now
        self._is_shown = True
        width = terminal_width(self._stream) or 80
        self._stream.write(_CLEAR + truncate(self._text(count, now - self._begin), width - 1))
        self._stream.flush()

    def hide(self) -> None:
        """Remove the line, before other output or at the end."""
        if self._is_shown:
            self._is_shown = False
            self._stream.write(_CLEAR)
            self._stream.flush()

    def _text(self, count: int, seconds: float) -> str:
        part = min(count / self._total, 1.0)
        filled = round(part * 20)
        bar = "█" * filled + "░" * (20 - filled)
        rate = count / max(seconds, 0.001)
        remaining_s = (self._total - count) / rate if rate else 0
        counts = f"{part:4.0%}  {format_size(count)} of {format_size(self._total)}  {format_size(int(rate))}/s"
        # A small compressed file is read at once, long before all that is in it is.
        is_expanding = self._unpacked and count >= self._total
        remaining = "" if is_expanding else f"  {format_duration(remaining_s)} left"
        unpacked = f"  {format_size(self._unpacked)} unpacked" if self._unpacked else ""
        return f"{bar} {counts}{unpacked}{remaining}  {self._label}"


def format_size(count: int) -> str:
    """A number of bytes with a decimal unit."""
    value = float(count)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return ""


def format_duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours."""
    whole = max(int(seconds + 0.5), 0)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60}:{whole % 60:02} min" if whole < 3600 else f"{whole // 3600}:{whole % 3600 // 60:02} h"
