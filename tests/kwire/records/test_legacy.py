"""Messages of magic 0 and 1: offsets and times in wrappers, and invalid wrappers."""

from __future__ import annotations

import struct
import zlib

import pytest

from kwire.errors import CorruptRecords, Truncated, UnsupportedCodec, WireError
from kwire.records import Codec, Record, TimestampType, read_batches, write_batch

PAIR = [Record(100, 50, b"a", b"1"), Record(103, 60, None, b"2")]


def wrapper(inner: bytes, *, magic: int, offset: int, attributes: int = 1, timestamp: int = 60) -> bytes:
    """A gzip wrapper around any bytes."""
    packed = zlib.compress(inner, wbits=31)
    times = struct.pack(">q", timestamp) if magic else b""
    body = struct.pack(">bb", magic, attributes) + times + struct.pack(">ii", -1, len(packed)) + packed
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def plain(*records: Record, magic: int) -> bytes:
    return write_batch(records, magic=magic)


def test_uncompressed_messages_are_batches_of_one_record() -> None:
    first, second = read_batches(plain(*PAIR, magic=1))

    assert first.records() + second.records() == PAIR
    assert (second.base_offset, second.last_offset, second.count) == (103, 103, 1)
    assert (second.producer_id, second.partition_leader_epoch, second.is_transactional) == (-1, -1, False)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_a_wrapper_of_magic_1_has_relative_offsets_and_the_offset_of_its_last_record(codec: Codec) -> None:
    (batch,) = read_batches(write_batch(PAIR, magic=1, codec=codec))

    assert batch.records() == PAIR
    assert (batch.base_offset, batch.last_offset, batch.count, batch.max_timestamp) == (100, 103, 2, 60)


def test_a_wrapper_of_magic_0_has_absolute_offsets_and_no_times() -> None:
    (batch,) = read_batches(write_batch(PAIR, magic=0, codec="lz4"))

    assert [(record.offset, record.timestamp) for record in batch.records()] == [(100, -1), (103, -1)]
    assert batch.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE


def test_a_produced_wrapper_with_offset_0_keeps_the_inner_offsets() -> None:
    inner = plain(Record(0, 1, None, b"a"), Record(1, 2, None, b"b"), magic=1)

    (batch,) = read_batches(wrapper(inner, magic=1, offset=0))

    assert [record.offset for record in batch.records()] == [0, 1]


def test_the_append_time_of_a_wrapper_applies_to_all_its_records() -> None:
    inner = plain(Record(0, 1, None, b"a"), Record(1, 2, None, b"b"), magic=1)

    (batch,) = read_batches(wrapper(inner, magic=1, offset=8, attributes=9, timestamp=99))

    assert [(record.offset, record.timestamp) for record in batch.records()] == [(7, 99), (8, 99)]


@pytest.mark.parametrize(
    ("inner", "offset", "complaint"),
    [
        (b"", 5, "nothing inside"),
        (plain(*PAIR, magic=0), 105, "magic 0 inside one of magic 1"),
        (write_batch(PAIR, magic=1, codec="gzip"), 105, "compressed message inside"),
        (plain(Record(7), magic=1), 5, "wrapper offset 5"),
        (plain(*PAIR, magic=1) + b"\0" * 12, 105, "inner message of 0 bytes"),
    ],
)
def test_a_wrapper_that_kafka_rejects_is_rejected(inner: bytes, offset: int, complaint: str) -> None:
    (batch,) = read_batches(wrapper(inner, magic=1, offset=offset))

    with pytest.raises(CorruptRecords, match=complaint):
        batch.records()


def test_a_truncated_inner_message_is_an_error_but_omitted_as_in_kafka_when_lenient() -> None:
    (batch,) = read_batches(wrapper(plain(*PAIR, magic=0)[:-1], magic=0, offset=103))

    with pytest.raises(Truncated):
        batch.records()
    assert [record.offset for record in batch.records(strict=False)] == [100]


def test_an_inner_checksum_is_verified_only_by_a_strict_read() -> None:
    inner = bytearray(plain(PAIR[0], magic=0))
    inner[-1] ^= 1
    (batch,) = read_batches(wrapper(bytes(inner), magic=0, offset=100))

    with pytest.raises(CorruptRecords, match="CRC-32"):
        batch.records()
    assert batch.records(strict=False)[0].value == b"0"


def test_a_wrapper_without_a_value_is_rejected() -> None:
    body = struct.pack(">bbqii", 1, 1, 0, -1, -1)
    (batch,) = read_batches(struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body)

    with pytest.raises(CorruptRecords, match="null value"):
        batch.records()


def test_zstd_before_magic_2_is_rejected_both_ways() -> None:
    with pytest.raises(UnsupportedCodec, match="zstd needs record batches v2"):
        write_batch(PAIR, magic=1, codec="zstd")
    (batch,) = read_batches(wrapper(plain(*PAIR, magic=1), magic=1, offset=103, attributes=4))
    with pytest.raises(UnsupportedCodec, match="zstd needs record batches v2"):
        batch.records()


def test_the_three_formats_may_follow_each_other() -> None:
    data = write_batch(PAIR, magic=0) + write_batch(PAIR, magic=1, codec="gzip") + write_batch(PAIR)

    assert [batch.magic for batch in read_batches(data)] == [0, 0, 1, 2]


def test_offsets_beyond_64_bits_wrap_around_as_in_kafka() -> None:
    inner = plain(Record(2**63 - 1, 1), magic=1) + plain(Record(0, 1), magic=1)

    (batch,) = read_batches(wrapper(inner, magic=1, offset=5))

    assert [record.offset for record in batch.records()] == [-(2**63) + 4, 5]


@pytest.mark.parametrize("magic", [0, 1])
def test_lengths_inside_a_message_are_checked_one_by_one(magic: int) -> None:
    data = write_batch([Record(0, 0, b"key", b"value")], magic=magic)
    for at in range(18 + 8 * magic, len(data)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            wrong = data[:at] + bytes((value,)) + data[at + 1 :]
            (batch,) = read_batches(wrong, verify=False)
            try:
                batch.records()
            except WireError:
                continue
            assert len(batch.records()) == 1
