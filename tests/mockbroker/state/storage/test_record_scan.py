"""The quick look over a batch agrees with the full decoder, or leaves the batch to it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.records import Codec, Record, native_codec, parse_header, write_batch
from kwire.records.batch import HEADER_SIZE
from kwire.records.record import BatchBase
from kwire.records.record_decoder import decode_records_pure
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.config.limits import BatchLimits
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.storage import record_scan as record_scan_module
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.record_scan import BatchLimitError, RecordScan, scan_payload, scan_records

LIMIT = 1 << 24
LIMITS = BatchLimits()
blobs = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=3), blobs), max_size=1).map(tuple)


@given(
    st.lists(st.tuples(st.integers(-1, 1 << 48), blobs, blobs, headers), min_size=1, max_size=20),
    st.sampled_from(["none", "gzip", "lz4"]),
    st.integers(1, 3),
)
def test_a_scan_sees_what_the_decoder_sees(
    rows: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]], codec: str, step: int
) -> None:
    records = [Record(at * step, *row) for at, row in enumerate(rows)]
    batch = parse_header(write_batch(records, codec=codec))
    record_scan = scan_records(batch, LIMITS, LIMIT)

    decoded = batch.records()
    expected = RecordScan(
        min(record.timestamp for record in decoded),
        max(record.timestamp for record in decoded),
        any(record.key is None for record in decoded),
        all(record.offset == at for at, record in enumerate(decoded)),
    )
    assert record_scan is None or record_scan == expected
    if not any(record.headers for record in records) and max(abs(r.timestamp - rows[0][0]) for r in records) < 1 << 20:
        assert record_scan == expected


def expected_scan(body: bytes, count: int, base_timestamp: int) -> RecordScan | None:
    """What the lenient decoder of the broker reads, or None for an error."""
    base = BatchBase(count, 0, base_timestamp, None, 0)
    try:
        decoded = decode_records_pure(body, base, strict=False)
    except WireError:
        return None
    timestamps = [record.timestamp for record in decoded]
    keyless = any(record.key is None for record in decoded)
    consecutive = all(record.offset == at for at, record in enumerate(decoded))
    return RecordScan(min(timestamps), max(timestamps), keyless, consecutive)


@given(st.data())
@settings(max_examples=300)
def test_both_scans_of_damaged_records_agree_with_the_decoder_or_leave_them_to_it(data: st.DataObject) -> None:
    headers = data.draw(st.sampled_from([(), (("name", b"v"), ("null", None))]))
    rows = [Record(at, 5 + 90 * at, data.draw(blobs), b"value", headers) for at in range(3)]
    body = bytearray(write_batch(rows)[HEADER_SIZE:])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    del body[data.draw(st.sampled_from([len(body), len(body) - 1, len(body) // 2])) :]
    count, timestamp = data.draw(st.sampled_from([3, 2, 4, 2**31 - 1])), data.draw(st.sampled_from([0, 2**63 - 1]))

    expected = expected_scan(bytes(body), count, timestamp)
    scan = native_codec.SCAN_RECORDS
    if timestamp == 0:  # Sums beyond 64 bits wrap around only there where a produced batch is read completely.
        assert scan_payload(bytes(body), count, timestamp) in (None, expected)
    if scan is not None:
        found = scan(body, count, timestamp)
        assert found is None or RecordScan(*found[:4]) == expected


@pytest.mark.skipif(native_codec.SCAN_RECORDS is None, reason="this process uses no accelerator")
def test_the_accelerator_scans_headers_and_wide_deltas_of_large_batches() -> None:
    rows = [Record(at, 5 - at * 2**40, b"k" * 90, b"v" * 900, (("name", None), ("", b"v"))) for at in range(100)]
    batch = parse_header(write_batch(rows))
    assert batch.size > 64 * 1024

    assert scan_payload(bytes(batch.raw[HEADER_SIZE:]), batch.count, batch.base_timestamp) is None
    assert scan_records(batch, LIMITS, LIMIT) == RecordScan(5 - 99 * 2**40, 5, keyless=False, consecutive=True)


@pytest.mark.parametrize("size", [b"\x0d", b"\x0b", b"\x01"])
def test_a_negative_size_is_left_to_the_decoder(size: bytes) -> None:
    batch = parse_header(write_batch([Record(0, 5)])[:HEADER_SIZE] + size + b"\0\0\0\x01\x01\0")

    assert scan_records(batch, LIMITS, LIMIT) is None
    assert scan_payload(bytes(batch.raw[HEADER_SIZE:]), 1, 5) is None


@pytest.mark.parametrize("with_accelerator", [True, False])
@pytest.mark.parametrize(("limit", "accepts"), [(40, True), (39, False), (19, False)])
def test_a_compressed_batch_has_a_limit_of_its_records_and_headers(
    limit: int, accepts: bool, with_accelerator: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_accelerator:
        monkeypatch.setattr(record_scan_module, "SCAN_RECORDS", None)
    rows = [Record(at, 5, None, None, (("n", None),)) for at in range(20)]
    data = write_batch(rows, codec=Codec.GZIP)
    rules = AppendRules.from_config(Configs(BrokerConfig()).topic("t"), BatchLimits(compressed_records=limit))
    log = PartitionLog(lambda: rules)

    if accepts:
        assert log.append(data, now_ms=5).last_offset == 19
        return
    with pytest.raises(BatchLimitError, match=f"mockbroker.batch.compressed.records is {limit}") as refused:
        log.append(data, now_ms=5)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    uncompressed = log.append(write_batch(rows), now_ms=5)
    assert uncompressed.last_offset == 19


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_has_a_limit_of_its_decompressed_size(codec: str) -> None:
    limits = BatchLimits(decompressed_bytes=1 << 20)
    batch = parse_header(write_batch([Record(0, 5, None, bytes(1 << 20))], codec=codec))

    with pytest.raises(BatchLimitError, match=r"mockbroker\.batch\.decompressed\.bytes is 1048576"):
        scan_records(batch, limits, LIMIT)


def test_the_python_code_scans_without_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_scan_module, "SCAN_RECORDS", None)
    batch = parse_header(write_batch([Record(0, 5), Record(1, 7)]))

    assert scan_records(batch, LIMITS, LIMIT) == RecordScan(5, 7, keyless=True, consecutive=True)


@given(st.data())
def test_a_damaged_batch_is_left_to_the_decoder_or_scanned_safely(data: st.DataObject) -> None:
    whole = bytearray(write_batch([Record(at, 5 + at, b"key", b"value") for at in range(3)]))
    at = data.draw(st.integers(61, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))

    record_scan = scan_records(parse_header(whole), LIMITS, LIMIT)
    assert record_scan is None or isinstance(record_scan, RecordScan)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_record_above_the_limit_in_a_compressed_batch_is_refused(codec: str) -> None:
    """Source: a real 4.4.0 with max.decompressed.message.bytes 1000 takes a value of 993 bytes and refuses 994."""
    rows = [Record(at, 5, None, b"v" * size) for at, size in enumerate((10, 993, 10))]
    assert scan_records(parse_header(write_batch(rows, codec=codec)), LIMITS, 1000) is not None

    rows[1] = Record(1, 5, None, b"v" * 994)
    with pytest.raises(KafkaError, match="record 1 has 1001 bytes") as refused:
        scan_records(parse_header(write_batch(rows, codec=codec)), LIMITS, 1000)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_records_that_are_not_compressed_have_no_such_limit() -> None:
    """Source: as above."""
    batch = parse_header(write_batch([Record(0, 5, None, b"v" * 5000)]))

    assert scan_records(batch, LIMITS, 1000) is not None
