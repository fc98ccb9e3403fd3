"""Compression and decompression by every codec; decompression bombs, truncated data, false sizes, invalid framings."""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard

from kwire.errors import CorruptRecords, LimitExceeded, UnsupportedCodec, WireError
from kwire.records import Codec, Record, parse_header, read_batches, write_batch, zstd_frame
from kwire.records.compression import compress, decompress, measure_decompressed
from tests.support.memory import memory_below

pytestmark = pytest.mark.slow

TEXT = b"the quick brown fox " * 5000
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MIB = 1 << 20


def sealed(records: list[Record], attributes: int) -> bytes:
    """A batch with a compression type that no writer produces."""
    data = bytearray(write_batch(records))
    data[22] = attributes
    return bytes(data)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(3 * MIB)], ids=["empty", "one", "text", "zeros"])
def test_compressed_data_decompresses_to_the_original(codec: Codec, data: bytes) -> None:
    assert decompress(codec, memoryview(compress(codec, data))) == data


def test_lz4_in_magic_0_is_read_with_the_old_checksum_and_with_the_right_one() -> None:
    old, right = compress(Codec.LZ4, TEXT, magic=0), compress(Codec.LZ4, TEXT, magic=1)

    assert old != right
    assert decompress(Codec.LZ4, old, magic=0) == decompress(Codec.LZ4, right, magic=0) == TEXT
    with pytest.raises(CorruptRecords):
        decompress(Codec.LZ4, old, magic=1)


def test_lz4_with_a_content_size_in_its_header_is_read() -> None:
    frame = lz4.frame.compress(TEXT, block_linked=False, store_size=True, content_checksum=True)

    assert decompress(Codec.LZ4, frame) == decompress(Codec.LZ4, frame, magic=0) == TEXT


def test_linked_lz4_blocks_are_rejected_as_in_kafka() -> None:
    with pytest.raises(CorruptRecords, match="linked blocks"):
        decompress(Codec.LZ4, lz4.frame.compress(TEXT))


def test_snappy_is_read_raw_and_in_xerial_streams_that_follow_each_other() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    framed = compress(Codec.SNAPPY, TEXT)

    assert decompress(Codec.SNAPPY, raw) == TEXT
    assert decompress(Codec.SNAPPY, framed + framed) == TEXT + TEXT


def test_gzip_members_and_zstd_frames_may_follow_each_other() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 3) + b"abc"

    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    assert decompress(Codec.ZSTD, zstandard.compress(b"one") + skippable + zstandard.compress(b"two")) == b"onetwo"


def test_a_zstd_frame_without_content_size_is_read() -> None:
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()

    assert decompress(Codec.ZSTD, stream.compress(TEXT) + stream.flush()) == TEXT


@pytest.mark.parametrize("codec", PACKED)
def test_the_limit_is_the_largest_accepted_size(codec: Codec) -> None:
    packed = compress(codec, TEXT)

    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(LimitExceeded, match=f"limit of {len(TEXT) - 1} bytes"):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_decompression_bomb_is_rejected_without_allocating_its_size(codec: Codec) -> None:
    packed = compress(codec, bytes(200 * MIB))

    with memory_below(16 * MIB), pytest.raises(LimitExceeded):
        decompress(codec, packed, 4 * MIB)


def test_a_decompression_bomb_in_a_batch_is_rejected() -> None:
    batch = parse_header(write_batch([Record(0, 0, None, bytes(5 * MIB))], codec="zstd"))

    with pytest.raises(LimitExceeded):
        batch.records(max_bytes=MIB)
    assert len(batch.records()) == 1


@pytest.mark.parametrize("magic", [1, 2])
def test_a_decompression_bomb_of_many_small_records_is_rejected(magic: int) -> None:
    tiny = [Record(number, 0) for number in range(40_000)]
    (batch,) = read_batches(write_batch(tiny, magic=magic, codec="gzip"))

    with memory_below(16 * MIB), pytest.raises(LimitExceeded, match="records of at least 64 bytes"):
        batch.records(max_bytes=2 * MIB)
    assert len(batch.records()) == 40_000


def test_a_snappy_block_with_a_false_size_is_rejected_before_memory_is_allocated() -> None:
    with pytest.raises(CorruptRecords, match="claims to hold"):
        decompress(Codec.SNAPPY, b"\x80\x80\x80\x20" + b"\x00a")


