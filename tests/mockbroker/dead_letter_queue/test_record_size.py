"""The size of a record is that of its bytes in a batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.records import Record, write_batch
from mockbroker.dead_letter_queue.record_size import record_size

_BATCH_OVERHEAD = 61
_DATA = st.none() | st.binary(max_size=200)
_HEADERS = st.lists(st.tuples(st.text(max_size=20), _DATA), max_size=4)


@given(st.lists(st.tuples(st.integers(0, 2**40), _DATA, _DATA, _HEADERS), min_size=1, max_size=80))
def test_the_sizes_of_all_records_add_up_to_the_batch(
    rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> None:
    records = [Record(at, time, key, value, tuple(headers)) for at, (time, key, value, headers) in enumerate(rows)]
    base = records[0].timestamp

    sizes = [record_size(record, offset_delta=record.offset, base=base) for record in records]

    assert _BATCH_OVERHEAD + sum(sizes) == len(write_batch(records))
