"""Snappy data of Kafka's clients: blocks in the framing of xerial's snappy-java, or one raw block.

Xerial's framing: a magic of 8 bytes, two int32 versions, then blocks, each an int32 size and one raw snappy block.
Several streams may follow each other, each with its header. Data without the magic is one raw block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cramjam

from kwire.records.failures import Data, corrupt_error, expansion_error

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = struct.Struct(">8sii")
_SIZE = struct.Struct(">i")
_BLOCK_SIZE = 32 * 1024  # The block size of snappy-java.

# A snappy copy element of 3 bytes yields at most 64 bytes, so no valid block expands more than this.
_RATIO_MAX = 22


def compress_blocks(data: bytes) -> bytes:
    """Write xerial's framing, version 1, in blocks of 32 KiB."""
    parts = [_HEADER.pack(_MAGIC, 1, 1)]
    for start in range(0, len(data), _BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _BLOCK_SIZE]))
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def decompress_blocks(data: Data, max_bytes: int) -> Iterator[bytes]:
    """Yield the blocks of either form.

    Raises: LimitExceeded when the size of a single block exceeds `max_bytes`; CorruptRecords.
    """
    view = memoryview(data)
    if len(view) < _HEADER.size or view[:8] != _MAGIC:
        yield _decompress_block(view, max_bytes)
        return
    at = 0
    while at < len(view):
        if view[at : at + 8] == _MAGIC:
            _check_header(view, at)
            at += _HEADER.size
            continue
        if len(view) - at < _SIZE.size:
            raise corrupt_error("xerial snappy data ends within a block size")
        (size,) = _SIZE.unpack_from(view, at)
        at += _SIZE.size
        if not 0 <= size <= len(view) - at:
            raise corrupt_error(f"a xerial snappy block of {size} bytes where {len(view) - at} are left")
        yield _decompress_block(view[at : at + size], max_bytes)
        at += size


def _check_header(view: memoryview, at: int) -> None:
    if len(view) - at < _HEADER.size:
        raise corrupt_error("xerial snappy data ends within its header")
    _, _, compatible = _HEADER.unpack_from(view, at)
    if compatible < 1:
        raise corrupt_error(f"xerial snappy data of compatible version {compatible}, known are 1 and above")


def _decompress_block(block: memoryview, max_bytes: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _RATIO_MAX * len(block):
            raise corrupt_error(f"a snappy block of {len(block)} bytes claims to hold {size}")
        if size > max_bytes:
            raise expansion_error("snappy", len(block), max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise corrupt_error(f"snappy data is broken: {error}") from None
