"""The quick look over a batch agrees with the full decoder, or leaves the batch to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.records import Record, parse_header, write_batch
from mockbroker.state.record_scan import Scan, scan

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
    seen = scan(batch, LIMIT)

    decoded = batch.records()
    expected = Scan(
        min(record.timestamp for record in decoded),
        max(record.timestamp for record in decoded),
        any(record.key is None for record in decoded),
        all(record.offset == at for at, record in enumerate(decoded)),
    )
    assert seen is None or seen == expected
    if not any(record.headers for record in records) and max(abs(r.timestamp - rows[0][0]) for r in records) < 1 << 20:
        assert seen == expected


@given(st.data())
def test_a_damaged_batch_is_left_to_the_decoder_or_seen_without_harm(data: st.DataObject) -> None:
    whole = bytearray(write_batch([Record(at, 5 + at, b"key", b"value") for at in range(3)]))
    at = data.draw(st.integers(61, len(whole) - 1))
    whole[at] = data.draw(st.integers(0, 255))

    seen = scan(parse_header(whole), LIMIT)
    assert seen is None or isinstance(seen, Scan)
