"""lz4 frames as Kafka reads and writes them: independent blocks, and in magic 0 a checksum over too many bytes.

Kafka's first lz4 writer began the header's checksum at the frame's magic instead of after it (KAFKA-3160, KIP-57).
Magic 0 still has it: its checksum is written this way, and not checked when read. Only this byte needs xxHash.
"""

from __future__ import annotations

from collections.abc import Iterator

import lz4.frame

from kwire.records.failures import STEP_BYTES_MAX, Data, corrupt_error

_MAGIC = b"\x04\x22\x4d\x18"
_INDEPENDENT_BLOCKS = 0x20
_CONTENT_SIZE = 0x08
_MASK = 0xFFFFFFFF
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def compress_frame(data: bytes, *, old_checksum: bool, level: int = 0) -> bytes:
    """Write one frame with independent blocks of 64 KiB and no content size, as Kafka does."""
    frame: bytes = lz4.frame.compress(
        data, compression_level=level, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return _with_checksum(frame, 6, _header_checksum(frame[:6])) if old_checksum else frame


def decompress_frame(data: Data, *, old_checksum: bool) -> Iterator[bytes]:
    """Yield the content of one frame, in steps.

    Raises: CorruptRecords as `check_frame_header`, for invalid or incomplete data, and for bytes behind the frame.
    """
    frame = check_frame_header(data, old_checksum=old_checksum)
    step = min(STEP_BYTES_MAX, max(1 << 16, 4 * len(data)))  # The library allocates the whole step before it reads.
    unpacker = lz4.frame.LZ4FrameDecompressor()
    try:
        yield unpacker.decompress(frame, max_length=step)
        while not unpacker.eof:
            chunk = unpacker.decompress(b"", max_length=step)
            if not chunk and unpacker.needs_input:
                raise corrupt_error("lz4 data ends early")
            yield chunk
    except RuntimeError as error:
        raise corrupt_error(f"lz4 data is broken: {error}") from None
    if unpacker.unused_data:
        raise corrupt_error(f"{len(unpacker.unused_data)} bytes follow the lz4 frame")


def check_frame_header(data: Data, *, old_checksum: bool) -> Data:
    """Check the header of the frame; returns the frame in a form that the lz4 library reads.

    Raises: CorruptRecords for data that is not an lz4 frame, for linked blocks, and for flags that Kafka rejects.
    """
    if len(data) < 7 or data[:4] != _MAGIC:
        raise corrupt_error("lz4 data does not begin with a frame header")
    flags = data[4]
    if flags >> 6 != 1:
        raise corrupt_error(f"an lz4 frame of version {flags >> 6}, known is 1")
    if not flags & _INDEPENDENT_BLOCKS:
        raise corrupt_error("an lz4 frame with linked blocks, which Kafka refuses (KIP-57)")
    if flags & 3:
        raise corrupt_error(f"an lz4 frame with reserved flags or a dictionary: {flags:#04x}")
    if not old_checksum:
        return data
    end = 14 if flags & _CONTENT_SIZE else 6
    if len(data) <= end:
        raise corrupt_error("lz4 data ends within its header")
    return _with_checksum(bytes(data), end, _header_checksum(bytes(data[4:end])))


def _with_checksum(frame: bytes, at: int, checksum: int) -> bytes:
    return b"".join((frame[:at], bytes((checksum,)), frame[at + 1 :]))


def _header_checksum(header: bytes) -> int:
    """The second lowest byte of the header's xxHash-32 with seed 0.

    Source: LZ4 frame format 1.6 "Header Checksum"; xxHash specification, the rules for inputs under 16 bytes.
    """
    assert len(header) < 16
    prime1, prime2, prime3, prime4, prime5 = _PRIMES
    digest = prime5 + len(header)
    whole = len(header) & ~3
    for at in range(0, whole, 4):
        digest = digest + int.from_bytes(header[at : at + 4], "little") * prime3 & _MASK
        digest = _rotate_left(digest, 17) * prime4 & _MASK
    for byte in header[whole:]:
        digest = digest + byte * prime5 & _MASK
        digest = _rotate_left(digest, 11) * prime1 & _MASK
    digest = (digest ^ digest >> 15) * prime2 & _MASK
    digest = (digest ^ digest >> 13) * prime3 & _MASK
    return (digest ^ digest >> 16) >> 8 & 0xFF


def _rotate_left(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK
