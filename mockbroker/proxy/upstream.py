"""`UpstreamConnection`: the connection to a broker that belongs to one connection of a client."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from kwire.errors import InvalidLength
from kwire.frames import FrameReader, encode_frame

#: The maximum size of a response, bytes.
RESPONSE_MAX = 256 << 20
_CONNECT_TIMEOUT_S = 10.0
#: How long a broker may take to answer the end of a TLS connection, seconds, and how long an aborted one to end.
_CLOSE_TIMEOUT_S, _ABORT_TIMEOUT_S = 1.0, 0.2


class Endpoint(NamedTuple):
    """A broker of the cluster behind the proxy. tls: None for a plain connection."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ForwardedRequest:
    """A request that was sent, or waits for its connection. response: the frame, once it has come.

    on_answer: is called once, when there is a response or the connection has failed.
    """

    def __init__(self, correlation_id: int, on_answer: Callable[[], None]) -> None:
        self.correlation_id = correlation_id
        self.on_answer = on_answer
        self.response: bytes | None = None


class UpstreamConnection(asyncio.Protocol):
    """Sends frames in order, and returns the responses in that order.

    failure: why it has ended, or None. on_end: is called when it ends, unless `close` was called. ended: is done when
    its socket is closed.
    """

    def __init__(self, endpoint: Endpoint, on_end: Callable[[], None]) -> None:
        self.endpoint = endpoint
        self.failure: str | None = None
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._pending: deque[ForwardedRequest] = deque()
        self._reader = FrameReader(RESPONSE_MAX)
        self._writable = True
        self._drained: list[Callable[[], None]] = []
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._connect())
        self._task.add_done_callback(self._on_connected)

    async def _connect(self) -> None:
        loop, endpoint = asyncio.get_running_loop(), self.endpoint
        host = endpoint.host if endpoint.tls is not None else None
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await loop.create_connection(
                    lambda: self, endpoint.host, endpoint.port, ssl=endpoint.tls, server_hostname=host
                )
        except TimeoutError:
            self._fail(f"no connection to {endpoint} within {_CONNECT_TIMEOUT_S:.0f} s")
        except OSError as error:
            self._fail(f"no connection to {endpoint}: {error}")

    def _on_connected(self, task: asyncio.Task[None]) -> None:
        if self._transport is None:
            self._set_ended()
        elif task.cancelled():
            # An event loop may have closed the socket without a call of `connection_lost`.
            self._transport.abort()
            self._set_ended()

    def _set_ended(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    @property
    def is_full(self) -> bool:
        """Whether the broker does not read: no more should be sent until it does."""
        return not self._writable

    def notify_drained(self, action: Callable[[], None]) -> None:
        """Call a function once the broker reads again, or the connection has ended."""
        self._drained.append(action)

    def send(self, frame: bytes, request: ForwardedRequest | None) -> None:
        """Send a frame without its length. request: is answered by the next response; None if there is none."""
        if request is not None:
            self._pending.append(request)
        data = encode_frame([frame])
        if self._transport is None:
            self._unsent.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """End the connection; nobody waits for its responses."""
        self._on_end = _do_nothing
        self._pending.clear()
        self._task.cancel()
        if self._transport is not None:
            self._transport.close()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, after `close`."""
        await wait_closed([self], grace_s=_CLOSE_TIMEOUT_S)

    def abort(self) -> None:
        """Close the socket without the output that is left."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open, after the TLS handshake if there is one."""
        self._transport = cast(asyncio.Transport, transport)
        if self.ended.done():  # It was closed meanwhile.
            self._transport.abort()
            return
        for data in self._unsent:
            self._transport.write(data)
        self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        """Split the bytes into responses."""
        self._reader.feed(data)
        try:
            for frame in self._reader:
                self._answer(bytes(frame))
        except InvalidLength as error:
            self._fail(f"{self.endpoint} sent no response: {error}")

    def _answer(self, frame: bytes) -> None:
        if self.failure is not None:
            return
        request = self._pending.popleft() if self._pending else None
        if request is None or frame[:4] != request.correlation_id.to_bytes(4, "big"):
            if request is not None:
                self._pending.appendleft(request)
            self._fail(f"{self.endpoint} sent a response that belongs to no request")
            return
        request.response = frame
        request.on_answer()

    def pause_writing(self) -> None:
        """The broker does not read."""
        self._writable = False

    def resume_writing(self) -> None:
        """The broker reads again."""
        self._writable = True
        self._notify()

    def connection_lost(self, exc: Exception | None) -> None:
        """The broker has closed the connection, or it was reset."""
        self._set_ended()
        self._fail(f"{self.endpoint} closed the connection" if exc is None else f"{self.endpoint}: {exc}")

    def _fail(self, reason: str) -> None:
        if self.failure is not None:
            return
        self.failure = reason
        if self._transport is not None:
            self._transport.abort()
        pending, self._pending = self._pending, deque()
        for request in pending:
            request.on_answer()
        self._writable = True
        self._notify()
        self._on_end()

    def _notify(self) -> None:
        drained, self._drained = self._drained, []
        for action in drained:
            action()


async def wait_closed(connections: Sequence[UpstreamConnection], *, grace_s: float) -> None:
    """Wait until the sockets of connections are closed, after `close`; after the grace they are aborted."""
    for limit_s in (grace_s, _ABORT_TIMEOUT_S):
        left = [connection for connection in connections if not connection.ended.done()]
        if not left:
            return
        await asyncio.wait([connection.ended for connection in left], timeout=limit_s)
        for connection in left:
            if not connection.ended.done():
                connection.abort()


def _do_nothing() -> None:
    """The end of a connection that was closed on purpose."""
