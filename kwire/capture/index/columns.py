"""Named columns of numbers in one file: written as they come, mapped into memory to be read, checked before use.

The layout: a magic number, the columns (each begins at a multiple of 8), a JSON directory with type, size, place and
CRC of each, the directory's size and CRC, the magic number again. Nothing in it is executed when it is read.
"""

from __future__ import annotations

import json
import mmap
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Column = npt.NDArray[Any]

_MAGIC = b"KWIREIX1"
_TAIL = struct.Struct("<QI8s")
_TYPES = frozenset({"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"})
# Columns stay in memory up to so many bytes; then all of them move to a temporary file.
SPILL_SIZE = 128 * 1024 * 1024


class BadColumnsError(ValueError):
    """The file is not one that was written here, or was damaged since."""


class Columns(Mapping[str, "npt.NDArray[Any]"]):
    """Columns by name, in memory or in a file."""

    def __init__(self) -> None:
        """None yet."""
        self._held: dict[str, Column] = {}
        self._size = 0
        self._file: BinaryIO | None = None
        self._map: mmap.mmap | None = None
        self._places: dict[str, tuple[str, int, int]] = {}
        self.about: dict[str, Any] = {}
        """What else is to be kept: anything that JSON can say."""

    def __getitem__(self, name: str) -> Column:
        if name in self._held:
            return self._held[name]
        kind, count, at = self._places[name]
        if not count:
            return np.zeros(0, dtype=kind)
        assert self._file is not None or self._map is not None
        if self._map is None or at + count * np.dtype(kind).itemsize > len(self._map):
            assert self._file is not None
            self._file.flush()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._map, dtype=kind, count=count, offset=at)

    def __iter__(self) -> Iterator[str]:
        yield from self._places
        yield from self._held

    def __len__(self) -> int:
        return len(self._places) + len(self._held)

    def add(self, name: str, column: Column) -> None:
        """One more column."""
        if self._file is not None:
            self._places[name] = _written(self._file, column)[:3]
            return
        self._held[name] = column
        self._size += column.nbytes
        if self._size > SPILL_SIZE:
            # It is as good as memory: it has no name, and goes with its last reader.
            self._file = cast("BinaryIO", tempfile.TemporaryFile(prefix="kwire-index-"))  # noqa: SIM115
            for each, held in self._held.items():
                self._places[each] = _written(self._file, held)[:3]
            self._held.clear()

    def write(self, file: BinaryIO) -> None:
        """Write all of them."""
        file.write(_MAGIC)
        places = {name: _written(file, self[name]) for name in self}
        directory = json.dumps({"about": self.about, "columns": places}).encode()
        file.write(directory)
        file.write(_TAIL.pack(len(directory), zlib.crc32(directory), _MAGIC))

    @classmethod
    def read(cls, file: BinaryIO) -> Columns:
        """The columns of a file, which may be closed afterwards. Raises: BadColumnsError."""
        found = cls()
        try:
            found._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise BadColumnsError("the file is empty") from error
        view, end = found._map, len(found._map) - _TAIL.size
        if end < len(_MAGIC) or view[: len(_MAGIC)] != _MAGIC:
            raise BadColumnsError("the file does not begin as one of columns")
        size, check, magic = _TAIL.unpack_from(view, end)
        directory = view[end - size : end] if size <= end else b""
        if magic != _MAGIC or zlib.crc32(directory) != check:
            raise BadColumnsError("the directory is damaged")
        tree = json.loads(directory)
        found.about = tree["about"]
        for name, (kind, count, at, crc) in tree["columns"].items():
            stop = at + count * int(kind[1:])
            if kind not in _TYPES or zlib.crc32(view[at:stop]) != crc:
                raise BadColumnsError(f"column {name} is damaged")
            found._places[name] = kind, count, at
        return found


def _written(file: BinaryIO, column: Column) -> tuple[str, int, int, int]:
    """Append a column; its type, count, place and CRC."""
    at = file.seek(0, 2)
    file.write(bytes(-at % 8))
    at += -at % 8
    data = np.ascontiguousarray(column).tobytes()
    file.write(data)
    return column.dtype.str[1:], len(column), at, zlib.crc32(data)
