"""Named columns of numbers in one file: written as they come, read when they are asked for, checked before use.

The layout: a magic number, the columns (each begins at a multiple of 8), a JSON directory with type, size, place and
CRC of each, the directory's size and CRC, the magic number again. Nothing in it is executed when it is read.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import weakref
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Column = npt.NDArray[Any]

_MAGIC = b"KWIREIX1"
_TAIL = struct.Struct("<QI8s")
_TYPES = frozenset({"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"})
# Columns stay in memory up to so many bytes; then all of them move to a temporary file.
SPILL_SIZE = 48 * 1024 * 1024
_CHUNK = 1 << 20
# A request and its answer may lie in two spans.
_PAGES_HELD = 4
# Columns of flows and of spans are few, and asked for again and again.
_KEPT = ("flow.", "pieces.first", "parts.last", "-2.done")


class BadColumnsError(ValueError):
    """The file is not one that was written here, or was damaged since."""


class Columns(Mapping[str, "npt.NDArray[Any]"]):
    """Columns by name, in memory or in a file."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        """None yet. `file`: an empty one, to which they go as they come; `finish` makes it one that can be read."""
        self._held: dict[str, Column] = {}
        self._size = 0
        self._file: _Handle | None = None
        self._places: dict[str, tuple[str, int, int, int]] = {}
        self.about: dict[str, Any] = {}
        """What else is to be kept: anything that JSON can say."""
        if file is not None:
            self._file = _Handle(file.fileno())
            self._file.write(_MAGIC)

    def __getitem__(self, name: str) -> Column:
        if name in self._held:
            return self._held[name]
        kind, count, at, _ = self._places[name]
        if not count:
            return np.zeros(0, dtype=kind)
        assert self._file is not None
        column = np.frombuffer(read_at(self._file.number, at, count * np.dtype(kind).itemsize), dtype=kind)
        if name.startswith(_KEPT):
            self._held[name] = column
        return column

    def __iter__(self) -> Iterator[str]:
        yield from self._places
        yield from (name for name in self._held if name not in self._places)

    def __len__(self) -> int:
        return len(self._places | self._held)

    def add(self, name: str, column: Column) -> None:
        """One more column."""
        if self._file is not None:
            self._places[name] = _written(self._file, column)
            return
        self._held[name] = column
        self._size += column.nbytes
        if self._size > SPILL_SIZE:
            # It is as good as memory: it has no name, and goes with its last reader.
            with tempfile.TemporaryFile(prefix="kwire-index-") as file:
                self._file = _Handle(file.fileno())
            for each, held in self._held.items():
                self._places[each] = _written(self._file, held)
            self._held.clear()

    def write(self, file: BinaryIO) -> None:
        """Write all of them."""
        file.write(_MAGIC)
        self._end(file, {name: _written(file, self[name]) for name in self})

    def finish(self) -> None:
        """Nothing more comes into the file that they were given."""
        assert self._file is not None
        self._end(self._file, self._places)

    def _end(self, file: BinaryIO | _Handle, places: dict[str, tuple[str, int, int, int]]) -> None:
        directory = json.dumps({"about": self.about, "columns": places}).encode()
        file.write(directory)
        file.write(_TAIL.pack(len(directory), zlib.crc32(directory), _MAGIC))

    @classmethod
    def read(cls, file: BinaryIO, *, checks: bool = True) -> Columns:
        """The columns of a file, which may be closed afterwards. Raises: BadColumnsError.

        Args: checks: whether each column is compared with its checksum, for files that were not written just now.
        """
        found = cls()
        # The file is read as it is asked for; it stays the same file, whatever takes its name meanwhile.
        found._file = _Handle(file.fileno())
        size = os.fstat(file.fileno()).st_size
        read = _Checked(file.fileno())
        if size < len(_MAGIC) + _TAIL.size or read.bytes(0, len(_MAGIC)) != _MAGIC:
            raise BadColumnsError("the file does not begin as one of columns")
        length, check, magic = _TAIL.unpack(read.bytes(size - _TAIL.size, _TAIL.size))
        directory = read.bytes(size - _TAIL.size - length, length) if length < size else b""
        if magic != _MAGIC or zlib.crc32(directory) != check:
            raise BadColumnsError("the directory is damaged")
        tree = json.loads(directory)
        found.about = tree["about"]
        for name, (kind, count, at, crc) in tree["columns"].items():
            if kind not in _TYPES or (checks and read.crc(at, count * int(kind[1:])) != crc):
                raise BadColumnsError(f"column {name} is damaged")
            found._places[name] = kind, count, at, crc
        return found


@contextmanager
def fresh(path: str | os.PathLike[str]) -> Iterator[Columns]:
    """Columns for a file of this name, which is there when they are whole; if two write it, the last one counts."""
    handle, name = tempfile.mkstemp(dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "w+b") as file:
            columns = Columns(file)
            yield columns
            columns.finish()
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


class Paged:
    """A column that is kept span by span, as one; of what was asked for lately some spans are held."""

    def __init__(self, columns: Columns, name: str, firsts: Column) -> None:
        """`firsts`: the number of the first row of each span."""
        self._columns = columns
        self._name = name
        self._firsts = firsts.tolist()
        self._held: dict[int, Column] = {}

    def __getitem__(self, number: int, /) -> int:
        """The row of this number."""
        span = bisect_right(self._firsts, number) - 1
        page = self._held.get(span)
        if page is None:
            if len(self._held) == _PAGES_HELD:
                del self._held[next(iter(self._held))]
            page = self._held[span] = self._columns[f"{span}.{self._name}"]
        return int(page[number - self._firsts[span]])


class _Handle:
    """A file kept open for as long as anybody holds this."""

    def __init__(self, number: int) -> None:
        self.number = os.dup(number)
        weakref.finalize(self, os.close, self.number)

    def seek(self, at: int, whence: int) -> int:
        """As files have it."""
        return os.lseek(self.number, at, whence)

    def write(self, data: bytes) -> int:
        """All of the data, at the end of what was written before."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.number, view) :]
        return len(data)


class _Checked:
    """Reads a file that may be anything."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def bytes(self, at: int, size: int) -> bytes:
        """These bytes, all of them."""
        data = read_at(self._handle, at, size) if at >= 0 else b""
        if len(data) != size:
            raise BadColumnsError("the file is cut")
        return data

    def crc(self, at: int, size: int) -> int:
        """The checksum of a stretch, which may be large."""
        crc = 0
        while size > 0:
            data = self.bytes(at, min(size, _CHUNK))
            crc, at, size = zlib.crc32(data, crc), at + len(data), size - len(data)
        return crc


def read_at(handle: int, at: int, size: int) -> bytes:
    """`size` bytes from offset `at` of an open file; fewer at its end."""
    if not hasattr(os, "pread"):
        os.lseek(handle, at, os.SEEK_SET)
    parts = []
    while size > 0:
        part = os.pread(handle, size, at) if hasattr(os, "pread") else os.read(handle, size)
        if not part:
            break
        parts.append(part)
        at, size = at + len(part), size - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _written(file: BinaryIO | _Handle, column: Column) -> tuple[str, int, int, int]:
    """Append a column; its type, count, place and CRC."""
    at = file.seek(0, 2)
    file.write(bytes(-at % 8))
    at += -at % 8
    data = np.ascontiguousarray(column).tobytes()
    file.write(data)
    return column.dtype.str[1:], len(column), at, zlib.crc32(data)
