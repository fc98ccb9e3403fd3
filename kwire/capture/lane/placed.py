"""Record batches from both lanes, put into the order of their rows' times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kwire.capture.arrow import record_batch
from kwire.capture.order import ORDER_WINDOW

if TYPE_CHECKING:
    import numpy.typing as npt

    from kwire.capture.rows import Row

    Ints = npt.NDArray[np.int64]

# The most rows of one record batch.
ROWS_MAX = 16_384


class Piece(NamedTuple):
    """Rows, and where they belong: time and place in the stream of each."""

    batch: pa.RecordBatch
    ts: Ints
    offset: Ints


def piece_of(rows: list[Row], columns: Sequence[str]) -> Piece:
    """Rows that were made one by one."""
    times = np.array([time_of(row) for row in rows], dtype=np.int64)
    # Rows of one time keep their order.
    return Piece(record_batch(rows, "messages", columns), times, np.arange(len(rows), dtype=np.int64))


class Placed:
    """Puts rows in the order of their times, as far as a window of rows allows."""

    def __init__(self) -> None:
        """Nothing is held."""
        self._held: list[Piece] = []

    def take(self, pieces: list[Piece], *, held: int = ORDER_WINDOW) -> Iterator[pa.RecordBatch]:
        """More rows; those come back that are not among the last `held` of all."""
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
        count = max(len(order) - held, 0)
        rest = table.slice(count).combine_chunks().to_batches()
        self._held = [Piece(each, ts[order[count:]], offset[order[count:]]) for each in rest]
        yield from table.slice(0, count).combine_chunks().to_batches(max_chunksize=ROWS_MAX)


def time_of(row: Row) -> int:
    """When a row begins, in nanoseconds."""
    ts = row["req_ts"] if row["req_ts"] is not None else row["resp_ts"]
    return ts if isinstance(ts, int) else 0
