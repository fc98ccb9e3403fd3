"""`SocketTransport`: a plain socket from which its protocol reads, and to which parts are written without joining them.

The transport of asyncio in CPython 3.11 joins the parts of `writelines`, and both that one and uvloop's read what has
come into memory that the protocol has to copy from, or without knowing how much belongs together. This one does
neither, in both event loops. TLS uses the transport of the event loop.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from mockbroker.engine.internal_errors import log_internal_error

#: How many parts one system call writes; Linux accepts up to 1,024.
_PARTS_MAX = 512
#: With more unsent bytes the protocol is asked to pause, and with fewer than the second to go on, as asyncio does.
_HIGH_WATER, _LOW_WATER = 64 << 10, 16 << 10
#: How much is read and dropped before a clean end: so many times this size, in bytes.
_DISCARDED_MAX, _DISCARDED_SIZE = 4, 64 << 10

Data = bytes | bytearray | memoryview


class SocketProtocol(asyncio.BaseProtocol):
    """The protocol of a `SocketTransport`, which calls it as asyncio's transports do, except for data."""

    def read_socket(self, sock: socket.socket) -> None:
        """Read once, or as far as one message goes. Raises: as `FrameAssembly.receive`."""


class SocketTransport(asyncio.Transport):
    """The transport of an accepted connection.

    sock: non-blocking, and closed by the transport. peer: the client's address.
    """

    def __init__(self, sock: socket.socket, peer: Any, protocol: SocketProtocol) -> None:
        super().__init__({"socket": sock, "peername": peer, "sockname": sock.getsockname()})
        if sock.family != getattr(socket, "AF_UNIX", None):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._protocol = protocol
        self._unsent: deque[memoryview] = deque()
        self._unsent_size = 0
        self._is_reading = self._is_closing = self._is_lost = False
        self._is_paused_by_size = self._is_eof_pending = False
        protocol.connection_made(self)
        if not self._is_closing:
            self.resume_reading()

    def get_protocol(self) -> SocketProtocol:
        """The protocol, which stays the same."""
        return self._protocol

    def is_closing(self) -> bool:
        """Whether the connection is closed, or will be when its output is sent."""
        return self._is_closing

    def is_reading(self) -> bool:
        """Whether the protocol receives data."""
        return self._is_reading

    def pause_reading(self) -> None:
        """Leave data of the client to the system."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        """Receive data again."""
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._loop.add_reader(self._socket, self._read)

    def get_write_buffer_size(self) -> int:
        """The bytes that the system has not accepted yet."""
        return self._unsent_size

    def write(self, data: Data) -> None:
        """Send these bytes; they must not be changed afterwards."""
        if self._unsent or self._is_closing or self._is_eof_pending:
            self.writelines((data,))
            return
        sent = self._send((data,))
        if sent is not None and sent < len(data):
            self._keep_unsent([memoryview(data)[sent:]])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Send these parts in sequence; they must not be changed afterwards. After the end of the output: nothing."""
        if self._is_closing or self._is_eof_pending:
            return
        left: list[Any] = list(list_of_data)
        if not self._unsent and len(left) <= _PARTS_MAX:
            sent = self._send(left)
            if sent is None:
                return
            _drop_sent(left, sent)
        if left:
            self._keep_unsent(left)

    def _keep_unsent(self, left: list[Any]) -> None:
        was_empty = not self._unsent
        for part in left:
            view = memoryview(part)
            self._unsent.append(view)
            self._unsent_size += view.nbytes
        if was_empty:
            self._loop.add_writer(self._socket, self._write_unsent)
        if self._unsent_size > _HIGH_WATER and not self._is_paused_by_size:
            self._is_paused_by_size = True
            self._protocol.pause_writing()

    def can_write_eof(self) -> bool:
        """Always: TCP has half-closed connections."""
        return True

    def write_eof(self) -> None:
        """End the output after what is unsent, and read on."""
        if not self._is_closing and not self._is_eof_pending:
            self._is_eof_pending = True
            if not self._unsent:
                self._end_output()

    def close(self) -> None:
        """Close the connection when all output is sent; nothing is read any more."""
        if not self._is_closing:
            self.pause_reading()
            self._is_closing = True
            if not self._unsent:
                self._end_cleanly()

    def abort(self) -> None:
        """Close the connection now, without unsent output."""
        self._end(None)

    def _read(self) -> None:
        try:
            self._protocol.read_socket(self._socket)
        except (BlockingIOError, InterruptedError):
            return
        except EOFError:
            # Output that is left is sent before the end, as by asyncio for protocols that keep nothing open.
            self.close()
        except (ConnectionError, TimeoutError) as error:
            self._end(error)
        except Exception as error:
            log_internal_error(f"data of {self.get_extra_info('peername')}", error)
            self._end(None)

    def _send(self, parts: Sequence[Any]) -> int | None:
        """Returns: how many bytes the system has accepted; None when the connection has ended."""
        try:
            return self._socket.send(parts[0]) if len(parts) == 1 else self._socket.sendmsg(parts)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._end(error)
            return None

    def _write_unsent(self) -> None:
        parts = [self._unsent[at] for at in range(min(len(self._unsent), _PARTS_MAX))]
        count = len(parts)
        sent = self._send(parts)
        if sent is None:
            return
        _drop_sent(parts, sent)
        for _ in range(count):
            self._unsent.popleft()
        self._unsent.extendleft(reversed(parts))
        self._unsent_size -= sent
        if self._is_paused_by_size and self._unsent_size <= _LOW_WATER:
            self._is_paused_by_size = False
            self._protocol.resume_writing()
        if not self._unsent and not self._is_lost:
            self._loop.remove_writer(self._socket)
            if self._is_closing:
                self._end_cleanly()
            elif self._is_eof_pending:
                self._end_output()

    def _end_output(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._end(error)

    def _end_cleanly(self) -> None:
        self._discard_received()
        self._end(None)

    def _end(self, error: OSError | None) -> None:
        """End the connection, and report it to the protocol in the next turn of the loop."""
        if self._is_lost:
            return
        self.pause_reading()
        if self._unsent:
            self._unsent.clear()
            self._unsent_size = 0
            self._loop.remove_writer(self._socket)
        self._is_closing = self._is_lost = True
        self._loop.call_soon(self._report_end, error)

    def _report_end(self, error: OSError | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.close()

    def _discard_received(self) -> None:
        """Read what has come: the system would send a reset for it, with which clients lose the output before it."""
        try:
            for _ in range(_DISCARDED_MAX):
                if not self._socket.recv(_DISCARDED_SIZE):
                    return
        except OSError:  # Nothing is left, or the connection has ended.
            return


def _drop_sent(parts: list[Any], sent: int) -> None:
    """Remove the first `sent` bytes from the parts."""
    done = 0
    while done < len(parts):
        size = memoryview(parts[done]).nbytes
        if sent < size:
            break
        sent -= size
        done += 1
    del parts[:done]
    if sent:
        parts[0] = memoryview(parts[0])[sent:]
