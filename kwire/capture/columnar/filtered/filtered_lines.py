"""Read the outcomes that match conditions, many exchanges at once as lines."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.rows.reorder_buffer import ORDER_WINDOW, PrebuiltLines, SkippedCount, merge_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.capture.columnar.decoded_part import DecodedPart
    from kwire.capture.columnar.filtered.filtered_reader import FilteredOutcome, FilteredReader
    from kwire.capture.columnar.formats.exchange_rows import ExchangeRows, Formatter
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.rows.reorder_buffer import TableLine

    LineFormatter = Formatter[Sequence[str | TableLine]]

# Limits of the exchanges whose lines are made at once: their count, the size of their frames in bytes, the packets of
# the capture between them, and the count of those between them that are built one by one.
_COUNT_MAX = 16 * 1024
_OTHERS_MAX = ORDER_WINDOW // 2
_SIZE_MAX = 8 * 1024 * 1024
_PACKETS_MAX = 64 * 1024


def read_lines(filtered: FilteredReader, level: str, formatter: LineFormatter) -> Iterator[FilteredOutcome]:
    """The outcomes in the order of completion; lines are divided where too many outcomes belong between them."""
    for number, events in filtered.read_parts(level, formatter, partial(_select_lines, filtered.after, formatter)):
        pending = _PendingOutcomes(filtered.reader.numbered_outcomes(number, issues=True))
        for packet, event in events:
            rest = event
            while taken := pending.take(packet):
                yield from (outcome for _, outcome in taken)
                if isinstance(rest, PrebuiltLines):
                    count = int(np.searchsorted(rest.completed_by, taken[-1][0], "right"))
                    if count:
                        yield rest.part(0, count)
                    rest = rest.part(count, len(rest.lines))
            if not isinstance(rest, PrebuiltLines) or rest.lines:
                yield rest
        while taken := pending.take(None):
            yield from (outcome for _, outcome in taken)


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


class _PendingOutcomes:
    """Takes outcomes that are no exchanges, as many as may come between lines."""

    def __init__(self, outcomes: Iterator[tuple[int, Outcome]]) -> None:
        self._outcomes = outcomes
        self._next = next(outcomes, None)

    def take(self, before: int | None) -> list[tuple[int, Outcome]]:
        """The next outcomes before a packet, or any."""
        taken: list[tuple[int, Outcome]] = []
        while self._next is not None and (before is None or self._next[0] < before) and len(taken) < _OTHERS_MAX:
            taken.append(self._next)
            self._next = next(self._outcomes, None)
        return taken


def _split_rows(rows: Ints, exchanges: ExchangeColumns, is_line: Bools) -> Iterator[Ints]:
    """The rows in parts within the limits; an exchange above the limit is a part of its own."""
    request, response = exchanges.request.frame.size[rows], exchanges.response.frame.size[rows]
    cost = (
        (np.maximum(request, 0) + np.maximum(response, 0)) / _SIZE_MAX + 1 / _COUNT_MAX + ~is_line[rows] / _OTHERS_MAX
    )
    # Other outcomes between them wait for these.
    cost[1:] += np.diff(exchanges.completed_by[rows]) / _PACKETS_MAX
    part = np.cumsum(cost).astype(np.int64)
    return iter(np.split(rows, np.nonzero(np.diff(part))[0] + 1)) if len(rows) else iter(())
