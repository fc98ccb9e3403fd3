"""Compress and decompress the records of a batch, the latter never beyond a limit.

Every decompressor works in steps of at most 1 MiB and stops as soon as its output has passed the limit, so that a
small hostile batch cannot ask for much memory. Sizes that the data claims are checked before they are believed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import lz4.frame
import zstandard

from kwire.errors import UnsupportedCodec
from kwire.records import lz4_frame, snappy, zstd_frame
from kwire.records.faults import Data, bomb, corrupt
from kwire.records.record import Codec

DEFAULT_MAX_BYTES = 128 * 1024 * 1024
"""What the records of one batch may decompress to unless the caller says otherwise: 128 MiB."""

RECORD_COST = 64
"""What each decompressed record counts at least: the smallest has 7 bytes, but as an object far more."""

_STEP_MAX = 1 << 20
_ZSTD_WINDOW_MIN = 8 << 20  # RFC 8878 section 3.1.1.1.2: every decoder should support windows of 8 MiB.
_GZIP_WBITS = 31  # zlib's number for the largest window in a gzip wrapper.


def decompress(codec: Codec, data: Data, max_bytes: int = DEFAULT_MAX_BYTES, *, magic: int = 2) -> bytes:
    """Decompress the records of one batch.

    Args: max_bytes: what the output may hold; a zstd window may be as large, and 8 MiB in any case.
        magic: of the batch: 0 stands for the old lz4 header checksum, and zstd needs 2.
    Raises: LimitExceeded above `max_bytes`; CorruptRecords for data that the codec refuses or that ends early;
        UnsupportedCodec for zstd before magic 2.
    Source: KIP-110 for zstd; KIP-57 for lz4.
    """
    if codec is Codec.NONE:
        return bytes(data)
    chunks: list[bytes] = []
    room = max_bytes
    for chunk in _chunks(codec, data, max_bytes, magic):
        room -= len(chunk)
        if room < 0:
            raise bomb(codec.label, len(data), max_bytes)
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def compress(codec: Codec, data: bytes, *, magic: int = 2, level: int | None = None) -> bytes:
    """Compress the records of one batch as Kafka's own writer frames them.

    Args: level: the codec's own number; None is its default. Snappy has none.
    Raises: UnsupportedCodec for zstd before magic 2.
    """
    if codec is Codec.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WBITS)
        return packer.compress(data) + packer.flush()
    if codec is Codec.SNAPPY:
        return snappy.compress(data)
    if codec is Codec.LZ4:
        return lz4_frame.compress(data, old_checksum=magic == 0, level=level or 0)
    if codec is Codec.ZSTD:
        _zstd_needs_v2(magic)
        return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
    return data


def check_count(codec: Codec, count: int, size: int, max_bytes: int) -> None:
    """Raise LimitExceeded when so many records of one compressed batch are more than the limit, however small they are.

    Twelve kilobytes of zstd can hold eighteen million empty records, which as objects would take gigabytes.
    """
    if count * RECORD_COST > max_bytes:
        raise bomb(f"{codec.label}, {count} records of at least {RECORD_COST} bytes", size, max_bytes)


def codec_of(attributes: int, at: int) -> Codec:
    """The codec that the lowest three bits of a batch's attributes name.

    Raises: UnsupportedCodec for 5, 6 and 7, which Kafka does not know either.
    """
    number = attributes & 7
    if number > Codec.ZSTD:
        raise UnsupportedCodec("attributes", at, f"compression type {number}, known are 0 (none) to 4 (zstd)")
    return Codec(number)


def _zstd_needs_v2(magic: int) -> None:
    if magic < 2:
        raise UnsupportedCodec("attributes", None, f"zstd needs record batches v2, not magic {magic}")


def _chunks(codec: Codec, data: Data, max_bytes: int, magic: int) -> Iterator[bytes]:
    if codec is Codec.GZIP:
        return _gunzip(data)
    if codec is Codec.SNAPPY:
        return snappy.decompress(data, max_bytes)
    if codec is Codec.LZ4:
        return _unlz4(data, old_checksum=magic == 0)
    _zstd_needs_v2(magic)
    return _unzstd(data, max(max_bytes, _ZSTD_WINDOW_MIN))


def _gunzip(data: Data) -> Iterator[bytes]:
    """Several members may follow each other, as RFC 1952 section 2.2 allows and Java's reader takes."""
    rest: Data = data
    while True:
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            try:
                chunk = member.decompress(rest, _STEP_MAX)
            except zlib.error as error:
                raise corrupt(f"gzip data is broken: {error}") from None
            rest = member.unconsumed_tail
            if not chunk and not rest and not member.eof:
                raise corrupt("gzip data ends early")
            yield chunk
        rest = member.unused_data
        if not rest:
            return


def _unlz4(data: Data, *, old_checksum: bool) -> Iterator[bytes]:
    frame = lz4_frame.checked(data, old_checksum=old_checksum)
    step = min(_STEP_MAX, max(1 << 16, 4 * len(data)))  # The library allocates the whole step before it reads.
    unpacker = lz4.frame.LZ4FrameDecompressor()
    try:
        yield unpacker.decompress(frame, max_length=step)
        while not unpacker.eof:
            chunk = unpacker.decompress(b"", max_length=step)
            if not chunk and unpacker.needs_input:
                raise corrupt("lz4 data ends early")
            yield chunk
    except RuntimeError as error:
        raise corrupt(f"lz4 data is broken: {error}") from None
    if unpacker.unused_data:
        raise corrupt(f"{len(unpacker.unused_data)} bytes follow the lz4 frame")


def _unzstd(data: Data, window_max: int) -> Iterator[bytes]:
    zstd_frame.check_whole(data)
    step = min(_STEP_MAX, max(1 << 16, 8 * len(data)))  # The library allocates the whole step before it reads.
    source = zstandard.ZstdDecompressor(max_window_size=window_max).stream_reader(data, read_across_frames=True)
    try:
        while chunk := source.read(step):
            yield chunk
    except zstandard.ZstdError as error:
        if "too much memory" in str(error):
            raise bomb("zstd window", len(data), window_max) from None
        raise corrupt(f"zstd data is broken: {error}") from None
