"""Zstd as Kafka's clients write it, and a walk along the outside of the data: are all its frames there, and whole?

The streaming reader that bounds the output ends silently where the input does. The frames' headers and block headers
tell, without decompressing anything, whether that end is the right one. Source: RFC 8878 sections 3.1.1 and 3.1.2.
"""

from __future__ import annotations

from collections.abc import Iterator

import zstandard

from kwire.records.faults import STEP_MAX, Data, bomb, corrupt

_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_RLE, _RESERVED = 1, 3
_WINDOW_MIN = 8 << 20  # RFC 8878 section 3.1.1.1.2: every decoder should support windows of 8 MiB.
_LEVEL = 3


def compress(data: bytes, *, level: int | None = None) -> bytes:
    """Write one frame; `level` is zstd's own number."""
    return zstandard.ZstdCompressor(level=_LEVEL if level is None else level).compress(data)


def decompress(data: Data, max_bytes: int) -> Iterator[bytes]:
    """Yield what the frames hold, in steps.

    Raises: LimitExceeded for a window above `max_bytes` and 8 MiB; CorruptRecords for broken or unfinished data.
    """
    window_max = max(max_bytes, _WINDOW_MIN)
    check_whole(data)
    step = min(STEP_MAX, max(1 << 16, 8 * len(data)))  # The library allocates the whole step before it reads.
    source = zstandard.ZstdDecompressor(max_window_size=window_max).stream_reader(data, read_across_frames=True)
    try:
        while chunk := source.read(step):
            yield chunk
    except zstandard.ZstdError as error:
        if "too much memory" in str(error):
            raise bomb("zstd window", len(data), window_max) from None
        raise corrupt(f"zstd data is broken: {error}") from None


def check_whole(data: Data) -> None:
    """Raise CorruptRecords unless the data is one or more whole frames and nothing else."""
    view = memoryview(data)
    at = 0
    while True:
        at = _after_frame(view, at)
        if at == len(view):
            return


def _after_frame(view: memoryview, at: int) -> int:
    magic = _number(view, at, 4)
    at += 4
    if magic & 0xFFFFFFF0 == _SKIPPABLE_MAGIC:
        at += 4 + _number(view, at, 4)
        _within(view, at)
        return at
    if magic != _MAGIC:
        raise corrupt(f"no zstd frame begins with {magic:#010x}")
    descriptor = _number(view, at, 1)
    single_segment = bool(descriptor & 0x20)
    size_flag = descriptor >> 6
    at += 1 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3]
    at += (int(single_segment), 2, 4, 8)[size_flag]
    last = False
    while not last:
        block = _number(view, at, 3)
        last = bool(block & 1)
        kind = block >> 1 & 3
        if kind == _RESERVED:
            raise corrupt("a zstd block of the reserved type")
        at += 3 + (1 if kind == _RLE else block >> 3)
        _within(view, at)
    if descriptor & 4:
        at += 4  # The frame's checksum; the library checks it.
        _within(view, at)
    return at


def _number(view: memoryview, at: int, size: int) -> int:
    _within(view, at + size)
    return int.from_bytes(view[at : at + size], "little")


def _within(view: memoryview, end: int) -> None:
    if end > len(view):
        raise corrupt("zstd data ends early")
