"""The event loop of a cluster."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress


def new_event_loop() -> asyncio.AbstractEventLoop:
    """An event loop of uvloop if it is installed, else of asyncio."""
    if sys.platform != "win32":
        with suppress(ImportError):
            import uvloop

            return uvloop.new_event_loop()
    return asyncio.new_event_loop()
