"""One client connection: bytes to frames on the way in, frames to bytes on the way out."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, cast

from mockbroker.context import ANONYMOUS

if TYPE_CHECKING:
    from mockbroker.core import Send
    from mockbroker.net.shell import Shell

log = logging.getLogger(__name__)

_LENGTH_SIZE = 4
#: A body up to this size is joined with its length; a bigger one is written after it, uncopied.
_JOIN_MAX = 1 << 16


class ClientConnection(asyncio.Protocol):
    """The protocol object that asyncio calls; it holds bytes, never state of the cluster."""

    def __init__(self, shell: Shell, node_id: int, listener: str, *, encrypted: bool) -> None:
        self._shell = shell
        self._node_id = node_id
        self._listener = listener
        self._encrypted = encrypted
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._writable = True
        self._closes = self._closes_abruptly = False
        self.id = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, after the TLS handshake where there is one."""
        self._transport = cast(asyncio.Transport, transport)
        host, port = transport.get_extra_info("peername")[:2]
        principal = self._principal()
        if principal is None:
            self.refuse("no rule of ssl.principal.mapping.rules is for the name of its certificate")
            return
        self.id = self._shell.connected(self, self._node_id, host, port, listener=self._listener, principal=principal)
        if self._shell.tap is not None:
            local_host, local_port = transport.get_extra_info("sockname")[:2]
            self._shell.tap.connected(
                self.id, (host, port), (local_host, local_port), at_ns=time.time_ns(), encrypted=self._encrypted
            )

    def _principal(self) -> str | None:
        """Who the client is by its certificate; None for one that no rule lets in."""
        assert self._transport is not None
        secured = self._transport.get_extra_info("ssl_object") if self._encrypted else None
        certificate = None if secured is None else secured.getpeercert(binary_form=True)
        return ANONYMOUS if certificate is None else self._shell.principal_of(certificate, self._listener)

    def data_received(self, data: bytes) -> None:
        """Bytes came in; every frame that is whole goes to the core."""
        if not self.id:
            return
        arrived_ns = time.time_ns()
        if self._shell.tap is not None:
            self._shell.tap.received(self.id, data, at_ns=arrived_ns)
        self._buffer += data
        frames = self._whole_frames()
        if frames:
            self._shell.submit(self, frames, arrived_ns)

    def _whole_frames(self) -> list[bytes]:
        """Cut whole frames off the buffer; a length that Kafka refuses ends the connection."""
        buffer, at = self._buffer, 0
        frames: list[bytes] = []
        while len(buffer) - at >= _LENGTH_SIZE:
            size = int.from_bytes(buffer[at : at + _LENGTH_SIZE], "big", signed=True)
            if not 0 <= size <= self._shell.frame_bytes_max:
                self.refuse(f"a frame of {size} bytes; socket.request.max.bytes is {self._shell.frame_bytes_max}")
                return frames
            if size > _JOIN_MAX and not self._shell.core.takes(self.id, size):
                self.refuse(f"a frame of {size} bytes before authentication")
                return frames
            end = at + _LENGTH_SIZE + size
            if len(buffer) < end:
                break
            frames.append(bytes(memoryview(buffer)[at + _LENGTH_SIZE : end]))
            at = end
        if at:
            del buffer[:at]
        return frames

    def refuse(self, reason: str) -> None:
        """Close for a reason that the core never saw, with one line in the log."""
        peer = self._transport.get_extra_info("peername") if self._transport else ("?", 0)
        log.warning("node %d closes %s:%d: %s", self._node_id, peer[0], peer[1], reason)
        self._buffer.clear()
        self.close()

    def send(self, output: Send) -> None:
        """Hand a response to the operating system, and stamp its departure."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        body = output.body
        length = len(body).to_bytes(_LENGTH_SIZE, "big")
        if len(body) <= _JOIN_MAX:
            transport.write(length + body)
        else:
            transport.write(length)
            transport.write(body)
        output.exchange.departed_ns = time.time_ns()
        if self._shell.tap is not None:
            self._shell.tap.sent(self.id, length + body, at_ns=output.exchange.departed_ns)

    def set_reading(self, wanted: bool) -> None:
        """Read on, or leave bytes with the operating system: law 4, frames behind a parked one wait unread."""
        transport = self._transport
        if transport is None or transport.is_closing() or transport.is_reading() == (wanted and self._writable):
            return
        if wanted and self._writable:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def pause_writing(self) -> None:
        """The client does not read its answers: read no more of its requests."""
        self._writable = False
        self.set_reading(False)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._writable = True
        self._shell.settle(self)

    def close(self, *, is_abrupt: bool = False) -> None:
        """End the connection once what was written has left; abruptly, without waiting for that."""
        if self._transport is None:
            return
        self._closes, self._closes_abruptly = True, is_abrupt
        if is_abrupt:
            self._transport.abort()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, by whose will ever."""
        if not self.id:
            return  # It was never let in.
        if self._shell.tap is not None:
            self._shell.tap.closed(
                self.id, at_ns=time.time_ns(), by_client=not self._closes, is_abrupt=self._closes_abruptly
            )
        self._shell.disconnected(self)
