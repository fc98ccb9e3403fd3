"""The end of a command by a signal: in order at the first one, at once at the next."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from types import FrameType

#: SIGHUP is that of a terminal that was closed: Kafka ends at it as well. Windows has none.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


def end_with_signals(ended: asyncio.Event) -> None:
    """Set the event at the first signal; after it, each of them ends the process as a program that handles none.

    A signal that the process ignores from its start on, as SIGHUP below `nohup`, stays ignored. The handlers are those
    of the process, not of the event loop: the second signal ends the process also while the loop is busy. Called in
    the main thread, in the event loop of `ended`.
    """
    loop = asyncio.get_running_loop()
    found = [number for number in (getattr(signal, name, None) for name in _NAMES) if number is not None]
    numbers = [number for number in found if signal.getsignal(number) is not signal.SIG_IGN]

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        with suppress(RuntimeError):  # The loop is closed: the process is ending.
            loop.call_soon_threadsafe(ended.set)

    for number in numbers:
        signal.signal(number, end)
