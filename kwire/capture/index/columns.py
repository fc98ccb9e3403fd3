"""Named numpy columns in one file, read on demand and verified by checksums.

Layout: magic number, the columns (each starts at a multiple of 8), a JSON directory with type, size, offset and CRC of
each column, size and CRC of the directory, the magic number again. Reading a file executes nothing from it.
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
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
Path_ = str | os.PathLike[str]

_MAGIC = b"KWIREIX1"
_TAIL = struct.Struct("<QI8s")
_TYPES = frozenset({"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"})
# Columns stay in memory up to this size; then all of them move to a temporary file.
SPILL_SIZE = 48 * 1024 * 1024
_CHUNK = 1 << 20
# A request and its response may lie in two spans.
_PAGES_MAX = 4
# Columns of flows and of spans are small and read often.
_CACHED_COLUMNS = ("flow.", "fragments.first", "parts.last")


class BadColumnsError(ValueError):
    """The file is not a file of columns, or is damaged."""


class Columns(Mapping[str, "npt.NDArray[Any]"]):
    """Columns by name, in memory or in a file."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        """There are no columns yet. `file`: an empty file for them; `finish` completes it."""
        self._loaded: dict[str, Column] = {}
        self._size = 0
        self._file: OpenFile | None = None
        self._directory: dict[str, tuple[str, int, int, int]] = {}
        self.metadata: dict[str, Any] = {}
        """More values to store, of any type that JSON has."""
        if file is not None:
            self._file = OpenFile(file.fileno())
            self._file.write(_MAGIC)

    def __getitem__(self, name: str) -> Column:
        if name in self._loaded:
            return self._loaded[name]
        column = self.read_rows(name, 0, self._directory[name][1])
        if name.startswith(_CACHED_COLUMNS):
            self._loaded[name] = column
        return column

    def read_rows(self, name: str, first: int, count: int) -> Column:
        """Some rows of a column; fewer at its end."""
        if name in self._loaded:
            return self._loaded[name][first : first + count]
        kind, total, at, _ = self._directory[name]
        count, width = min(count, total - first), np.dtype(kind).itemsize
        if count <= 0:
            return np.zeros(0, dtype=kind)
        assert self._file is not None
        return np.frombuffer(read_at(self._file.number, at + first * width, count * width), dtype=kind)

    def __iter__(self) -> Iterator[str]:
        yield from self._directory
        yield from (name for name in self._loaded if name not in self._directory)

    def __len__(self) -> int:
        return len(self._directory | self._loaded)

    def add_column(self, name: str, column: Column) -> None:
        """Add a column."""
        if self._file is not None:
            self._directory[name] = _append_column(self._file, column)
            return
        self._loaded[name] = column
        self._size += column.nbytes
        if self._size > SPILL_SIZE:
            # The file has no name: it is deleted when the last reader closes it.
            with tempfile.TemporaryFile(prefix="kwire-index-") as file:
                self._file = OpenFile(file.fileno())
            for each, loaded in self._loaded.items():
                self._directory[each] = _append_column(self._file, loaded)
            self._loaded.clear()

    def write_file(self, file: BinaryIO) -> None:
        """Write all columns to a file."""
        file.write(_MAGIC)
        self._write_directory(file, {name: _append_column(file, self[name]) for name in self})

    def finish_file(self) -> None:
        """Complete the file of `__init__`; no column can be added after it."""
        assert self._file is not None
        self._write_directory(self._file, self._directory)

    def _write_directory(self, file: BinaryIO | OpenFile, places: dict[str, tuple[str, int, int, int]]) -> None:
        directory = json.dumps({"about": self.metadata, "columns": places}).encode()
        file.write(directory)
        file.write(_TAIL.pack(len(directory), zlib.crc32(directory), _MAGIC))

    @classmethod
    def read_file(cls, file: BinaryIO, *, checks: bool = True) -> Columns:
        """Read the columns of a file, which the caller may close. Raises: BadColumnsError.

        Args: checks: whether each column is compared with its checksum; only a file that was just written needs none.
        """
        columns = cls()
        # Columns are read on demand from this open file, even if another file takes its name meanwhile.
        columns._file = OpenFile(file.fileno())
        size = os.fstat(file.fileno()).st_size
        reader = _CheckedReader(file.fileno())
        if size < len(_MAGIC) + _TAIL.size or reader.read_bytes(0, len(_MAGIC)) != _MAGIC:
            raise BadColumnsError("not a file of columns")
        length, check, magic = _TAIL.unpack(reader.read_bytes(size - _TAIL.size, _TAIL.size))
        directory = reader.read_bytes(size - _TAIL.size - length, length) if length < size else b""
        if magic != _MAGIC or zlib.crc32(directory) != check:
            raise BadColumnsError("the directory is damaged")
        tree = json.loads(directory)
        columns.metadata = tree["about"]
        for name, (kind, count, at, crc) in tree["columns"].items():
            if kind not in _TYPES or (checks and reader.read_crc(at, count * int(kind[1:])) != crc):
                raise BadColumnsError(f"column {name} is damaged")
            columns._directory[name] = kind, count, at, crc
        return columns

    @classmethod
    def read_new_file(cls, path: Path_) -> Columns:
        """Read the columns of a file that was just written, without checks. Raises: OSError; BadColumnsError."""
        with open(path, "rb") as file:
            return cls.read_file(file, checks=False)


@contextmanager
def replace_file(path: Path_, *, suffix: str = "", permissions_of: Path_ | None = None) -> Iterator[BinaryIO]:
    """A new file, which replaces `path` when it is complete. If two processes write it, the last one wins.

    Args: suffix: of its hidden name until then. permissions_of: a file whose read permissions it gets; only its owner
        may read it otherwise.
    """
    handle, name = tempfile.mkstemp(prefix=".", suffix=suffix, dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
        if permissions_of is not None:
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, os.stat(permissions_of).st_mode & 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


@contextmanager
def new_columns_file(path: Path_) -> Iterator[Columns]:
    """Columns for a file, which appears when they are complete."""
    with replace_file(path) as file:
        columns = Columns(file)
        yield columns
        columns.finish_file()


class PagedColumn:
    """A column that is stored span by span, read by row number; a few spans are cached."""

    def __init__(self, columns: Columns, name: str, firsts: Column) -> None:
        """`firsts`: the number of the first row of each span."""
        self._columns = columns
        self._name = name
        self._firsts = firsts.tolist()
        self._loaded: dict[int, Column] = {}

    def __getitem__(self, number: int, /) -> int:
        """The value of a row."""
        span = bisect_right(self._firsts, number) - 1
        return int(self._page(span)[number - self._firsts[span]])

    def take(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The values of many rows."""
        spans = np.searchsorted(self._firsts, numbers, "right") - 1
        out = np.empty(len(numbers), dtype=np.int64)
        for span in np.unique(spans).tolist():
            is_there = spans == span
            out[is_there] = self._page(span)[numbers[is_there] - self._firsts[span]]
        return out

    def _page(self, span: int) -> Column:
        page = self._loaded.get(span)
        if page is None:
            if len(self._loaded) == _PAGES_MAX:
                del self._loaded[next(iter(self._loaded))]
            page = self._loaded[span] = self._columns[f"{span}.{self._name}"]
        return page


