"""The end of a process with its standard input, as when the program that started it has ended."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress


def end_with_stdin(ended: asyncio.Event) -> None:
    """End the process when standard input is closed: the program that started it has ended, or wants it to end."""
    loop = asyncio.get_running_loop()

    def read_until_closed() -> None:
        with suppress(OSError):  # EIO of a terminal that is gone, EBADF without a standard input: closed too.
            while os.read(0, 4096):
                pass
        with suppress(RuntimeError):  # The loop is closed: the process is ending.
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=read_until_closed, name="mockbroker-stdin", daemon=True).start()
