"""Batch headers, the fields that a broker changes, gaps, and the end of reading."""

from __future__ import annotations

import pytest

from kwire.errors import CorruptRecords, InvalidValue
from kwire.records import (
    Record,
    TimestampType,
    parse_header,
    patch_offset_and_epoch,
    read_batches,
    with_append_time,
    write_batch,
)

HEADERS = (("h", b"1"), ("h", None))
THREE = [Record(10, 1000, b"k", b"v"), Record(12, 1005, None, None, HEADERS), Record(15, 990, b"", b"")]


def test_header_fields_are_read_as_written() -> None:
    data = write_batch(THREE, base_offset=9, last_offset=20, producer_id=7, producer_epoch=3, base_sequence=41,
                       transactional=True, partition_leader_epoch=5)  # fmt: skip

    batch = parse_header(b"junk" + data, 4)

    assert (batch.base_offset, batch.last_offset, batch.count, batch.magic) == (9, 20, 3, 2)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 41)
    assert (batch.partition_leader_epoch, batch.max_timestamp, batch.base_timestamp) == (5, 1005, 1000)
    assert batch.is_transactional
    assert not batch.is_control
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert bytes(batch.raw) == data
    assert batch.size == len(data)
    assert batch.records() == THREE


def test_patching_changes_offset_and_epoch_but_not_the_checksum() -> None:
    buffer = bytearray(b"....") + write_batch([Record(0, 5, None, b"a"), Record(1, 6, None, b"b")])

    patch_offset_and_epoch(buffer, 1_000_000_000_000, 17, at=4)

    (batch,) = read_batches(bytes(buffer[4:]))
    assert batch.partition_leader_epoch == 17
    assert [record.offset for record in batch.records()] == [1_000_000_000_000, 1_000_000_000_001]


def test_append_time_replaces_every_timestamp_and_updates_the_checksum() -> None:
    data = write_batch(THREE, codec="gzip", transactional=True)

    (batch,) = read_batches(with_append_time(data, 777))

    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.is_transactional
    assert batch.max_timestamp == 777
    assert [record.timestamp for record in batch.records()] == [777, 777, 777]
    assert [record.offset for record in batch.records()] == [10, 12, 15]


def test_delete_horizon_is_the_base_timestamp_and_does_not_change_record_timestamps() -> None:
    (batch,) = read_batches(write_batch(THREE, delete_horizon_ms=5_000_000))

    assert batch.delete_horizon_ms == 5_000_000
    assert batch.records() == THREE
    assert parse_header(write_batch(THREE)).delete_horizon_ms is None


def test_a_batch_emptied_by_compaction_keeps_its_offsets() -> None:
    (batch,) = read_batches(write_batch([], base_offset=100, last_offset=109))

    assert (batch.base_offset, batch.last_offset, batch.count) == (100, 109, 0)
    assert batch.records() == []


def test_valid_batches_are_yielded_before_the_error_of_an_invalid_one() -> None:
    good = write_batch(THREE)
    bad = bytearray(write_batch(THREE))
    bad[-1] ^= 1
    batches = read_batches(good + bytes(bad) + good)

    assert next(batches).records() == THREE
    with pytest.raises(CorruptRecords, match="CRC-32C"):
        next(batches)


def test_checksums_are_not_verified_when_not_requested() -> None:
    bad = bytearray(write_batch([Record(0, 0, None, b"x")]))
    bad[17] ^= 1

    (batch,) = read_batches(bytes(bad), verify=False)
    assert not batch.crc_is_valid
    assert batch.records()[0].value == b"x"


def test_a_truncated_last_batch_is_an_error_unless_allowed() -> None:
    data = write_batch(THREE)
    for cut in range(1, len(data)):
        assert len(list(read_batches(data + data[:cut], partial_ok=True))) == 1
        with pytest.raises(CorruptRecords):
            list(read_batches(data + data[:cut]))


def test_an_unknown_magic_is_an_error_even_if_truncation_is_allowed() -> None:
    data = bytearray(write_batch(THREE))
    data[16] = 3

    with pytest.raises(CorruptRecords, match="magic 3"):
        list(read_batches(bytes(data), partial_ok=True))


@pytest.mark.parametrize(
    "wrong",
    [
        {"records": [Record(5), Record(5)]},
        {"records": [Record(5)], "base_offset": 6},
        {"records": [Record(5)], "last_offset": 4},
        {"records": [Record(0), Record(2**31)]},
        {"records": [Record(5)], "producer_epoch": 40_000},
        {"records": [Record(5)], "codec": "brotli"},
        {"records": [Record(5)], "magic": 3},
        {"records": [Record(5)], "magic": 1, "producer_id": 1},
        {"records": [Record(5, 0, None, None, (("h", None),))], "magic": 1},
        {"records": [], "magic": 1, "codec": "gzip"},
        {"records": [Record(2**63)], "magic": 0},
    ],
)
def test_values_that_do_not_fit_a_batch_are_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        write_batch(**wrong)  # type: ignore[arg-type]