class OpenFile:
    """A file that stays open as long as this object exists."""

    def __init__(self, number: int) -> None:
        self.number = os.dup(number)
        weakref.finalize(self, os.close, self.number)

    def seek(self, at: int, whence: int) -> int:
        """Seek, as files do."""
        return os.lseek(self.number, at, whence)

    def write(self, data: bytes) -> int:
        """Write all of the data at the current position."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.number, view) :]
        return len(data)


class _CheckedReader:
    """Reads a file that may be damaged."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def read_bytes(self, at: int, size: int) -> bytes:
        """Read exactly this many bytes."""
        data = read_at(self._handle, at, size) if at >= 0 else b""
        if len(data) != size:
            raise BadColumnsError("the file is truncated")
        return data

    def read_crc(self, at: int, size: int) -> int:
        """The CRC of a part of the file, read in chunks."""
        crc = 0
        while size > 0:
            data = self.read_bytes(at, min(size, _CHUNK))
            crc, at, size = zlib.crc32(data, crc), at + len(data), size - len(data)
        return crc


def read_at(handle: int, at: int, size: int) -> bytes:
    """Read `size` bytes from offset `at` of an open file; fewer at its end."""
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


def _append_column(file: BinaryIO | OpenFile, column: Column) -> tuple[str, int, int, int]:
    """Append a column; return its type, count, offset and CRC."""
    at = file.seek(0, 2)
    padding = -at % 8
    file.write(bytes(padding))
    at += padding
    data = column.tobytes()
    file.write(data)
    return column.dtype.str[1:], len(column), at, zlib.crc32(data)
