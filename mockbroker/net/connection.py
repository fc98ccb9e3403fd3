"""One client connection: received bytes to frames, and frames to bytes."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from typing import TYPE_CHECKING, Protocol, cast

from mockbroker.engine.context import ANONYMOUS
from mockbroker.log.closed_connections import log_close
from mockbroker.net.acceptor import TlsOrPlainProtocol
from mockbroker.net.frame_assembly import FrameAssembly

if TYPE_CHECKING:
    from mockbroker.engine.core import Core
    from mockbroker.engine.output import Send, SendBytes
    from mockbroker.net.capture_tap import CaptureTap
    from mockbroker.net.frame_assembly import ReceiveAllowance
    from mockbroker.net.slow_clients import SlowClients

_LENGTH_SIZE = 4
#: Frames up to this size are accepted from every client, also before authentication.
_SMALL_FRAME_MAX = 1 << 16


def _guess_protocol(size: int) -> str:
    """What a client probably speaks whose first four bytes were read as this size of a frame."""
    first = (size & 0xFFFFFFFF).to_bytes(_LENGTH_SIZE, "big")
    if first[:2] == b"\x16\x03":
        return "; the client sent TLS, and the listener has none"
    return "; the client sent HTTP" if first in (b"GET ", b"HEAD", b"POST", b"PUT ") else ""


class ConnectionServer(Protocol):
    """What a connection requires of the server that accepted it. Implemented by `NetworkServer`."""

    core: Core
    frame_bytes_max: int
    receive_allowance: ReceiveAllowance
    slow_clients: SlowClients
    tls_buffer: memoryview
    tap: CaptureTap | None

    def add_connection(
        self, connection: ClientConnection, node_id: int, host: str, port: int, *, listener: str, principal: str
    ) -> int:
        """Register a connection. Returns: its number."""

    def remove_connection(self, connection: ClientConnection) -> None:
        """Remove a connection that has ended."""

    def submit(self, connection: ClientConnection, frame: bytes, arrived_ns: int) -> None:
        """Handle a complete frame."""

    def update_reading(self, connection: ClientConnection) -> None:
        """Resume or pause reading."""

    def map_certificate(self, certificate: bytes, listener: str) -> str | None:
        """The principal of a client certificate, or None."""

    def report_error(self, what: str, error: Exception) -> None:
        """Log an internal error."""


class ClientConnection(TlsOrPlainProtocol):
    """The protocol object that asyncio calls; it holds bytes, never state of the cluster."""

    def __init__(self, server: ConnectionServer, node_id: int, listener: str, *, encrypted: bool) -> None:
        self._server = server
        self.node_id = node_id
        self._listener = listener
        self._encrypted = encrypted
        self._assembly = FrameAssembly(server.frame_bytes_max, self._accepts_size, server.receive_allowance)
        self._transport: asyncio.Transport | None = None
        self._writable = self.is_reading = True
        self._is_closed_by_server = self._is_closed_abruptly = False
        self.id = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, after the TLS handshake where there is one."""
        self._transport = cast(asyncio.Transport, transport)
        try:
            self._register(transport)
        except Exception as error:
            self._server.report_error(f"the start of a connection to node {self.node_id}", error)
            self.close(is_abrupt=True)

    def _register(self, transport: asyncio.BaseTransport) -> None:
        host, port = transport.get_extra_info("peername")[:2]
        principal = self._map_principal()
        if principal is None:
            self.reject("no rule of ssl.principal.mapping.rules matches the name in its certificate")
            return
        self.id = self._server.add_connection(
            self, self.node_id, host, port, listener=self._listener, principal=principal
        )
        tap = self._server.tap
        if tap is not None:
            local = tuple(transport.get_extra_info("sockname")[:2])
            tap.record_connection(self.id, (host, port), local, at_ns=time.time_ns(), encrypted=self._encrypted)

    def _map_principal(self) -> str | None:
        """The principal of the client's certificate; None if no mapping rule matches it."""
        assert self._transport is not None
        tls_object = self._transport.get_extra_info("ssl_object") if self._encrypted else None
        certificate = None if tls_object is None else tls_object.getpeercert(binary_form=True)
        return ANONYMOUS if certificate is None else self._server.map_certificate(certificate, self._listener)

    def read_socket(self, sock: socket.socket) -> None:
        """Receive from a plain socket, up to the end of one frame. Raises: as `FrameAssembly.receive`."""
        frame = self._assembly.receive(sock)
        if frame is None:
            return
        arrived_ns = time.time_ns()
        if self._server.tap is not None:
            data = len(frame).to_bytes(_LENGTH_SIZE, "big") + frame
            self._server.tap.record_received(self.id, data, at_ns=arrived_ns)
        self._server.submit(self, frame, arrived_ns)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where what the client has sent is decrypted."""
        # Not the buffer of one frame: the transport drops what one read leaves when the client ends.
        return self._server.tls_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypted bytes are in the buffer: submit the frames that they complete."""
        if not self.id:
            return
        arrived_ns = time.time_ns()
        source = self._server.tls_buffer[:nbytes]
        if self._server.tap is not None:
            self._server.tap.record_received(self.id, bytes(source), at_ns=arrived_ns)
        frames: list[bytes] = []
        while source and not self._is_closed_by_server:
            size = self._assembly.fill(source)
            source = source[size:]
            frame = self._assembly.advance(size)
            if frame is not None:
                frames.append(frame)
        for frame in frames:
            self._server.submit(self, frame, arrived_ns)

    def _accepts_size(self, size: int) -> bool:
        """Whether a frame may have this length; one that Kafka rejects ends the connection."""
        if not 0 <= size <= self._server.frame_bytes_max:
            limit = f"socket.request.max.bytes is {self._server.frame_bytes_max}"
            self.reject(f"a frame of {size} bytes; {limit}{_guess_protocol(size)}")
            return False
        if size > _SMALL_FRAME_MAX and not self._server.core.accepts_frame_size(self.id, size):
            self.reject(f"a frame of {size} bytes before authentication")
            return False
        return True

    def reject(self, reason: str, *, is_abrupt: bool = False) -> None:
        """Close the connection for a reason that the core does not handle, and log it. is_abrupt: as of `close`."""
        peer = self._transport.get_extra_info("peername") if self._transport else ("?", 0)
        log_close(self.node_id, peer[0], peer[1], reason)
        self.close(is_abrupt=is_abrupt)

    @property
    def unsent_bytes(self) -> int:
        """How much output the system has not accepted."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def send(self, output: Send) -> None:
        """Write a response to the socket, without a copy of its record batches, and set its departure time."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        parts, exchange = output.parts, output.exchange
        if len(parts) == 1:
            transport.write(len(parts[0]).to_bytes(_LENGTH_SIZE, "big") + parts[0])
        else:
            size = sum(map(len, parts))
            transport.writelines((size.to_bytes(_LENGTH_SIZE, "big") + parts[0], *parts[1:]))
        exchange.departed_ns = time.time_ns()
        if self._server.tap is not None:
            data = len(output.body).to_bytes(_LENGTH_SIZE, "big") + output.body
            self._server.tap.record_sent(self.id, data, at_ns=exchange.departed_ns, faults=exchange.faults)
        if not self._writable:
            self._server.slow_clients.check_response(self)

    def send_bytes(self, output: SendBytes) -> None:
        """Write a part of a frame, which a fault has made, to the socket."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write(output.data)
        exchange = output.exchange
        exchange.departed_ns = time.time_ns()
        if self._server.tap is not None:
            self._server.tap.record_sent(self.id, output.data, at_ns=exchange.departed_ns, faults=exchange.faults)

    def add_note(self, text: str) -> None:
        """Write a comment to the capture."""
        if self._server.tap is not None:
            self._server.tap.record_note(self.id, text, at_ns=time.time_ns())

    def set_reading(self, *, enabled: bool) -> None:
        """Resume or pause reading: frames behind a parked request wait unread in the operating system."""
        transport = self._transport
        is_reading = enabled and self._writable
        if is_reading == self.is_reading or transport is None or transport.is_closing():
            return
        self.is_reading = is_reading
        if is_reading:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def pause_writing(self) -> None:
        """The client does not read its responses: stop reading its requests."""
        self._writable = False
        self._server.slow_clients.add(self)
        self.set_reading(enabled=False)

    def resume_writing(self) -> None:
        """The client reads again: resume reading its requests."""
        self._writable = True
        self._server.update_reading(self)
        self._server.slow_clients.discard(self)

    def half_close(self) -> None:
        """Send a FIN after pending output, and read on; TLS has no such state, and closes."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
        else:
            self.close()

    def close(self, *, is_abrupt: bool = False, is_reset: bool = False) -> None:
        """Close the connection after pending output has been sent; abruptly: discard it; is_reset: by a TCP reset."""
        if self._transport is None:
            return
        self._is_closed_by_server, self._is_closed_abruptly = True, is_abrupt or is_reset
        if is_reset:
            # A linger time of zero makes the system send RST instead of FIN.
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self._is_closed_abruptly:
            self._transport.abort()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended, closed by either side."""
        if not self.id:
            return  # It was rejected before it was registered.
        try:
            self._record_end(exc)
        except Exception as error:
            self._server.report_error(f"the record of the end of connection {self.id}", error)
        self._server.remove_connection(self)

    def _record_end(self, exc: Exception | None) -> None:
        if self._server.tap is not None:
            if not self._encrypted and (partial := self._assembly.partial()):
                self._server.tap.record_received(self.id, partial, at_ns=time.time_ns())
            by_client = not self._is_closed_by_server
            self._server.tap.record_close(
                self.id, at_ns=time.time_ns(), by_client=by_client, is_abrupt=self._is_closed_abruptly
            )
        self._assembly.release()
        self._server.slow_clients.discard(self, is_closed=True)
        if exc is None and not self._is_closed_by_server:
            self._server.core.journal.record_client_end(self.id, time.time_ns())
