"""`make_slice`: the batches of an index that a read returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.state.storage.batch_index import BatchIndex
from mockbroker.state.storage.stored_batch import BatchRange, LogSlice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mockbroker.state.storage.stored_batch import StoredBatch

#: So many batches are copied to a list, of which each use costs less than of a range.
_COPIED_MAX = 8


def make_slice(index: BatchIndex, first: int, last: int, max_bytes: int, *, min_one: bool, partial: bool) -> LogSlice:
    """The batches from index `first` on, before `last`, that fit into `max_bytes`.

    min_one: return the first one even when it does not fit. partial: fill `max_bytes` with the beginning of the one
    that does not fit.
    """
    batches = index.batches
    next_index = index.find_end_by_size(first, last, max_bytes)
    if min_one and next_index == first < last:
        next_index += 1
    total = index.size_between(first, next_index)
    is_first_cut = first == next_index < last and max_bytes > 0
    if not partial or next_index == last:
        return LogSlice(_select(batches, first, next_index), total, is_first_cut=is_first_cut)
    cut_size = max(0, max_bytes - total)
    cut_batch = batches[next_index] if cut_size else None
    return LogSlice(_select(batches, first, next_index), total, cut_batch, cut_size, is_first_cut)


def _select(batches: list[StoredBatch], first: int, end: int) -> Sequence[StoredBatch]:
    return batches[first:end] if end - first <= _COPIED_MAX else BatchRange(batches, first, end)
