"""Compression and decompression of the records of a batch, with a limit of the decompressed size.

Every decompressor works in steps of at most 1 MiB and stops as soon as its output exceeds the limit, so that a small
hostile batch cannot use much memory. Sizes in the data are checked before memory is allocated. The library of a codec
is imported on first use: a broker starts faster, and few programs use all four.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from kwire.errors import UnsupportedCodec
from kwire.records.failures import STEP_BYTES_MAX, Data, corrupt_error, expansion_error
from kwire.records.record import Codec

DEFAULT_MAX_BYTES = 128 * 1024 * 1024
"""The default limit of the decompressed size of one batch: 128 MiB."""

RECORD_COST = 64
"""The minimum that a decompressed record or header counts: the smallest have 7 and 2 bytes, but as objects far more."""

_GZIP_WBITS = 31  # zlib's number for the largest window in a gzip wrapper.
_GZIP_INPUT_MAX = 16 << 10
#: By number.
_CODECS = tuple(Codec)


def decompress(codec: Codec, data: Data, max_bytes: int = DEFAULT_MAX_BYTES, *, magic: int = 2) -> bytes:
    """Decompress the records of one batch.

    Args: max_bytes: the limit of the output; a zstd window may be as large, and 8 MiB in any case.
        magic: of the batch: 0 means the old lz4 header checksum, and zstd needs 2.
    Raises: LimitExceeded above `max_bytes`; CorruptRecords for data that is invalid or ends early;
        UnsupportedCodec for zstd before magic 2.
    Source: KIP-110 for zstd; KIP-57 for lz4.
    """
    if codec is Codec.NONE:
        return bytes(data)
    chunks = list(_limited_chunks(codec, data, max_bytes, magic))
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def measure_decompressed(codec: Codec, data: Data, max_bytes: int = DEFAULT_MAX_BYTES, *, magic: int = 2) -> int:
    """The size of the decompressed records, of which only a part is in memory at a time. As `decompress` otherwise."""
    if codec is Codec.NONE:
        return len(data)
    return sum(map(len, _limited_chunks(codec, data, max_bytes, magic)))


def compress(codec: Codec, data: bytes, *, magic: int = 2, level: int | None = None) -> bytes:
    """Compress the records of one batch framed as by Kafka's writer.

    Args: level: the compression level of the codec; None is its default. Snappy has none.
    Raises: UnsupportedCodec for zstd before magic 2.
    """
    if codec is Codec.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
        return packer.compress(data) + packer.flush()
    if codec is Codec.SNAPPY:
        from kwire.records import snappy

        return snappy.compress_blocks(data)
    if codec is Codec.LZ4:
        from kwire.records import lz4_frame

        return lz4_frame.compress_frame(data, old_checksum=magic == 0, level=level or 0)
    if codec is Codec.ZSTD:
        from kwire.records import zstd_frame

        _check_zstd_magic(magic)
        return zstd_frame.compress_frame(data, level=level)
    return data


def check_count(codec: Codec, count: int, size: int, max_bytes: int) -> None:
    """Raise LimitExceeded when this many records of one compressed batch exceed the limit at their minimum size.

    Twelve kilobytes of zstd can hold eighteen million empty records, which as objects would take gigabytes.
    """
    if count * RECORD_COST > max_bytes:
        raise expansion_error(f"{codec.label}, {count} records of at least {RECORD_COST} bytes", size, max_bytes)


def codec_of(attributes: int, at: int) -> Codec:
    """The codec that the lowest three bits of a batch's attributes name.

    Raises: UnsupportedCodec for 5, 6 and 7, as in Kafka.
    """
    number = attributes & 7
    if number > Codec.ZSTD:
        raise UnsupportedCodec("attributes", at, f"compression type {number}, known are 0 (none) to 4 (zstd)")
    return _CODECS[number]


def _limited_chunks(codec: Codec, data: Data, max_bytes: int, magic: int) -> Iterator[bytes]:
    bytes_left = max_bytes
    for chunk in _decompress_chunks(codec, data, max_bytes, magic):
        bytes_left -= len(chunk)
        if bytes_left < 0:
            raise expansion_error(codec.label, len(data), max_bytes)
        yield chunk


def _check_zstd_magic(magic: int) -> None:
    if magic < 2:
        raise UnsupportedCodec("attributes", None, f"zstd needs record batches v2, not magic {magic}")


def _decompress_chunks(codec: Codec, data: Data, max_bytes: int, magic: int) -> Iterator[bytes]:
    if codec is Codec.GZIP:
        return _gunzip(data)
    if codec is Codec.SNAPPY:
        from kwire.records import snappy

        return snappy.decompress_blocks(data, max_bytes)
    if codec is Codec.LZ4:
        from kwire.records import lz4_frame

        return lz4_frame.decompress_frame(data, old_checksum=magic == 0)
    from kwire.records import zstd_frame

    _check_zstd_magic(magic)
    return zstd_frame.decompress_frames(data, max_bytes)


def _gunzip(data: Data) -> Iterator[bytes]:
    """Several members may follow each other, as RFC 1952 section 2.2 and Java's reader allow."""
    view, at = memoryview(data), 0
    while True:
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            # zlib copies what it leaves unread, so it gets a part at a time: the input would be copied for each member
            # and for each step.
            given = view[at : at + _GZIP_INPUT_MAX]
            try:
                chunk = member.decompress(given, STEP_BYTES_MAX)
            except zlib.error as error:
                raise corrupt_error(f"gzip data is broken: {error}") from None
            left = len(member.unused_data) if member.eof else len(member.unconsumed_tail)
            at += len(given) - left
            if not chunk and not given and not member.eof:
                raise corrupt_error("gzip data ends early")
            yield chunk
        if at == len(view):
            return
