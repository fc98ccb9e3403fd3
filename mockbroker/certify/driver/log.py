"""The log of a driver: the first and the last part of what it writes to stderr, bounded, and escaped."""

from __future__ import annotations

import threading

from kwire.escape import one_line, printable_lines

#: The parts that are kept, bytes.
HEAD_BYTES_MAX = 64 * 1024
TAIL_BYTES_MAX = 192 * 1024
#: The last output in a message: lines, and bytes.
SHOWN_LINES_MAX = 12
SHOWN_BYTES_MAX = 2_000


class DriverLog:
    """Bytes in order; those between the first and the last part are counted and dropped. Safe in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def append(self, data: bytes) -> None:
        """Add output."""
        with self._lock:
            free = HEAD_BYTES_MAX - len(self._head)
            self._head += data[:free]
            self._tail += data[max(free, 0) :]
            excess = len(self._tail) - TAIL_BYTES_MAX
            if excess > 0:
                del self._tail[:excess]
                self._dropped += excess

    def clear(self) -> None:
        """Begin an empty log."""
        with self._lock:
            self._head.clear()
            self._tail.clear()
            self._dropped = 0

    def text(self) -> str:
        """The whole log, with a line for what was dropped; it cannot act on a terminal."""
        with self._lock:
            head, tail, dropped = bytes(self._head), bytes(self._tail), self._dropped
        gap = f"\n[{dropped} bytes were dropped]\n".encode() if dropped else b""
        return printable_lines((head + gap + tail).decode("utf-8", "replace").replace("\r\n", "\n"))

    def last_lines(self) -> str:
        """The last lines, indented, as they stand in messages."""
        with self._lock:
            data = bytes(self._tail or self._head)[-SHOWN_BYTES_MAX:]
        lines = data.decode("utf-8", "replace").splitlines()[-SHOWN_LINES_MAX:]
        return "\n".join(f"    {one_line(line.expandtabs(4))}" for line in lines)
