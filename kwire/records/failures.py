"""Errors that several modules of this package raise, and the step size of decompressors."""

from __future__ import annotations

from kwire.errors import CorruptRecords, LimitExceeded

Data = bytes | bytearray | memoryview

STEP_BYTES_MAX = 1 << 20
"""The maximum number of bytes that a decompressor returns at once."""


def corrupt_error(what: str, at: int | None = None, path: str = "records") -> CorruptRecords:
    """The error for a batch, or its content, that contradicts itself."""
    return CorruptRecords(path, at, what)


def expansion_error(what: str, size: int, limit: int) -> LimitExceeded:
    """The error for data that would decompress to more than the limit."""
    return LimitExceeded("records", None, f"{what}: {size} bytes decompress to more than the limit of {limit} bytes")
