"""`FrameAssembly`: the frames of one connection, received in place: the system writes into the object of each frame."""

from __future__ import annotations

import socket
from collections.abc import Callable
from io import BytesIO
from struct import Struct

_LENGTH_SIZE = 4
_LENGTH = Struct(">i")
#: Frames up to this size are read by one call that makes their object; if one comes in pieces, they are copied.
_SMALL_MAX = 4 << 10
#: How much memory all connections of a server together may have in advance of the bytes that come.
AHEAD_MAX = 64 << 20
#: The first part of a frame that is beyond that limit; each further part is as large as what has come.
_FIRST_PART = 4 << 10


class ReceiveAllowance:
    """The memory that the frames of a server may have before their bytes have come; counts bytes."""

    def __init__(self, limit: int = AHEAD_MAX) -> None:
        self.left = limit

    def take(self, size: int) -> bool:
        """Take the whole size of a frame. Returns: whether there was enough."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def give_back(self, size: int) -> None:
        """A frame is complete, or its connection has ended."""
        self.left += size


class FrameAssembly:
    """The frame that a connection receives: first its length, then its body, each in a buffer of that size.

    size_max: of the frames that are accepted. accepts_size: is called with the length of every frame but a small one,
    before any memory is allocated; after False, all further bytes are ignored. A frame gets its memory at once while
    `allowance` has enough; otherwise it grows with the bytes that come, so that a client has to send what it occupies.
    """

    # `BytesIO` is what lets a `bytes` object, which the decoders read, be written in place: `getbuffer` exposes it
    # while nothing else refers to it, and `getvalue` returns it without a copy when no view of it is left.

    def __init__(self, size_max: int, accepts_size: Callable[[int], bool], allowance: ReceiveAllowance) -> None:
        self._small_max = min(size_max, _SMALL_MAX)
        self._accepts_size = accepts_size
        self._allowance = allowance
        self._length = bytearray(_LENGTH_SIZE)
        self._length_view = memoryview(self._length)
        self._body: BytesIO | None = None
        self._view = self._length_view
        self._size = self._capacity = self._filled = self._taken = 0
        self._is_refused = False

    def receive(self, sock: socket.socket) -> bytes | None:
        """Read from a non-blocking socket. Returns: the body of a complete frame; None when more is to come.

        Raises: EOFError at the end of the data, BlockingIOError when there is none, OSError of a broken connection.
        """
        if self._body is None and not self._filled:
            return self._receive_small(sock)
        count = sock.recv_into(self.buffer())
        if not count:
            raise EOFError
        return self.advance(count)

    def _receive_small(self, sock: socket.socket) -> bytes | None:
        """Read a frame from its beginning."""
        length = sock.recv(_LENGTH_SIZE)
        if len(length) < _LENGTH_SIZE:
            if not length:
                raise EOFError
            return self._add(length)
        (size,) = _LENGTH.unpack(length)
        if not 0 < size <= self._small_max or self._is_refused:
            frame = self._add(length)
            return self.receive(sock) if self._body is not None else frame
        try:
            body = sock.recv(size)
        except BlockingIOError:
            return self._add(length)
        if len(body) == size:
            return body
        self._add(length)
        if not body:
            raise EOFError
        return self._add(body)

    def _add(self, data: bytes) -> bytes | None:
        return self.advance(self.fill(memoryview(data)))

    def buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        return self._view[self._filled :] if self._filled else self._view

    def fill(self, data: memoryview) -> int:
        """Copy the beginning of the data into the buffer. Returns: how many bytes had space; `advance` takes them."""
        size = min(len(data), len(self._view) - self._filled)
        self._view[self._filled : self._filled + size] = data[:size]
        return size

    def partial(self) -> bytes:
        """What has come of a frame that is not complete, with its length."""
        if self._body is None:
            return bytes(self._length[: _LENGTH_SIZE if self._is_refused else self._filled])
        return bytes(self._length) + bytes(self._view[: self._filled])

    def advance(self, count: int) -> bytes | None:
        """The next `count` bytes are in the buffer. Returns: the body of the frame that they complete, or None."""
        if self._is_refused:
            return None
        self._filled += count
        if self._body is None:
            return self._start_body() if self._filled == _LENGTH_SIZE else None
        if self._filled < self._capacity:
            return None
        if self._filled < self._size:
            self._grow()
            return None
        body = self._body
        self._view.release()
        self.release()
        return body.getvalue()

    def release(self) -> None:
        """Drop an incomplete frame."""
        self._body, self._view, self._filled = None, self._length_view, 0
        if self._taken:
            self._allowance.give_back(self._taken)
            self._taken = 0

    def _start_body(self) -> bytes | None:
        size = int.from_bytes(self._length, "big", signed=True)
        self._filled = 0
        if not self._accepts_size(size):
            self._is_refused = True
            self._view = memoryview(bytearray(_LENGTH_SIZE))  # What follows is not the length that was refused.
            return None
        if not size:
            return b""
        self._size = self._capacity = size
        if self._allowance.take(size):
            self._taken = size
        else:
            self._capacity = min(size, _FIRST_PART)
        self._body = BytesIO(bytes(self._capacity))
        self._view = self._body.getbuffer()
        return None

    def _grow(self) -> None:
        assert self._body is not None
        self._view.release()
        self._capacity = min(self._size, 2 * self._filled)
        self._body.seek(self._capacity - 1)
        self._body.write(b"\0")
        self._view = self._body.getbuffer()
