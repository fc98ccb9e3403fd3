"""Record batches from both lanes, put into the order of their rows' times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.arrow import record_batch
from kwire.capture.order import ORDER_WINDOW, SIZE_MAX

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.rows import Row

    Ints = npt.NDArray[np.int64]

# The most rows of one record batch.
ROWS_MAX = 16_384
# Later than any time in a capture.
NO_END = 2**63 - 1


class Piece(NamedTuple):
    """Rows, and where they belong: time and place in the stream of each."""

    batch: pa.RecordBatch
    ts: Ints
    offset: Ints


def piece_of(rows: list[Row], columns: Sequence[str], first: int = 0) -> Piece:
    """Rows that were made one by one; those of one time keep their order. Args: first: how many came before them."""
    times = np.array([time_of(row) for row in rows], dtype=np.int64)
    return Piece(record_batch(rows, "messages", columns), times, np.arange(first, first + len(rows), dtype=np.int64))


class Coming:
    """Rows that generators make, taken some at a time: those of a whole capture may be more than memory holds."""

    def __init__(self, rows: Iterator[Row]) -> None:
        """They come in the order of their times, as far as a window of rows allows."""
        self._rows = rows
        self._next = next(rows, None)
        self._reached = 0

    def up_to(self, last: int) -> Iterator[tuple[list[Row], int]]:
        """Those that begin until a moment, in lists, each with the time up to which all have come, but for the window.

        One list comes at least, perhaps an empty one.
        """
        taken: list[Row] = []
        while self._next is not None and time_of(self._next) <= last:
            if len(taken) == ROWS_MAX:
                # The latest of all: where clocks go back, none must wait for its time to come again.
                self._reached = max(self._reached, *map(time_of, taken))
                yield taken, self._reached
                taken = []
            taken.append(self._next)
            self._next = next(self._rows, None)
        yield taken, NO_END


class Placed:
    """Puts rows in the order of their times, as far as a window of rows allows."""

    def __init__(self) -> None:
        """Nothing is held."""
        self._held: list[Piece] = []

    def take(self, pieces: list[Piece], *, until: int = NO_END, held: int = ORDER_WINDOW) -> Iterator[pa.RecordBatch]:
        """More rows; those come back that begin until a moment, and are not among the last `held` of these."""
        pieces = [piece for piece in (*self._held, *pieces) if len(piece.ts)]
        self._held = []
        if not pieces:
            return
        ts = np.concatenate([piece.ts for piece in pieces])
        offset = np.concatenate([piece.offset for piece in pieces])
        order = np.lexsort((offset, ts))
        table = pa.Table.from_batches([piece.batch for piece in pieces])
        if not bool((order[1:] > order[:-1]).all()):
            table = table.take(pa.array(order))
        due = int(np.searchsorted(ts[order], until, "right"))
        count = max(due - held, 0)
        while count < due and table.slice(count).nbytes > SIZE_MAX:
            # Large rows wait in smaller numbers.
            count += (due - count + 1) // 2
        rest = table.slice(count).combine_chunks().to_batches()
        self._held = [Piece(each, ts[order[count:]], offset[order[count:]]) for each in rest]
        yield from table.slice(0, count).combine_chunks().to_batches(max_chunksize=ROWS_MAX)


def time_of(row: Row) -> int:
    """When a row begins, in nanoseconds."""
    ts = row["req_ts"] if row["req_ts"] is not None else row["resp_ts"]
    return ts if isinstance(ts, int) else 0
