"""`SlowClients`: the clients that do not read what was sent to them, and the limit of the memory that they hold.

A connection has one request at a time, and is not read while more than 64 KiB of its output is unsent. So a client that
does not read holds one response, which for Fetch and ShareFetch may have many megabytes. While all of them together
hold more than the limit, further Fetch and ShareFetch requests wait, as if they had not been read yet. A client that
reads nothing for `STALL_S` seconds in that time is closed, so that it cannot keep the others waiting. A request that
waited for records may be answered above the limit: then its connection is closed instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple, Protocol

from mockbroker.config.limits import QUEUED_BYTES

#: Seconds of the machine's clock.
STALL_S, _CHECK_S = 10.0, 1.0
_API_KEY = Struct(">h")
#: Fetch and ShareFetch, whose responses have records.
_LARGE_RESPONSES = frozenset({1, 78})


class SlowConnection(Protocol):
    """A connection whose client may not read. Implemented by `ClientConnection`."""

    id: int

    @property
    def unsent_bytes(self) -> int:
        """How much output the system has not accepted."""
        ...

    def reject(self, reason: str, *, is_abrupt: bool = False) -> None:
        """Close the connection for a reason that is logged."""


class _HeldFrame(NamedTuple):
    connection: SlowConnection
    frame: bytes
    arrived_ns: int


class SlowClients:
    """Which clients do not read, and the requests that wait until they do.

    limit: bytes of unsent output of all connections. submit: handles a frame. stall_s: seconds without progress.
    """

    def __init__(
        self, limit: int, submit: Callable[[SlowConnection, bytes, int], None], *, stall_s: float = STALL_S
    ) -> None:
        self._limit = limit
        self._submit = submit
        self._stall_s = stall_s
        # Their unsent bytes when they changed last, and the time.
        self._slow: dict[SlowConnection, tuple[int, float]] = {}
        self._held: deque[_HeldFrame] = deque()
        self._held_count_by_id: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: SlowConnection) -> None:
        """A client does not read fast enough: much of its output is unsent."""
        self._slow[connection] = (connection.unsent_bytes, _now_s())

    def discard(self, connection: SlowConnection, *, is_closed: bool = False) -> None:
        """A client reads again, or its connection has ended: requests of others may go on."""
        if is_closed and self._held_count_by_id.pop(connection.id, 0):
            self._held = deque(held for held in self._held if held.connection is not connection)
        if self._slow.pop(connection, None) is not None and self._held:
            self._release()

    def is_holding(self, connection: SlowConnection) -> bool:
        """Whether a request of this connection waits, so that nothing more is read from it."""
        return connection.id in self._held_count_by_id

    def hold(self, connection: SlowConnection, frame: bytes, arrived_ns: int) -> bool:
        """Keep a request back if it has to wait. Returns: whether it is kept, and is submitted later."""
        if not self._slow and not self._held:
            return False
        if not self.is_holding(connection):
            if len(frame) < _API_KEY.size or _API_KEY.unpack_from(frame)[0] not in _LARGE_RESPONSES:
                return False
            if self._unsent_bytes() <= self._limit:
                return False
        self._held.append(_HeldFrame(connection, frame, arrived_ns))
        self._held_count_by_id[connection.id] = self._held_count_by_id.get(connection.id, 0) + 1
        self._set_timer()
        return True

    def check_response(self, connection: SlowConnection) -> None:
        """Close a connection that got a large response while others hold more than the limit."""
        own = connection.unsent_bytes
        others = self._unsent_bytes() - (own if connection in self._slow else 0)
        if others > self._limit:
            connection.reject(self._describe(f"another response of {own:,} bytes is not kept"), is_abrupt=True)

    def close(self) -> None:
        """Drop what waits."""
        self._held.clear()
        self._held_count_by_id.clear()
        self._slow.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _unsent_bytes(self) -> int:
        return sum(connection.unsent_bytes for connection in self._slow)

    def _release(self) -> None:
        while self._held and self._unsent_bytes() <= self._limit:
            connection, frame, arrived_ns = self._held.popleft()
            left = self._held_count_by_id[connection.id] - 1
            if left:
                self._held_count_by_id[connection.id] = left
            else:
                del self._held_count_by_id[connection.id]
            self._submit(connection, frame, arrived_ns)

    def _set_timer(self) -> None:
        if self._timer is None:
            delay_s = min(_CHECK_S, self._stall_s)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._check_progress)

    def _check_progress(self) -> None:
        """Close the clients that have read nothing for too long, while requests of others wait."""
        self._timer = None
        now_s = _now_s()
        for connection, (size, since_s) in list(self._slow.items()):
            unsent = connection.unsent_bytes
            if unsent != size:
                self._slow[connection] = (unsent, now_s)
            elif now_s - since_s >= self._stall_s and self._held:
                why = f"this client has read nothing of {unsent:,} bytes for {self._stall_s:g} s"
                connection.reject(self._describe(why), is_abrupt=True)
        if self._held:
            self._set_timer()

    def _describe(self, why: str) -> str:
        return f"more bytes of responses wait for clients to read them than {QUEUED_BYTES}, {self._limit:,}: {why}"


def _now_s() -> float:
    return asyncio.get_running_loop().time()
