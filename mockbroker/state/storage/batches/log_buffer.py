"""`LogBuffer`: the bytes of a log in large chunks, in which the batches that readers get together are adjacent."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress

from kwire.records import patch_offset_and_epoch

#: The sizes of the first chunk and of the largest ones, in bytes; each is four times as large as the one before.
_FIRST_SIZE, _SIZE_MAX, _GROWTH = 512, 16 << 20, 4
#: Chunks of at least this size are mapped by themselves. Not with huge pages: in a virtual machine the first use of one
#: costs more than that of its small pages (measured: appends of 1 MB took twice the CPU time).
_MAPPED_MIN = 2 << 20
#: Linux' MADV_POPULATE_WRITE, which the module `mmap` does not name: the pages that a batch needs come by one call, not
#: by an interrupt for each (measured: a fifth less CPU time for appends of 1 MB). Older kernels refuse it.
_POPULATE, _POPULATED_MIN = 23, 64 << 10
#: A private mapping without a file; None where the system has none.
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if hasattr(mmap, "MAP_ANONYMOUS") else None


class LogBuffer:
    """Appends batches; what is appended is not changed any more, and is freed with the batches of its chunk.

    A batch is copied once, into the chunk. Chunks are read by views, without a copy. Memory behind the last batch of a
    large chunk is not used before something is written there.
    """

    def __init__(self) -> None:
        self._mapped: mmap.mmap | None = None
        self._writable = memoryview(bytearray())
        self._readable = self._writable.toreadonly()
        self._used = 0

    def append(
        self, data: bytes | bytearray | memoryview, offset_and_epoch: tuple[int, int] | None = None
    ) -> tuple[memoryview, int]:
        """Append a batch, one of magic 2 with another base offset and leader epoch if they are given.

        Returns: the chunk, read-only, and where the batch is in it.
        """
        at, size = self._used, len(data)
        if at + size > len(self._writable):
            self._add_chunk(size)
            at = 0
        if size >= _POPULATED_MIN and self._mapped is not None:
            _populate(self._mapped, at, size)
        self._writable[at : at + size] = data
        if offset_and_epoch is not None:
            patch_offset_and_epoch(self._writable, *offset_and_epoch, at=at)
        self._used = at + size
        return self._readable, at

    def _add_chunk(self, size: int) -> None:
        grown = max(_FIRST_SIZE, min(_GROWTH * len(self._writable), _SIZE_MAX))
        size = max(size, grown)
        self._mapped = None if size < _MAPPED_MIN or _PRIVATE is None else mmap.mmap(-1, size, flags=_PRIVATE)
        # Either is zeroed, and freed with the last view of it.
        self._writable = memoryview(bytearray(size) if self._mapped is None else self._mapped)
        self._readable = self._writable.toreadonly()


def _populate(mapped: mmap.mmap, at: int, size: int) -> None:
    """Let the system provide the pages of a range that is about to be written."""
    if sys.platform != "linux":
        return
    begin = at - at % mmap.PAGESIZE
    with suppress(OSError):  # The pages come when they are written.
        mapped.madvise(_POPULATE, begin, at + size - begin)
