"""The end of all connections of a server, in bounded time, whatever their clients do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.net.connection import ClientConnection

#: How long an aborted connection may take until the event loop reports its end, seconds: the loop does so in its next
#: turn, but may be busy with others.
_ABORT_S = 0.5
#: How often it is seen whether all have ended, seconds.
_INTERVAL_S = 0.01


async def end_connections(connections: Mapping[int, ClientConnection], *, grace_s: float) -> int:
    """Close connections when their output is sent, and abort those that are left after the grace.

    A client that reads nothing lets output wait for ever, and one that does not answer the end of TLS its connection.
    connections: the open ones by number, from which each is removed when it has ended.
    Returns: how many were aborted.
    """
    for connection in list(connections.values()):
        connection.close()
    await _wait_until_empty(connections, grace_s)
    aborted = list(connections.values())
    for connection in aborted:
        connection.close(is_abrupt=True)
    await _wait_until_empty(connections, _ABORT_S)
    return len(aborted)


async def _wait_until_empty(connections: Mapping[int, ClientConnection], limit_s: float) -> None:
    """Wait until no connection is open, or the limit has passed; one turn of the loop at least."""
    now_s = asyncio.get_running_loop().time
    until_s = now_s() + limit_s
    await asyncio.sleep(0)
    # What ends without its client is reported in the next turns.
    turns = 0
    while connections and now_s() < until_s:
        turns += 1
        await asyncio.sleep(0 if turns < 10 else min(_INTERVAL_S, limit_s))