def test_a_zstd_window_above_the_limit_is_rejected() -> None:
    # Frame header: no content size, a window descriptor of exponent 21 (2 GiB), then one empty raw last block.
    with pytest.raises(LimitExceeded, match="window"):
        decompress(Codec.ZSTD, b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00")


def zstd_frames() -> dict[str, bytes]:
    """Frames of zstd, with the size of their content or with a window."""
    frames = {"size": zstandard.compress(TEXT), "size of two bytes": zstandard.compress(bytes(300))}
    for name, window_log in (("window", 21), ("large window", 23)):
        parameters = zstandard.ZstdCompressionParameters(window_log=window_log, compression_level=3)
        stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        frames[name] = stream.compress(TEXT) + stream.flush()
    return frames


def test_the_window_of_zstd_frames_is_what_the_library_reads() -> None:
    for name, frame in zstd_frames().items():
        expected = zstandard.get_frame_parameters(frame).window_size
        assert (name, zstd_frame.check_complete(frame)) == (name, expected)
    both = zstd_frames()
    assert zstd_frame.check_complete(both["size"] + both["large window"]) == 1 << 23


def test_contexts_of_zstd_are_used_again_unless_a_frame_needs_much_memory_or_is_broken() -> None:
    frames = zstd_frames()
    zstd_frame._decompressors.clear()
    decompress(Codec.ZSTD, frames["large window"])
    with pytest.raises(CorruptRecords):
        decompress(Codec.ZSTD, frames["size"][:-9] + b"\xff" * 9)
    with pytest.raises(LimitExceeded):
        decompress(Codec.ZSTD, frames["size"], 10)
    assert not zstd_frame._decompressors

    for _ in range(3):
        assert decompress(Codec.ZSTD, frames["window"]) == TEXT
        assert decompress(Codec.ZSTD, frames["size"]) == TEXT
    assert len(zstd_frame._decompressors) == 1


def test_two_zstd_streams_that_are_read_in_turns_have_contexts_of_their_own() -> None:
    parts = [zstd_frame.decompress_frames(compress(Codec.ZSTD, bytes((at,)) * 200_000), MIB) for at in range(6)]
    steps = [[next(part) for part in parts] for _ in range(2)]

    assert [set(chunk) for chunk in steps[0]] == [{at} for at in range(6)]
    assert [b"".join(chunks) for chunks in zip(*steps, *[[b"".join(part) for part in parts]], strict=True)] == [
        bytes((at,)) * 200_000 for at in range(6)
    ]
    assert len(zstd_frame._decompressors) <= 4


def test_compressors_of_high_levels_are_not_kept() -> None:
    for level in (3, 19):
        assert decompress(Codec.ZSTD, compress(Codec.ZSTD, TEXT * 50, level=level)) == TEXT * 50

    assert len(zstd_frame._compressors[3]) >= 1
    assert not zstd_frame._compressors[19]


@pytest.mark.parametrize("codec", PACKED)
def test_truncated_data_is_rejected_at_every_length(codec: Codec) -> None:
    packed = compress(codec, TEXT[:200])
    xerial_block_ends = {16} if codec is Codec.SNAPPY else set()  # A stream without blocks is complete.
    for size in set(range(len(packed))) - xerial_block_ends:
        with pytest.raises(WireError):
            decompress(codec, packed[:size])


@pytest.mark.parametrize("codec", PACKED)
def test_bytes_behind_the_end_are_rejected(codec: Codec) -> None:
    with pytest.raises(CorruptRecords):
        decompress(codec, compress(codec, TEXT) + b"\0\0")


@pytest.mark.parametrize("codec", PACKED)
def test_changed_data_gives_a_wire_error_or_other_bytes_and_no_other_exception(codec: Codec) -> None:
    packed = compress(codec, TEXT[:300])
    for at in range(len(packed)):
        for bit in range(8):
            wrong = bytearray(packed)
            wrong[at] ^= 1 << bit
            try:
                decompress(codec, bytes(wrong), MIB)
            except WireError:
                continue


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_compression_types_are_rejected(number: int) -> None:
    with pytest.raises(UnsupportedCodec, match=f"compression type {number}"):
        parse_header(sealed([Record(0)], number)).records()


def test_zstd_needs_batches_of_magic_2_in_both_directions() -> None:
    with pytest.raises(UnsupportedCodec):
        compress(Codec.ZSTD, b"x", magic=1)
    with pytest.raises(UnsupportedCodec):
        decompress(Codec.ZSTD, zlib.compress(b"x"), magic=0)


def test_a_level_makes_the_output_smaller() -> None:
    words = Path(__file__).read_bytes()
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 0, 12), (Codec.ZSTD, 1, 19)):
        assert len(compress(codec, words, level=high)) < len(compress(codec, words, level=low))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_the_decompressed_size_is_measured_within_the_limit(codec: Codec) -> None:
    data = compress(codec, bytes(3 << 20))

    assert measure_decompressed(codec, data, 3 << 20) == 3 << 20
    if codec is not Codec.NONE:
        with pytest.raises(LimitExceeded):
            measure_decompressed(codec, data, (3 << 20) - 1)


def test_gzip_input_is_read_in_parts() -> None:
    """zlib copies its unread input for each member and each step: 50,000 members were 26 GB of copies."""
    members = gzip.compress(b"ab") * 5000

    assert decompress(Codec.GZIP, members) == b"ab" * 5000
    large = random.Random(7).randbytes(5 << 20)
    assert decompress(Codec.GZIP, gzip.compress(large, 1)) == large
    for cut in (1, 9, 30_000, len(members) // 2):
        with pytest.raises(CorruptRecords):
            decompress(Codec.GZIP, members[: len(members) - 22 * 100 - cut] + b"\x1f\x8b\x08")
