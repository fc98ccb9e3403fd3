"""`LogBuffer`: the bytes of a log in large chunks, in which the batches that readers get together are adjacent."""

from __future__ import annotations

from kwire.records import patch_offset_and_epoch

#: The sizes of the first chunk and of the largest ones, in bytes; each is four times as large as the one before.
_FIRST_SIZE, _SIZE_MAX, _GROWTH = 512, 16 << 20, 4


class LogBuffer:
    """Appends batches; what is appended is not changed any more, and is freed with the batches of its chunk.

    A batch is copied once, into the chunk. Chunks are read by views, without a copy. Memory behind the last batch of a
    large chunk is not used before something is written there.
    """

    def __init__(self) -> None:
        self._writable = memoryview(bytearray())
        self._readable = self._writable.toreadonly()
        self._used = 0

    def append(
        self, data: bytes | bytearray | memoryview, offset_and_epoch: tuple[int, int] | None = None
    ) -> tuple[memoryview, int]:
        """Append a batch of magic 2, with another base offset and leader epoch if they are given.

        Returns: the chunk, read-only, and where the batch is in it.
        """
        at, size = self._used, len(data)
        if at + size > len(self._writable):
            self._add_chunk(size)
            at = 0
        self._writable[at : at + size] = data
        if offset_and_epoch is not None:
            patch_offset_and_epoch(self._writable, *offset_and_epoch, at=at)
        self._used = at + size
        return self._readable, at

    def _add_chunk(self, size: int) -> None:
        grown = max(_FIRST_SIZE, min(_GROWTH * len(self._writable), _SIZE_MAX))
        self._writable = memoryview(bytearray(max(size, grown)))
        self._readable = self._writable.toreadonly()
