"""Zstd data of Kafka's clients, and a check that all its frames are complete.

The streaming reader, which limits the output, stops without an error where the input ends. The headers of frames and
blocks show without decompression whether the data is complete. Source: RFC 8878 sections 3.1.1 and 3.1.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import zstandard

from kwire.records.failures import STEP_BYTES_MAX, Data, corrupt_error, expansion_error

_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_RLE, _RESERVED = 1, 3
_WINDOW_MIN = 8 << 20  # RFC 8878 section 3.1.1.1.2: every decoder should support windows of 8 MiB.
_LEVEL = 3

# A context of the library takes longer to make than a small batch to compress or decompress, so some are used again. At
# any time a context has one user: adding to and taking from a list cannot be interrupted by another thread.
_KEPT_CONTEXTS_MAX = 4
_KEPT_WINDOW_MAX = 2 << 20  # The window of level 3; a context keeps the memory of the largest one that it has read.
_KEPT_COMPRESSOR_BYTES_MAX = 4 << 20  # Enough for level 3.
Context = TypeVar("Context")
_decompressors: list[zstandard.ZstdDecompressor] = []
_compressors: dict[int, list[zstandard.ZstdCompressor]] = {}


def compress_frame(data: bytes, *, level: int | None = None) -> bytes:
    """Write one frame; `level` is the compression level of zstd."""
    level = _LEVEL if level is None else level
    kept = _compressors.setdefault(level, [])
    compressor = _take_last(kept) or zstandard.ZstdCompressor(level=level)
    frame: bytes = compressor.compress(data)
    if len(kept) < _KEPT_CONTEXTS_MAX and compressor.memory_size() <= _KEPT_COMPRESSOR_BYTES_MAX:
        kept.append(compressor)
    return frame


def decompress_frames(data: Data, max_bytes: int) -> Iterator[bytes]:
    """Yield the content of the frames, in steps.

    Raises: LimitExceeded for a window above `max_bytes` and 8 MiB; CorruptRecords for invalid or incomplete data.
    """
    window_max = max(max_bytes, _WINDOW_MIN)
    is_kept = check_complete(data) <= _KEPT_WINDOW_MAX
    step = min(STEP_BYTES_MAX, max(1 << 16, 8 * len(data)))  # The library allocates the whole step before it reads.
    decompressor = _take_last(_decompressors) if is_kept else None
    if decompressor is None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=window_max)
    source = decompressor.stream_reader(data, read_across_frames=True)
    try:
        while chunk := source.read(step):
            yield chunk
    except zstandard.ZstdError as error:
        if "too much memory" in str(error):
            raise expansion_error("zstd window", len(data), window_max) from None
        raise corrupt_error(f"zstd data is broken: {error}") from None
    if is_kept and len(_decompressors) < _KEPT_CONTEXTS_MAX:
        _decompressors.append(decompressor)


def _take_last(kept: list[Context]) -> Context | None:
    try:
        return kept.pop()
    except IndexError:
        return None


def check_complete(data: Data) -> int:
    """The largest window of the frames, in bytes. Raises: CorruptRecords for anything but complete frames."""
    view = memoryview(data)
    at, window_max = _end_of_frame(view, 0)
    while at < len(view):
        at, window = _end_of_frame(view, at)
        window_max = max(window_max, window)
    return window_max


def _end_of_frame(view: memoryview, at: int) -> tuple[int, int]:
    """Where the frame ends, and its window in bytes; none of a skippable frame."""
    magic = _read_number(view, at, 4)
    at += 4
    if magic & 0xFFFFFFF0 == _SKIPPABLE_MAGIC:
        at += 4 + _read_number(view, at, 4)
        _check_bounds(view, at)
        return at, 0
    if magic != _MAGIC:
        raise corrupt_error(f"no zstd frame begins with {magic:#010x}")
    descriptor = _read_number(view, at, 1)
    at += 1
    single_segment = bool(descriptor & 0x20)
    if single_segment:
        window = 0
    else:
        # RFC 8878 section 3.1.1.1.2.
        window_descriptor = _read_number(view, at, 1)
        window = (8 + (window_descriptor & 7)) << (window_descriptor >> 3) + 7
        at += 1
    at += (0, 1, 2, 4)[descriptor & 3]
    content_size_bytes = (int(single_segment), 2, 4, 8)[descriptor >> 6]
    if single_segment:
        window = _read_number(view, at, content_size_bytes) + 256 * (content_size_bytes == 2)
    at += content_size_bytes
    return _end_of_blocks(view, at, has_checksum=bool(descriptor & 4)), window


def _end_of_blocks(view: memoryview, at: int, *, has_checksum: bool) -> int:
    last = False
    while not last:
        block = _read_number(view, at, 3)
        last = bool(block & 1)
        kind = block >> 1 & 3
        if kind == _RESERVED:
            raise corrupt_error("a zstd block of the reserved type")
        at += 3 + (1 if kind == _RLE else block >> 3)
        _check_bounds(view, at)
    if has_checksum:
        at += 4  # The checksum of the frame; the library verifies it.
        _check_bounds(view, at)
    return at


def _read_number(view: memoryview, at: int, size: int) -> int:
    _check_bounds(view, at + size)
    return int.from_bytes(view[at : at + size], "little")


def _check_bounds(view: memoryview, end: int) -> None:
    if end > len(view):
        raise corrupt_error("zstd data ends early")
