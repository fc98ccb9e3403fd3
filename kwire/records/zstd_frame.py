"""Walk the outside of zstd data: are all its frames there, and whole?

The streaming reader that bounds the output ends silently where the input does. The frames' headers and block headers
tell, without decompressing anything, whether that end is the right one. Source: RFC 8878 sections 3.1.1 and 3.1.2.
"""

from __future__ import annotations

from kwire.records.faults import Data, corrupt

_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_RLE, _RESERVED = 1, 3


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
