"""A TCP or TLS connection that sends bytes and receives complete frames; every wait has a deadline.

The socket does not block. Bytes are received while others are sent, so that client and broker never wait for each
other when the broker responds early.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable

from kwire.client.address import Address
from kwire.client.errors import ClientError, ConnectionClosed, ProtocolViolation, RequestTimedOut
from kwire.errors import InvalidLength
from kwire.frames import FrameReader

OnFrame = Callable[[bytes], None]

_CHUNK_BYTES = 1 << 18
_LONGEST_S = 1e6  # Eleven days; the system calls accept no infinity.


class Deadline:
    """A point on the monotonic clock, some seconds from now."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._at = time.monotonic() + min(timeout_s, _LONGEST_S)

    def left_s(self) -> float:
        """Seconds until then, never below zero."""
        return max(0.0, self._at - time.monotonic())


class Transport:
    """One connection. It is not for several threads at once.

    `on_frame` is called with every complete frame, without its length, in order. If it raises a ProtocolViolation, the
    connection is closed.
    """

    def __init__(self, connected: socket.socket, max_frame_bytes: int, on_frame: OnFrame) -> None:
        self._socket = connected
        self._socket.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(connected, selectors.EVENT_READ)
        self._frames = FrameReader(max_frame_bytes)
        self._on_frame = on_frame
        self._outgoing: deque[memoryview] = deque()
        self._read_for_write = False  # TLS may need the other direction first.
        self._write_for_read = False
        self._failure: ClientError | None = None

    def send(self, frame: bytes, deadline: Deadline) -> None:
        """Send the whole frame, and receive bytes in the meantime.

        Raises: RequestTimedOut; the next call then sends the rest. ConnectionClosed, ProtocolViolation.
        """
        self._outgoing.append(memoryview(frame))
        self._run_until(lambda: not self._outgoing, deadline, "sending the request")

    @property
    def failure(self) -> ClientError | None:
        """The error that ended the connection; None while it is open."""
        return self._failure

    def receive(self, ready: Callable[[], bool], deadline: Deadline) -> None:
        """Receive frames until `ready` returns True. Raises: RequestTimedOut, ConnectionClosed, ProtocolViolation."""
        self._run_until(ready, deadline, "waiting for the response")

    def close(self) -> None:
        """Close the connection; every call after it raises ConnectionClosed."""
        self._fail(ConnectionClosed("the client was closed"))

    def _run_until(self, done: Callable[[], bool], deadline: Deadline, activity: str) -> None:
        while not done():
            if self._failure is not None:
                raise self._failure
            try:
                progress = self._write_some() | self._read_some()
            except OSError as error:
                failure = ConnectionClosed(f"the connection broke: {error}")
                self._fail(failure)
                raise failure from error
            if self._failure is not None or done():
                continue
            # The deadline also applies while the broker keeps sending bytes.
            left_s = deadline.left_s()
            if not left_s:
                raise RequestTimedOut(f"no end after {deadline.timeout_s:.3g} s of {activity}")
            if not progress:
                self._wait(left_s)

    def _wait(self, left_s: float) -> None:
        needs_write = self._write_for_read or (bool(self._outgoing) and not self._read_for_write)
        self._selector.modify(self._socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if needs_write else 0))
        self._selector.select(left_s)

    def _write_some(self) -> bool:
        if not self._outgoing:
            return False
        try:
            sent = self._socket.send(self._outgoing[0])
        except (BlockingIOError, ssl.SSLWantWriteError):
            self._read_for_write = False
            return False
        except ssl.SSLWantReadError:
            self._read_for_write = True
            return False
        except OSError:
            # The broker may have responded before it closed: received bytes are read first, then the end of the stream.
            self._outgoing.clear()
            return True
        self._read_for_write = False
        rest = self._outgoing.popleft()[sent:]
        if rest:
            self._outgoing.appendleft(rest)
        return True

    def _read_some(self) -> bool:
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            self._write_for_read = False
            return False
        except ssl.SSLWantWriteError:
            self._write_for_read = True
            return False
        self._write_for_read = False
        if not data:
            self._fail(ConnectionClosed("the broker closed the connection"))
            return True
        try:
            self._frames.feed(data)
            for frame in self._frames:
                self._on_frame(frame)
        except InvalidLength as error:
            self._fail(ProtocolViolation(f"the received bytes are not a response: {error}"))
        except ProtocolViolation as error:
            self._fail(error)
        return True

    def _fail(self, failure: ClientError) -> None:
        if self._failure is None:
            self._failure = failure
            self._outgoing.clear()
            self._selector.close()
            self._socket.close()


def open_transport(
    address: Address, tls: ssl.SSLContext | None, max_frame_bytes: int, on_frame: OnFrame, deadline: Deadline
) -> Transport:
    """Open a connection to any of the addresses of the host name, with a TLS handshake if requested.

    Raises: RequestTimedOut; OSError with the reason, as ssl.SSLCertVerificationError.
    """
    try:
        plain = socket.create_connection(address, timeout=deadline.left_s() or 0.001)
    except TimeoutError:
        raise RequestTimedOut(f"no connection to {address} within {deadline.timeout_s:.3g} s") from None
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return Transport(plain, max_frame_bytes, on_frame)
        plain.settimeout(deadline.left_s() or 0.001)
        return Transport(tls.wrap_socket(plain, server_hostname=address.host), max_frame_bytes, on_frame)
    except TimeoutError:
        plain.close()
        raise RequestTimedOut(f"no TLS handshake with {address} within {deadline.timeout_s:.3g} s") from None
    except BaseException:
        plain.close()
        raise
