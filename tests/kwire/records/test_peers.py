"""Other clients read batches of kwire, and kwire reads theirs."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from kwire.records import Codec, Record, read_batches, write_batch

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value" * 50, (("h", b"1"), ("n", None))),
    Record(1, 1_700_000_009_999, None, b"", ()),
    Record(2, 1_699_999_999_999, b"", None, ()),
]
PLAIN = [Record(record.offset, record.timestamp, record.key, record.value) for record in RECORDS]


def peer_view(record: object) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in ("offset", "timestamp", "key", "value"))


def our_view(record: Record) -> tuple[object, ...]:
    return record.offset, record.timestamp, record.key, record.value


@pytest.mark.parametrize("codec", Codec)
def test_aiokafka_reads_batches_of_kwire(codec: Codec) -> None:
    batch = AioBatch(write_batch(RECORDS, codec=codec))

    assert batch.validate_crc()
    read = list(batch)
    assert [peer_view(record) for record in read] == [our_view(record) for record in RECORDS]
    assert [tuple(record.headers) for record in read] == [record.headers for record in RECORDS]


# kafka-python needs another snappy package.
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_kafka_python_reads_batches_of_kwire(codec: Codec) -> None:
    batches = KafkaPythonRecords(write_batch(RECORDS, codec=codec))

    batch = batches.next_batch()
    assert batch.validate_crc()
    read = list(batch)
    assert [peer_view(record) for record in read] == [our_view(record) for record in RECORDS]
    assert [tuple(record.headers) for record in read] == [record.headers for record in RECORDS]


# Neither reads lz4 in magic 0; the golden wrappers cover that.
@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 3)])
@pytest.mark.parametrize("peer", [AioRecords, KafkaPythonRecords])
def test_peers_read_legacy_messages_of_kwire(peer: type[KafkaPythonRecords], magic: int, codec: int) -> None:
    reader = peer(write_batch(PLAIN, magic=magic, codec=Codec(codec)))
    read = []
    while (batch := reader.next_batch()) is not None:
        assert batch.validate_crc()
        read += list(batch)

    assert [(record.offset, record.key, record.value) for record in read] == [
        (record.offset, record.key, record.value) for record in PLAIN
    ]
    if magic:
        assert [record.timestamp for record in read] == [record.timestamp for record in PLAIN]


@pytest.mark.parametrize("count", [1, 63, 64, 20_000])
def test_a_batch_of_any_size_is_byte_for_byte_that_of_aiokafka(count: int) -> None:
    records = [
        Record(number, 1_700_000_000_000 + number * 7, b"%d" % number, b"v" * (number % 300)) for number in range(count)
    ]
    made = AioBuilder(magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1,
                      base_sequence=-1, batch_size=1 << 24)  # fmt: skip
    for record in records:
        made.append(record.offset, record.timestamp, record.key, record.value, [])

    assert write_batch(records) == bytes(made.build())


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("builder", [AioBuilder, KafkaPythonBuilder])
def test_kwire_reads_batches_of_peers(builder: type[KafkaPythonBuilder], codec: Codec) -> None:
    made = builder(magic=2, compression_type=int(codec), is_transactional=0, producer_id=-1, producer_epoch=-1,
                   base_sequence=-1, batch_size=1 << 20)  # fmt: skip
    for record in RECORDS:
        made.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))

    (batch,) = read_batches(bytes(made.build()))

    assert batch.records() == RECORDS
