"""The bytes of a stream of packets by position: those of the latest span, and those of earlier ones that are needed."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints
from kwire.capture.index.columns import OpenFile, read_at

# What is kept is in memory up to this size; more of it is in a temporary file.
_MEMORY_SIZE_MAX = 64 * 1024 * 1024


class HeldBytes:
    """Bytes by position. end: the position of the next span."""

    def __init__(self) -> None:
        """There are none."""
        self.end = 0
        self._base = 0
        self._data = b""
        # Where each kept part begins, and its bytes, or its size and its place in the file.
        self._begins: list[int] = []
        self._parts: list[bytes | tuple[int, int]] = []
        self._file: OpenFile | None = None

    @property
    def kept_size(self) -> int:
        """How many bytes of earlier spans are kept."""
        return sum(len(part) if isinstance(part, bytes) else part[0] for part in self._parts)

    def add_span(self, data: bytes) -> None:
        """Add the bytes of the next span. Those of the one before are lost, except what `keep` has kept."""
        self._base, self._data = self.end, data
        self.end += len(data)

    def append(self, data: bytes) -> None:
        """Add bytes to the latest span."""
        if data:
            self._data += data
            self.end += len(data)

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from a position; fewer at the end of what there is."""
        if at >= self._base:
            return self._data[at - self._base : at - self._base + size]
        if not size:
            return b""
        number = bisect_right(self._begins, at) - 1
        assert number >= 0, f"the bytes at {at} were not kept"
        part, skip = self._parts[number], at - self._begins[number]
        if isinstance(part, bytes):
            return part[skip : skip + size]
        assert self._file is not None
        return read_at(self._file.number, part[1] + skip, min(size, part[0] - skip))

    def close(self) -> None:
        """Drop all bytes."""
        self.keep(())

    def keep(self, ranges: Iterable[tuple[Ints, Ints]]) -> None:
        """Drop all bytes but these. Args: positions and sizes; they may overlap, and be of missing bytes."""
        begins, sizes = (np.concatenate(columns) for columns in zip((NO_NUMBERS, NO_NUMBERS), *ranges, strict=True))
        is_here = (begins >= 0) & (sizes > 0)
        begins, stops = begins[is_here], begins[is_here] + sizes[is_here]
        order = np.argsort(begins, kind="stable")
        begins, stops = begins[order], np.maximum.accumulate(stops[order])
        # The bytes of two packets are two parts.
        is_first = np.ones(len(begins), dtype=np.bool_)
        is_first[1:] = begins[1:] >= stops[:-1]
        is_last = np.append(is_first[1:], len(begins) > 0)
        begins, sizes = begins[is_first], stops[is_last[: len(begins)]] - begins[is_first]
        kept = dict(zip(self._begins, self._parts, strict=True))
        parts: list[bytes | tuple[int, int]] = []
        for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True):
            part = kept.get(begin)
            is_same = part is not None and (len(part) if isinstance(part, bytes) else part[0]) == size
            parts.append(part if is_same and part is not None else self.read(begin, size))
        self._begins, self._parts = begins.tolist(), parts
        self._base, self._data = self.end, b""
        if sum(len(part) for part in parts if isinstance(part, bytes)) > _MEMORY_SIZE_MAX:
            self._move_to_file()

    def __getstate__(self) -> dict[str, Any]:
        """All bytes, also those in the file."""
        sizes = (len(part) if isinstance(part, bytes) else part[0] for part in self._parts)
        parts = [self.read(begin, size) for begin, size in zip(self._begins, sizes, strict=True)]
        return {**vars(self), "_parts": parts, "_file": None}

    def _move_to_file(self) -> None:
        """Move what is kept to a new file, which has no name."""
        with tempfile.TemporaryFile(prefix="kwire-held-") as opened:
            file = OpenFile(opened.fileno())
        at = 0
        for number, begin in enumerate(self._begins):
            part = self._parts[number]
            size = len(part) if isinstance(part, bytes) else part[0]
            file.write(self.read(begin, size))
            self._parts[number] = size, at
            at += size
        self._file = file
