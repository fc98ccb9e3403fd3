"""Waiting for a state of the cluster: a check after each event of its loop, with a limit by the wall clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from mockbroker.server import Server

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: The default limit of a wait, seconds.
WAIT_TIMEOUT_S = 10.0


class WaitTimeout(TimeoutError):
    """What a test waited for did not come within the limit; the message, and `seen`, say what there was instead."""

    __module__ = "mockbroker"

    def __init__(self, message: str, seen: str = "") -> None:
        super().__init__(message)
        self.seen = seen


class Wait(Protocol[T_co]):
    """What is waited for. Its methods run in the cluster's thread."""

    def check(self, server: Server) -> T_co | None:
        """The result, or None while it has not come. Raises: ValueError or KafkaError if it cannot come any more."""

    def expected(self) -> str:
        """What is waited for, as "group 'g' in state Stable"."""

    def seen(self, server: Server) -> str:
        """What there is instead."""


async def wait_in_loop(server: Server, make_wait: Callable[[Server], Wait[T]], timeout_s: float) -> T:
    """Wait in the cluster's event loop: check now, and after each event.

    An event is anything after which the network server sends output: frames, deadlines, closed connections, and calls
    of `Cluster`. Raises: WaitTimeout; what the check raises; RuntimeError if the cluster is stopped or reset meanwhile.
    """
    if timeout_s < 0:
        raise ValueError(f"timeout_s: {timeout_s}; a wait lasts 0 or more seconds")
    wait = make_wait(server)
    network, core = server.require_started(), server.core
    result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def check() -> None:
        if result.done():
            return
        try:
            if network.is_stopped or server.core is not core:
                end = "stopped" if network.is_stopped else "reset"
                raise RuntimeError(f"the cluster was {end} during a wait for {wait.expected()}")
            value = wait.check(server)
        except Exception as error:
            result.set_exception(error)
        else:
            if value is not None:
                result.set_result(value)

    network.watchers.add(check)
    try:
        check()
        async with asyncio.timeout(timeout_s):
            return await result
    except TimeoutError as error:
        if isinstance(error, WaitTimeout):
            raise
        seen = wait.seen(server)
        raise WaitTimeout(_describe_timeout(server, wait, seen, timeout_s), seen) from None
    finally:
        network.watchers.discard(check)


def _describe_timeout(server: Server, wait: Wait[object], seen: str, timeout_s: float) -> str:
    text = f"waited {timeout_s:g} s for {wait.expected()}; seen instead: {seen}"
    return f"{text} (the clock is frozen: only advance() moves it)" if server.clock.is_frozen else text
