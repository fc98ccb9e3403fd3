"""Ranges of the batches of a log."""

from __future__ import annotations

import pytest

from mockbroker.state.storage.stored_batch import BatchRange, StoredBatch

BATCHES = [StoredBatch(offset, offset, 1, memoryview(b""), 0, -1, 0) for offset in range(5)]


def test_a_range_is_indexed_as_a_list_of_its_batches() -> None:
    batches = BatchRange(BATCHES, 1, 4)

    assert [batches[at] for at in (0, 2, -1, -3)] == [BATCHES[1], BATCHES[3], BATCHES[3], BATCHES[1]]
    assert list(batches) == batches[:] == BATCHES[1:4]
    assert batches[1:] == BATCHES[2:4]


@pytest.mark.parametrize("index", [3, -4, 10, -10])
def test_an_index_outside_of_a_range_is_refused(index: int) -> None:
    with pytest.raises(IndexError):
        BatchRange(BATCHES, 1, 4)[index]


def test_an_empty_range_has_no_batch() -> None:
    with pytest.raises(IndexError):
        BatchRange(BATCHES, 2, 2)[0]
