"""The failures that every module of this package words alike, and what all decompressors are held to."""

from __future__ import annotations

from kwire.errors import CorruptRecords, LimitExceeded

Data = bytes | bytearray | memoryview

STEP_MAX = 1 << 20
"""How many bytes a decompressor gives at once, at most."""


def corrupt(what: str, at: int | None = None, path: str = "records") -> CorruptRecords:
    """A batch, or what lies in it, contradicts itself."""
    return CorruptRecords(path, at, what)


def bomb(what: str, size: int, limit: int) -> LimitExceeded:
    """Data that would decompress to more than the limit."""
    return LimitExceeded("records", None, f"{what}: {size} bytes decompress to more than the limit of {limit} bytes")
