"""Zstd data of Kafka's clients, and a check that all its frames are complete.

The streaming reader, which limits the output, stops without an error where the input ends. The headers of frames and
blocks show without decompression whether the data is complete. Source: RFC 8878 sections 3.1.1 and 3.1.2.
"""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from kwire.records.failures import STEP_BYTES_MAX, Data, corrupt_error, expansion_error

_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_RLE, _RESERVED = 1, 3
_WINDOW_MIN = 8 << 20  # RFC 8878 section 3.1.1.1.2: every decoder should support windows of 8 MiB.
_LEVEL = 3


def compress_frame(data: bytes, *, level: int | None = None) -> bytes:
    """Write one frame; `level` is the compression level of zstd."""
    return zstandard.ZstdCompressor(level=_LEVEL if level is None else level).compress(data)


def decompress_frames(data: Data, max_bytes: int) -> Iterator[bytes]:
    """Yield the content of the frames, in steps.

    Raises: LimitExceeded for a window above `max_bytes` and 8 MiB; CorruptRecords for invalid or incomplete data.
    """
    window_max = max(max_bytes, _WINDOW_MIN)
    check_complete(data)
    step = min(STEP_BYTES_MAX, max(1 << 16, 8 * len(data)))  # The library allocates the whole step before it reads.
    source = zstandard.ZstdDecompressor(max_window_size=window_max).stream_reader(data, read_across_frames=True)
    try:
        while chunk := source.read(step):
            yield chunk
    except zstandard.ZstdError as error:
        if "too much memory" in str(error):
            raise expansion_error("zstd window", len(data), window_max) from None
        raise corrupt_error(f"zstd data is broken: {error}") from None


def check_complete(data: Data) -> None:
    """Raise CorruptRecords unless the data consists of complete frames."""
    view = memoryview(data)
    at = _end_of_frame(view, 0)
    while at < len(view):
        at = _end_of_frame(view, at)


def _end_of_frame(view: memoryview, at: int) -> int:
    magic = _read_number(view, at, 4)
    at += 4
    if magic & 0xFFFFFFF0 == _SKIPPABLE_MAGIC:
        at += 4 + _read_number(view, at, 4)
        _check_bounds(view, at)
        return at
    if magic != _MAGIC:
        raise corrupt_error(f"no zstd frame begins with {magic:#010x}")
    descriptor = _read_number(view, at, 1)
    single_segment = bool(descriptor & 0x20)
    size_flag = descriptor >> 6
    at += 1 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3]
    at += (int(single_segment), 2, 4, 8)[size_flag]
    last = False
    while not last:
        block = _read_number(view, at, 3)
        last = bool(block & 1)
        kind = block >> 1 & 3
        if kind == _RESERVED:
            raise corrupt_error("a zstd block of the reserved type")
        at += 3 + (1 if kind == _RLE else block >> 3)
        _check_bounds(view, at)
    if descriptor & 4:
        at += 4  # The checksum of the frame; the library verifies it.
        _check_bounds(view, at)
    return at


def _read_number(view: memoryview, at: int, size: int) -> int:
    _check_bounds(view, at + size)
    return int.from_bytes(view[at : at + size], "little")


def _check_bounds(view: memoryview, end: int) -> None:
    if end > len(view):
        raise corrupt_error("zstd data ends early")
