"""Kafka's own reader reads the written batches with every magic, codec and attribute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kwire.records import Batch, Codec, ControlType, Record, TimestampType, read_batches, write_batch, write_marker
from tests.clients.java_tools import run_program

READER = Path(__file__).with_name("ReadBatches.java")

FULL = [
    Record(100, 1_700_000_000_000, b"key", b"value" * 50, (("h", b"1"), ("n", None), ("h", b""))),
    Record(105, 1_700_000_009_999, None, b""),
    Record(106, 1_699_999_999_999, b"", None),
    Record(300, 1_700_000_000_000, b"big", bytes(range(256)) * 1_000),
]
BARE = [Record(record.offset, record.timestamp, record.key, record.value) for record in FULL]


def logs() -> Sequence[bytes]:
    """Every magic with each of its codecs, both timestamp types, and the fields of v2."""
    batches = []
    for codec in Codec:
        batches.append(
            write_batch(FULL, codec=codec, producer_id=5, producer_epoch=1, base_sequence=9, transactional=True,
                        partition_leader_epoch=3)
        )  # fmt: skip
        batches.append(
            write_batch(FULL, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=1_777)
        )
        if codec is not Codec.ZSTD:
            batches += [write_batch(BARE, magic=magic, codec=codec) for magic in (0, 1)]
            batches.append(
                write_batch(
                    BARE, magic=1, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=1_777
                )
            )
    batches.append(write_batch([], base_offset=50, last_offset=59))
    batches.append(write_batch(FULL, delete_horizon_ms=1_700_000_500_000))
    many = [Record(number, number * 1_000, b"%d" % number, b"v" * (number % 300)) for number in range(3_000)]
    batches += [write_batch(many, codec=codec) for codec in Codec]
    for kind in (ControlType.ABORT, ControlType.COMMIT):
        batches.append(
            write_marker(kind, producer_id=5, producer_epoch=1, coordinator_epoch=7, timestamp=9, base_offset=77)
        )
    return batches


def format_batch(batch: Batch) -> str:
    """A batch as the Java program prints it."""
    head = (
        f"[{batch.magic} {batch.codec.label} {batch.base_offset}-{batch.last_offset} {batch.timestamp_type.label}"
        f" {batch.max_timestamp} {batch.producer_id}/{batch.producer_epoch}/{batch.base_sequence}"
        f" {str(batch.is_transactional).lower()} {str(batch.is_control).lower()} {batch.partition_leader_epoch}]"
    )
    return head + "".join(format_record(record) for record in batch.records())


def format_record(record: Record) -> str:
    headers = "".join(f" {name}:{format_hex(value)}" for name, value in record.headers)
    return f" {record.offset}@{record.timestamp} {format_hex(record.key)}={format_hex(record.value)}{headers}"


def format_hex(value: bytes | None) -> str:
    return "null" if value is None else value.hex()


@pytest.mark.client
def test_kafkas_own_reader_reads_what_we_write(tmp_path: Path) -> None:
    written = logs()
    lines = tmp_path / "logs.hex"
    lines.write_text("".join(f"{log.hex()}\n" for log in written))

    output = run_program(READER, str(lines)).splitlines()

    expected = ["".join(format_batch(batch) for batch in read_batches(log)) for log in written]
    assert len(output) == len(expected) == 31
    for number, (theirs, ours) in enumerate(zip(output, expected, strict=True)):
        assert theirs == ours, f"log {number}"
