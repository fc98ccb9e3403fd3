"""Steps of an event loop, for tests that wait for what it does next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def next_turn() -> None:
    """Let the event loop run once."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until a condition holds; the caller limits the time."""
    while not condition():
        await next_turn()
