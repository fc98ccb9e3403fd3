"""Make lines of exchanges that match conditions, of many at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar.filtered.filtered_reader import Output
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW, PrebuiltLines, SkippedCount, merge_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.capture.columnar.decoded_part import DecodedPart
    from kwire.capture.columnar.filtered.filtered_reader import FilteredOutcome
    from kwire.capture.columnar.formats.exchange_rows import ExchangeRows, Formatter
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.rows.reorder_buffer import TableLine

    LineFormatter = Formatter[Sequence[str | TableLine]]

# Limits of the exchanges whose lines are made at once: their count, the size of their frames in bytes, the packets of
# the capture between them, and the count of those between them that are built one by one.
_COUNT_MAX = 16 * 1024
OTHERS_MAX = ORDER_WINDOW // 2
_SIZE_MAX = 8 * 1024 * 1024
_PACKETS_MAX = 64 * 1024


def line_output(after: int, formatter: LineFormatter) -> Output:
    """The output of many outcomes at once as lines. Args: after: as for `FilteredReader`."""
    return Output(formatter, partial(_select_lines, after, formatter))


def _select_lines(
    after: int, formatter: LineFormatter, part: DecodedPart, is_formatted: Bools
) -> Iterator[tuple[int, FilteredOutcome]]:
    """The lines and other selected outcomes of a part, each with a row, and the number of skipped exchanges."""
    exchanges, is_damaged = part.exchanges, np.zeros_like(is_formatted)
    if part.damaged is not None:
        is_damaged[part.damaged.chosen] = exchanges.request.frame.packet[part.damaged.chosen] > after
    is_line, reached = is_formatted | is_damaged, 0
    for rows in _split_rows(np.nonzero(part.is_wanted | ~part.is_good)[0], exchanges, is_line):
        stop = int(rows[-1]) + 1
        if stop - reached > len(rows):
            yield int(rows[0]), SkippedCount(stop - reached - len(rows))
        reached = stop
        parts = [_format_lines(formatter, part.rows(rows[is_formatted[rows]]))]
        if is_damaged[rows].any():
            parts.append(_format_lines(formatter, part.damaged_rows(rows[is_damaged[rows]])))
        lines = merge_lines(parts)
        # The receiver sorts by time within a window. Those built one by one come first, because they are few.
        for exchange in part.build_exchanges(rows[~is_line[rows]]):
            yield int(rows[0]), exchange
        if lines.lines:
            yield stop - 1, lines
    if reached < len(exchanges):
        yield len(exchanges), SkippedCount(len(exchanges) - reached)


def _format_lines(formatter: LineFormatter, rows: ExchangeRows) -> PrebuiltLines:
    """The lines of exchanges, with what their order and counts need."""
    exchanges, lines = rows.exchanges, formatter.format_rows(rows)
    frame, error = exchanges.request.frame, rows.build_column("error_code")
    has_error = error.fill_null(0).to_numpy() != 0
    status = np.zeros(len(lines), dtype=np.int64) if rows.damaged is None else rows.damaged.status_numbers()
    return PrebuiltLines(exchanges.completed_by, frame.ts, frame.offset, lines, has_error, status)


def _split_rows(rows: Ints, exchanges: ExchangeColumns, is_line: Bools) -> Iterator[Ints]:
    """The rows in parts within the limits; an exchange above the limit is a part of its own."""
    request, response = exchanges.request.frame.size[rows], exchanges.response.frame.size[rows]
    cost = (np.maximum(request, 0) + np.maximum(response, 0)) / _SIZE_MAX + 1 / _COUNT_MAX + ~is_line[rows] / OTHERS_MAX
    # Other outcomes between them wait for these.
    cost[1:] += np.diff(exchanges.completed_by[rows]) / _PACKETS_MAX
    part = np.cumsum(cost).astype(np.int64)
    return iter(np.split(rows, np.nonzero(np.diff(part))[0] + 1)) if len(rows) else iter(())
