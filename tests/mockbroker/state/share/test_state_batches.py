"""Merging state batches: every row of share-semantics 7.4."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.state.share.state_batches import StateBatch, combine_batches
from tests.support.brokers.share_partitions import stored_batches

TABLE_7_4 = [
    ("100-104:0/1", "105-109:0/1", -1, "100-109:0/1"),
    ("100-104:0/1", "105-109:2/1", -1, "100-104:0/1 105-109:2/1"),
    ("100-109:0/2", "100-109:2/1", -1, "100-109:0/2"),
    ("100-109:0/1", "100-109:2/1", -1, "100-109:2/1"),
    ("100-109:0/1", "103-105:2/1", -1, "100-102:0/1 103-105:2/1 106-109:0/1"),
    ("100-109:2/2", "103-105:0/1", -1, "100-109:2/2"),
    ("100-109:0/1", "105-114:4/3", -1, "100-104:0/1 105-114:4/3"),
    ("100-109:0/3", "105-114:0/1", -1, "100-109:0/3 110-114:0/1"),
    ("100-104:0/1", "100-109:0/2", -1, "100-109:0/2"),
    ("100-104:0/2", "100-109:0/1", -1, "100-104:0/2 105-109:0/1"),
    ("100-109:2/1", "100-109:4/1", -1, "100-109:4/1"),
    ("90-99:2/1 100-109:0/1", "110-119:2/1", 105, "105-109:0/1 110-119:2/1"),
    ("", "0:2/1 1:2/1 2:0/1 3:2/1", -1, "0-1:2/1 2:0/1 3:2/1"),
    ("", "100-109:0/1", 105, "105-109:0/1"),
]


@pytest.mark.parametrize(("existing", "new", "start", "result"), TABLE_7_4)
def test_7_4_merge_rows(existing: str, new: str, start: int, result: str) -> None:
    merged = combine_batches(stored_batches(*existing.split()), stored_batches(*new.split()), start)

    assert merged == stored_batches(*result.split())


batches = st.builds(
    lambda first, size, state, count: StateBatch(first, first + size, state, count),
    st.integers(0, 30),
    st.integers(0, 12),
    st.sampled_from([0, 2, 4]),
    st.integers(1, 3),
)


@given(st.lists(batches, max_size=8), st.integers(-1, 20))
def test_every_offset_gets_its_highest_rank_and_no_two_batches_overlap(given: list[StateBatch], start: int) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for batch in given:
        for offset in range(max(batch.first, start), batch.last + 1):
            expected[offset] = max(batch.merge_rank, expected.get(offset, batch.merge_rank))

    merged = combine_batches(given[:4], given[4:], start)

    assert {o: batch.merge_rank for batch in merged for o in range(batch.first, batch.last + 1)} == expected
    assert sum(batch.last - batch.first + 1 for batch in merged) == len(expected)
