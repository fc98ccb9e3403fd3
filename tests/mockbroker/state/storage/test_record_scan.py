"""The quick look over a batch agrees with the full decoder, or leaves the batch to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.error_codes import ErrorCode
from kwire.records import Record, parse_header, write_batch
from mockbroker.kafka_error import KafkaError
from mockbroker.state.storage.record_scan import RecordScan, scan_records

LIMIT = 1 << 24
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
    record_scan = scan_records(batch, LIMIT, LIMIT)

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


@given(st.data())
def test_a_damaged_batch_is_left_to_the_decoder_or_scanned_safely(data: st.DataObject) -> None:
    whole = bytearray(write_batch([Record(at, 5 + at, b"key", b"value") for at in range(3)]))
    at = data.draw(st.integers(61, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))

    record_scan = scan_records(parse_header(whole), LIMIT, LIMIT)
    assert record_scan is None or isinstance(record_scan, RecordScan)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_record_above_the_limit_in_a_compressed_batch_is_refused(codec: str) -> None:
    """Source: a real 4.4.0 with max.decompressed.message.bytes 1000 takes a value of 993 bytes and refuses 994."""
    rows = [Record(at, 5, None, b"v" * size) for at, size in enumerate((10, 993, 10))]
    assert scan_records(parse_header(write_batch(rows, codec=codec)), LIMIT, 1000) is not None

    rows[1] = Record(1, 5, None, b"v" * 994)
    with pytest.raises(KafkaError, match="record 1 has 1001 bytes") as refused:
        scan_records(parse_header(write_batch(rows, codec=codec)), LIMIT, 1000)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_records_that_are_not_compressed_have_no_such_limit() -> None:
    """Source: as above."""
    batch = parse_header(write_batch([Record(0, 5, None, b"v" * 5000)]))

    assert scan_records(batch, LIMIT, 1000) is not None
