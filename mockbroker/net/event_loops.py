"""The event loop of a cluster."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

from mockbroker.engine.internal_errors import log_internal_error
from mockbroker.log.subjects import SERVER


def new_event_loop() -> asyncio.AbstractEventLoop:
    """An event loop of uvloop if it is installed, else of asyncio."""
    if sys.platform != "win32":
        with suppress(ImportError):
            import uvloop

            return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def report_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log what an event loop would report by itself, as the exception of a task that nobody awaits."""
    loop.set_exception_handler(_report)


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, Exception):
        log_internal_error(f"the event loop ({context.get('message')})", error)
    else:
        SERVER.warning("the event loop reports: %(reason)s", reason=str(context.get("message")))
