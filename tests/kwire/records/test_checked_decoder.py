"""Hostile bytes give records or WireErrors with an offset, no other exception, and need little memory."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.errors import (
    CorruptRecords,
    InvalidLength,
    InvalidUtf8,
    InvalidVarint,
    LimitExceeded,
    Truncated,
    UnexpectedNull,
    WireError,
)
from kwire.records import Batch, Codec, Record, parse_header, read_batches, write_batch
from kwire.records.record import BatchBase
from kwire.records.record_decoder import decode_records_pure
from tests.support.memory import memory_below

BODY_AT = 61


def framed(body: bytes, count: int = 1, base_offset: int = 0, base_timestamp: int = 0) -> Batch:
    """A batch with a valid header and any body."""
    data = bytearray(write_batch([Record(base_offset, base_timestamp)])[:BODY_AT]) + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return parse_header(bytes(data))


def read_all(data: bytes, *, verify: bool) -> list[Record]:
    return [record for batch in read_batches(data, verify=verify) for record in batch.records(1 << 20)]


LONG = [Record(3, 70_000, b"key", b"v" * 200, (("name", b"x"), ("empty", None))), Record(9, 1, None, None)]
BARE = [Record(3, 7, b"k", b"v" * 99), Record(4)]
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
SAMPLES = [write_batch(LONG, codec=codec) for codec in Codec]
SAMPLES += [write_batch(BARE, magic=magic, codec=codec) for magic in (0, 1) for codec in OLD_CODECS]


@pytest.mark.parametrize("sample", SAMPLES)
def test_no_prefix_of_a_batch_is_a_batch(sample: bytes) -> None:
    messages = [batch.size for batch in read_batches(sample)]
    whole = {sum(messages[:count]) for count in range(len(messages) + 1)}
    for size in set(range(len(sample))) - whole:
        with pytest.raises(CorruptRecords):
            read_all(sample[:size], verify=True)


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("strict", [True, False])
def test_a_changed_byte_gives_records_or_a_wire_error(sample: bytes, strict: bool) -> None:
    for at in range(len(sample)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF, sample[at] ^ 0x10):
            wrong = sample[:at] + bytes((value,)) + sample[at + 1 :]
            try:
                for batch in read_batches(wrong, verify=False):
                    batch.records(1 << 20, strict=strict)
            except WireError:
                continue


@given(data=st.binary(max_size=300), verify=st.booleans())
@settings(max_examples=300, deadline=None)
def test_random_bytes_never_raise_anything_else(data: bytes, verify: bool) -> None:
    try:
        read_all(data, verify=verify)
    except WireError:
        return


@given(body=st.binary(max_size=120), count=st.integers(0, 2**31 - 1), strict=st.booleans())
@settings(max_examples=500, deadline=None)
def test_random_bodies_never_raise_anything_else_and_give_at_most_the_count(
    body: bytes, count: int, strict: bool
) -> None:
    batch = framed(body, count)
    try:
        records = batch.records(strict=strict)
    except WireError:
        return
    assert len(records) == count


@pytest.mark.parametrize(
    ("body", "error", "path", "at"),
    [
        (b"\x0c\0\0\0\x01\x01", Truncated, "records[0].headers", 67),
        (b"\x0e\0\0\0\x01\x01\0", CorruptRecords, "records[0]", 61),
        (b"\x0c\0\0\0\x01\x01\0\0", CorruptRecords, "records", 68),
        (b"\x0d\0\0\0\x01\x01\0", InvalidLength, "records[0].size", 61),
        (b"\x0c\0\0\0\x03\x01\0", InvalidLength, "records[0].key", 65),
        (b"\x0c\0\0\0\x01\x10\0", Truncated, "records[0].value", 67),
        (b"\xff\xff\xff\xff\xff\x0f", InvalidVarint, "records[0].size", 61),
        (b"\xff\xff\xff\xff\x7f", InvalidVarint, "records[0].size", 61),
        (b"\x0c\0\0\0\x01\x01\x01", InvalidLength, "records[0].headers", 67),
        # 63 headers, for which no bytes are left.
        (b"\x0c\0\0\0\x01\x01\x7e", Truncated, "records[0].headers", 68),
        (b"\x10\0\0\0\x01\x01\x02\x01\0", UnexpectedNull, "records[0].headers[0].key", 68),
        (b"\x12\0\0\0\x01\x01\x02\x02\xff\x01", InvalidUtf8, "records[0].headers[0].key", 68),
    ],
)
def test_an_error_names_the_field_and_its_offset(body: bytes, error: type[WireError], path: str, at: int) -> None:
    with pytest.raises(error) as caught:
        framed(body).records()

    assert (caught.value.path, caught.value.at) == (path, at)


def test_a_lenient_read_accepts_invalid_header_names_and_nulls_as_kafka_does() -> None:
    (record,) = framed(b"\x12\0\0\0\x05\x01\x02\x02\xff\x01").records(strict=False)

    assert (record.key, record.value, record.headers) == (None, None, (("�", None),))


@pytest.mark.parametrize("count", [2, 1000, 2**31 - 1])
def test_an_impossible_count_allocates_no_memory(count: int) -> None:
    batch = framed(b"\x0c\0\0\0\x01\x01\0", count)

    with memory_below(100_000), pytest.raises(WireError):
        batch.records()


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 48, 2**31 - 1])
def test_hostile_batch_lengths_are_rejected(length: int) -> None:
    data = bytearray(write_batch([Record(0)]))
    struct.pack_into(">i", data, 8, length)

    with pytest.raises(CorruptRecords):
        parse_header(bytes(data))


def test_sums_beyond_64_bits_wrap_around_as_in_kafka() -> None:
    far = framed(b"\x0e\0\x80\x01\0\x01\x01\0", base_timestamp=2**63 - 1).records()
    wide = framed(b"\x1e\0" + b"\xfe" + b"\xff" * 8 + b"\x01\0\x01\x01\0", base_timestamp=2**62).records()

    assert far[0].timestamp == -(2**63) + 63
    assert wide[0].timestamp == 2**62 + 2**63 - 1 - 2**64


def test_offsets_beyond_64_bits_are_rejected_with_the_header() -> None:
    data = bytearray(write_batch([Record(0), Record(1)]))
    struct.pack_into(">q", data, 0, 2**63 - 1)

    with pytest.raises(CorruptRecords, match="base offset"):
        parse_header(bytes(data))


def test_the_headers_of_a_compressed_batch_are_limited_with_its_records() -> None:
    """A few hundred bytes hold a million empty headers, which as objects would take a hundred megabytes."""
    rows = [Record(at, 0, None, None, (("", None),) * 100) for at in range(10)]
    batch = parse_header(write_batch(rows, codec=Codec.GZIP))

    assert batch.records(max_count=1010) == rows
    for count in (1009, 10, 9):
        with pytest.raises(LimitExceeded):
            batch.records(max_count=count)
    large = parse_header(write_batch([Record(0, headers=(("", None),) * 3_000_000)], codec="zstd"))
    with memory_below(20 << 20), pytest.raises(LimitExceeded):
        large.records()


def test_headers_above_the_limit_are_found_without_the_accelerator() -> None:
    rows = [Record(at, 0, None, None, (("", b"\xff"),) * 100) for at in range(10)]
    body = write_batch(rows)[BODY_AT:]
    base = BatchBase(10, 0, 0, None, 0)

    assert decode_records_pure(body, base, headers_max=1000) == rows
    with pytest.raises(LimitExceeded, match=r"records\[9\]\.headers"):
        decode_records_pure(body, base, headers_max=999)


@pytest.mark.parametrize("strict", [True, False])
def test_each_invalid_record_costs_one_record_not_the_whole_batch(strict: bool) -> None:
    """Lengths of -2, which Kafka reads as null, and an invalid last record: the path is built only for the error."""
    count = 20_000
    body = b"\x0c\0\0\0\x03\x01\0" * (count - 1) + b"\x0c\0\0\0\x01\x01\x09"
    with pytest.raises(WireError, match=r"records\[0\]\.key" if strict else rf"records\[{count - 1}\]\.headers"):
        framed(body, count).records(strict=strict)
    if not strict:
        valid = framed(body[:-1] + b"\0", count).records(strict=False)
        assert {(record.key, record.value) for record in valid} == {(None, None)}
