"""Snappy as Kafka's clients write it: blocks in the framing of xerial's snappy-java, or one raw block.

Xerial's framing: a magic of 8 bytes, two int32 versions, then blocks, each an int32 size and one raw snappy block.
Streams may follow each other, each with a header of its own. Data without the magic is one raw block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cramjam

from kwire.records.faults import Data, bomb, corrupt

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = struct.Struct(">8sii")
_SIZE = struct.Struct(">i")
_BLOCK_SIZE = 32 * 1024  # What snappy-java cuts its input into.

# A snappy copy element of 3 bytes gives at most 64 bytes, so no honest block grows more than this.
_RATIO_MAX = 22


def compress(data: bytes) -> bytes:
    """Write xerial's framing, version 1, in blocks of 32 KiB."""
    parts = [_HEADER.pack(_MAGIC, 1, 1)]
    for start in range(0, len(data), _BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _BLOCK_SIZE]))
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def decompress(data: Data, max_bytes: int) -> Iterator[bytes]:
    """Yield the blocks of either form.

    Raises: LimitExceeded when a block alone claims more than `max_bytes`; CorruptRecords.
    """
    view = memoryview(data)
    if len(view) < _HEADER.size or view[:8] != _MAGIC:
        yield _block(view, max_bytes)
        return
    at = 0
    while at < len(view):
        if view[at : at + 8] == _MAGIC:
            _check_header(view, at)
            at += _HEADER.size
            continue
        if len(view) - at < _SIZE.size:
            raise corrupt("xerial snappy data ends within a block size")
        (size,) = _SIZE.unpack_from(view, at)
        at += _SIZE.size
        if not 0 <= size <= len(view) - at:
            raise corrupt(f"a xerial snappy block of {size} bytes where {len(view) - at} are left")
        yield _block(view[at : at + size], max_bytes)
        at += size


def _check_header(view: memoryview, at: int) -> None:
    if len(view) - at < _HEADER.size:
        raise corrupt("xerial snappy data ends within its header")
    _, _, compatible = _HEADER.unpack_from(view, at)
    if compatible < 1:
        raise corrupt(f"xerial snappy data of compatible version {compatible}, known are 1 and above")


def _block(block: memoryview, max_bytes: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _RATIO_MAX * len(block):
            raise corrupt(f"a snappy block of {len(block)} bytes claims to hold {size}")
        if size > max_bytes:
            raise bomb("snappy", len(block), max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise corrupt(f"snappy data is broken: {error}") from None
