"""The reader returns the records that were written, for any content."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.records import Codec, Record, TimestampType, read_batches, write_batch

pytestmark = pytest.mark.slow

# Sizes at which the varint of a length, or of the whole record, becomes one byte longer.
BLOBS = st.none() | st.binary(max_size=20) | st.integers(50, 70).map(bytes) | st.integers(8180, 8200).map(bytes)
HEADERS = st.lists(st.tuples(st.text(max_size=10), BLOBS), max_size=3).map(tuple)
TIMES = st.integers(-1, 2**43) | st.sampled_from([2**62, 2**63 - 1, -(2**63)])


@st.composite
def records(draw: st.DrawFn, *, magic: int = 2) -> list[Record]:
    offset = draw(st.integers(0, 2**62))
    made = []
    for gap in draw(st.lists(st.integers(1, 100) | st.integers(1, 20_000_000), min_size=1, max_size=8)):
        headers = draw(HEADERS) if magic == 2 else ()
        timestamp = draw(TIMES) if magic else -1
        made.append(Record(offset, timestamp, draw(BLOBS), draw(BLOBS), headers))
        offset += gap
    return made


@given(written=records(), codec=st.sampled_from(Codec))
@settings(max_examples=200, deadline=None)
def test_batches_of_magic_2(written: list[Record], codec: Codec) -> None:
    (batch,) = read_batches(write_batch(written, codec=codec))

    assert batch.records() == written
    assert batch.count == len(written)
    assert batch.max_timestamp == max(record.timestamp for record in written)


@pytest.mark.parametrize("magic", [0, 1])
@given(data=st.data(), codec=st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]))
@settings(max_examples=100, deadline=None)
def test_messages_of_magic_0_and_1(magic: int, data: st.DataObject, codec: Codec) -> None:
    written = data.draw(records(magic=magic))
    batches = list(read_batches(write_batch(written, magic=magic, codec=codec)))

    assert [record for batch in batches for record in batch.records()] == written


@given(written=records(), magic=st.sampled_from([1, 2]), codec=st.sampled_from([Codec.NONE, Codec.GZIP]))
@settings(max_examples=50, deadline=None)
def test_append_time_is_the_max_timestamp_for_all(written: list[Record], magic: int, codec: Codec) -> None:
    bare = [Record(record.offset, record.timestamp, record.key, record.value) for record in written]
    data = write_batch(bare, magic=magic, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=123)

    read = [record for batch in read_batches(data) for record in batch.records()]

    assert {record.timestamp for record in read} == {123}
    assert [record.value for record in read] == [record.value for record in written]
