"""Payload that is not contiguous in the capture file: its index stores it, at positions behind those of every file."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import Protocol

import numpy as np

from kwire.capture.index.columns import Columns

STORED_BASE = 1 << 60
"""The position of the first byte of stored payload."""

Extent = tuple[int, int]
"""Position and size of a part of a capture."""


class ReadableFile(Protocol):
    """A file that is read by offset."""

    def read(self, at: int, size: int, /) -> bytes:
        """`size` bytes from an offset; fewer at the end."""

    def close(self) -> None:
        """Close the file."""


class StoredPayload:
    """The stored payload of an index, span by span. extents: its parts, one for each span."""

    def __init__(self, columns: Columns, extents: list[Extent], begin: int = STORED_BASE) -> None:
        """`columns` have the payload. `begin`: its first position."""
        self.extents = extents
        self.begin = begin
        self._columns = columns

    @property
    def end(self) -> int:
        """The position behind it."""
        return sum(self.extents[-1]) if self.extents else self.begin

    def add_span(self, payload: bytes) -> None:
        """Store the payload of the next span."""
        self._columns.add_column(f"{len(self.extents)}.stored", np.frombuffer(payload, dtype=np.uint8))
        self.extents.append((self.end, len(payload)))

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from a position; fewer at the end of a span."""
        span = bisect_right(self.extents, at, key=itemgetter(0)) - 1
        return self._columns.read_rows(f"{span}.stored", at - self.extents[span][0], size).tobytes()


class CaptureBytes:
    """The bytes of a capture by position: those of its file, and those of stored payload."""

    def __init__(self, file: ReadableFile, stored: StoredPayload) -> None:
        """`file` is closed with this object."""
        self._file = file
        self._stored = stored

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from a position; fewer at the end of the file."""
        return self._file.read(at, size) if at < self._stored.begin else self._stored.read(at, size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
