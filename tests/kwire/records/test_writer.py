"""200 pieces of log are read as by Kafka's reader, and written again without changes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.records import Batch, Codec, TimestampType, read_batches, write_batch

GOLDEN = Path(__file__).parents[2] / "golden" / "batches.jsonl.gz"


def golden_lines() -> list[tuple[bytes, list[dict[str, object]]]]:
    with gzip.open(GOLDEN, "rt") as lines:
        trees = [json.loads(line) for line in lines]
    return [(bytes.fromhex(tree["hex"]), tree["batches"]) for tree in trees]


def golden_batches() -> Iterator[Batch]:
    for data, _ in golden_lines():
        yield from read_batches(data)


def in_hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def as_kafka_says_it(batch: Batch) -> dict[str, object]:
    return {
        "magic": batch.magic,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "codec": batch.codec.label,
        "timestampType": batch.timestamp_type.label,
        "maxTimestamp": batch.max_timestamp,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "records": [
            {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": in_hex(record.key),
                "value": in_hex(record.value),
                "headers": [[name, in_hex(value)] for name, value in record.headers],
            }
            for record in batch.records()
        ],
    }


def rewritten(batch: Batch, codec: Codec) -> bytes:
    records = batch.records()
    if batch.magic < 2:
        return write_batch(records, magic=batch.magic, codec=codec, base_offset=batch.base_offset,
                           timestamp_type=batch.timestamp_type, max_timestamp=batch.max_timestamp)  # fmt: skip
    return write_batch(
        records, codec=codec, base_offset=batch.base_offset, last_offset=batch.last_offset,
        timestamp_type=batch.timestamp_type, max_timestamp=batch.max_timestamp, producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch, base_sequence=batch.base_sequence, transactional=batch.is_transactional,
        control=batch.is_control, partition_leader_epoch=batch.partition_leader_epoch,
    )  # fmt: skip


def test_every_golden_line_reads_as_kafka_reads_it() -> None:
    lines = golden_lines()

    assert len(lines) == 200
    for data, expected in lines:
        assert [as_kafka_says_it(batch) for batch in read_batches(data)] == expected


def test_uncompressed_batches_with_create_time_are_written_byte_for_byte_as_by_kafka() -> None:
    uncompressed = [batch for batch in golden_batches() if batch.codec is Codec.NONE]
    plain = [batch for batch in uncompressed if batch.timestamp_type is not TimestampType.LOG_APPEND_TIME]

    assert len(plain) > 100
    for batch in plain:
        assert rewritten(batch, Codec.NONE) == bytes(batch.raw)


def test_lz4_wrappers_of_magic_0_have_kafkas_old_header_checksum_byte_for_byte() -> None:
    wrappers = [batch for batch in golden_batches() if batch.magic == 0 and batch.codec is Codec.LZ4]

    assert wrappers
    for batch in wrappers:
        assert rewritten(batch, Codec.LZ4) == bytes(batch.raw)


@pytest.mark.parametrize("codec", Codec)
def test_golden_batches_written_again_with_any_codec_read_the_same(codec: Codec) -> None:
    for batch in golden_batches():
        if batch.magic == 2 or (codec not in (Codec.ZSTD, Codec.NONE)):
            (again,) = read_batches(rewritten(batch, codec))
            assert again.codec is codec
            assert again.records() == batch.records()
            assert (again.base_offset, again.last_offset) == (batch.base_offset, batch.last_offset)
            assert again.max_timestamp == batch.max_timestamp
