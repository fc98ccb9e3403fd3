"""The index of a log's batches against a simple search in a list."""

from __future__ import annotations

import random

from mockbroker.state.storage.batch_index import BatchIndex
from mockbroker.state.storage.stored_batch import StoredBatch


def batch(offset: int, size: int, timestamp: int, *, hidden: bool = False) -> StoredBatch:
    return StoredBatch(offset, offset + 1, size, memoryview(b""), 0, timestamp, 0, hidden)


def check(index: BatchIndex, expected: list[StoredBatch]) -> None:
    """Compare every answer with that of a search from the beginning."""
    assert index.batches == expected
    assert len(index) == len(expected)
    for offset in range(-1, 60):
        assert index.find_offset(offset) == sum(each.last_offset < offset for each in expected)
    newest = [
        max(-1 if each.is_hidden else each.max_timestamp for each in expected[: at + 1]) for at in range(len(expected))
    ]
    assert index.max_timestamps == newest
    for timestamp in range(-1, 12):
        assert index.find_timestamp(timestamp) == sum(each < timestamp for each in newest)
    for first in range(len(expected) + 1):
        for last in range(first, len(expected) + 1):
            assert index.size_between(first, last) == sum(each.size for each in expected[first:last])
            for size_max in (0, 3, 10, 25, 1_000):
                end = first
                while end < last and sum(each.size for each in expected[first : end + 1]) <= size_max:
                    end += 1
                assert index.find_end_by_size(first, last, size_max) == end


def test_the_index_answers_as_a_search_from_the_beginning() -> None:
    rng = random.Random(3)
    for _ in range(20):
        index, expected = BatchIndex(), list[StoredBatch]()
        for number in range(8):
            added = batch(3 * number, rng.randint(1, 12), rng.randint(0, 10), hidden=rng.random() < 0.2)
            index.append(added)
            expected.append(added)
        check(index, expected)
        at = rng.randint(0, 8)
        assert index.truncate(at) == expected[at:]
        del expected[at:]
        check(index, expected)
        count = rng.randint(0, len(expected))
        kept = [batch(each.base_offset, each.size + 1, each.max_timestamp) for each in expected[:count:2]]
        index.replace_first(count, kept)
        expected[:count] = kept
        check(index, expected)
        later = batch(40, 5, 5)
        index.append(later)
        check(index, [*expected, later])
