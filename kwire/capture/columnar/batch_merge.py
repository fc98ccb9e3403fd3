"""Merge record batches in the order of their rows' times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.index.arrays import find_groups
from kwire.capture.rows.record_batches import make_record_batch
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW, SIZE_MAX, sort_key

if TYPE_CHECKING:
    from kwire.capture.index.arrays import Ints
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import Row

# Rows per record batch, at most.
ROWS_MAX = 16_384
# Later than any time in a capture.
NO_TIME_LIMIT = 2**63 - 1


class RowBatch(NamedTuple):
    """Rows, with the time and the stream offset of each.

    outcome: the number of the outcome of each row, in the order of completion; None if each row is an outcome.
    """

    batch: pa.RecordBatch
    ts: Ints
    offset: Ints
    outcome: Ints | None = None


def row_batch(rows: list[Row], columns: Sequence[str], first: int = 0) -> RowBatch:
    """A batch of rows that were built one by one; rows of one time keep their order. Args: first: rows before them."""
    times = np.array([row_time(row) for row in rows], dtype=np.int64)
    positions = np.arange(first, first + len(rows), dtype=np.int64)
    return RowBatch(make_record_batch(rows, "messages", columns), times, positions)


def divide_outcomes(outcomes: Iterator[Outcome]) -> Iterator[tuple[list[Outcome], int]]:
    """The outcomes in lists, because their rows may not fit into memory.

    At least one list is returned; it may be empty. Each has the time up to which all outcomes have been returned.
    Args: outcomes: in the order of their times, within a window of outcomes.
    """
    reached = 0
    taken = list(islice(outcomes, ROWS_MAX))
    while len(taken) == ROWS_MAX:
        # The maximum, because times may go backwards.
        reached = max(reached, *(sort_key(outcome)[0] for outcome in taken))
        yield taken, reached
        taken = list(islice(outcomes, ROWS_MAX))
    yield taken, NO_TIME_LIMIT


class BatchSorter:
    """Sorts rows by time, within a window of outcomes; the rows of an outcome stay together, in their order."""

    def __init__(self) -> None:
        self._buffered: list[RowBatch] = []

    def add_batches(
        self, batches: list[RowBatch], *, until: int = NO_TIME_LIMIT, window: int = ORDER_WINDOW
    ) -> Iterator[pa.RecordBatch]:
        """Add rows; return those up to a time, except those of the last `window` outcomes."""
        batches = [batch for batch in (*self._buffered, *batches) if len(batch.ts)]
        self._buffered = []
        if not batches:
            return
        arrow_batches, times, offsets, outcomes = zip(*batches, strict=True)
        ts = np.concatenate(times)
        offset = np.concatenate(offsets)
        outcome = None if outcomes[0] is None else np.concatenate(outcomes)
        order = np.lexsort((offset, ts) if outcome is None else (outcome, offset, ts))
        table = pa.Table.from_batches(arrow_batches)
        if not bool((order[1:] > order[:-1]).all()):
            table = table.take(pa.array(order))
        due = int(np.searchsorted(ts[order], until, "right"))
        starts = np.arange(due, dtype=np.int64) if outcome is None else find_groups(outcome[order[:due]])
        kept = min(window, len(starts))
        count = int(starts[-kept]) if kept else due
        while count < due and table.slice(count).nbytes > SIZE_MAX:
            # Fewer rows are buffered if they are large.
            kept //= 2
            count = int(starts[-kept]) if kept else due
        if count < len(table):
            rest = table.slice(count).combine_chunks().to_batches()
            ordered = order[count:]
            kept_outcomes = None if outcome is None else outcome[ordered]
            self._buffered = [RowBatch(part, ts[ordered], offset[ordered], kept_outcomes) for part in rest]
        if count:
            yield from table.slice(0, count).combine_chunks().to_batches(max_chunksize=ROWS_MAX)


def row_time(row: Row) -> int:
    """The time of a row, in nanoseconds."""
    ts = row["req_ts"] if row["req_ts"] is not None else row["resp_ts"]
    return ts if isinstance(ts, int) else 0
