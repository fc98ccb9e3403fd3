"""Read the outcomes that match conditions, many exchanges at once as lines: of clean flows, and of the other flows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar.deferred_exchanges import decode_deferred
from kwire.capture.kafka.deferred_decoder import is_deferred
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW, PrebuiltLines, SkippedCount, merge_lines, outcome_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.capture.columnar.decoded_part import DecodedPart
    from kwire.capture.columnar.filtered.filtered_reader import FilteredOutcome, FilteredReader
    from kwire.capture.columnar.filtered.streamed_sessions import StreamedSessions
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
    streamed = filtered.streamed_outcomes(level, filtered.reader.deferring_decoder if filtered.selects_all else None)
    source = _StreamedSource(streamed, filtered.after)
    make_events = partial(_make_events, filtered, formatter)
    select = partial(_select_lines, filtered.after, formatter)
    for number, event in filtered.columnar_outcomes(streamed, formatter, select):
        rest = event
        while taken := source.take(number):
            if not isinstance(rest, PrebuiltLines):
                yield from make_events(taken)
                continue
            count = int(np.searchsorted(rest.completed_by, taken[-1][0], "right"))
            yield from make_events(taken, rest.part(0, count))
            rest = rest.part(count, len(rest.lines))
        if not isinstance(rest, PrebuiltLines) or rest.lines:
            yield rest
    while taken := source.take(None):
        yield from make_events(taken)


def _make_events(
    filtered: FilteredReader,
    formatter: LineFormatter,
    taken: Sequence[tuple[int, Outcome]],
    lines: PrebuiltLines | None = None,
) -> Iterator[FilteredOutcome]:
    """What becomes of outcomes of the streaming pipeline, and of lines of clean flows among them."""
    numbers: list[int] = []
    exchanges: list[Exchange] = []
    complete = filtered.reader.deferred_decoder.complete
    for number, outcome in taken:
        if not isinstance(outcome, Exchange):
            yield outcome
        elif _is_line(outcome, filtered.after):
            numbers.append(number)
            exchanges.append(outcome)
        else:
            yield complete(outcome)
    parts = [] if lines is None else [lines]
    if exchanges:
        completed_by = np.array(numbers, dtype=np.int64)
        rows, others = decode_deferred(exchanges, completed_by, filtered.reader.header_columns, formatter.columns)
        yield from map(complete, others)
        parts.append(_format_lines(formatter, rows))
    merged = merge_lines(parts) if parts else None
    if merged is not None and merged.lines:
        yield merged


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


class _StreamedSource:
    """Takes the outcomes of the streaming pipeline, as many as can be lines together."""

    def __init__(self, outcomes: StreamedSessions, after: int) -> None:
        self._outcomes = outcomes
        self._after = after
        self._next = next(outcomes, None)

    def take(self, before: int | None) -> list[tuple[int, Outcome]]:
        """The next outcomes before a packet, or any, with their sessions."""
        taken: list[tuple[int, Outcome]] = []
        other_count = size = 0
        while self._next is not None and (before is None or self._next[0] < before):
            number, outcome = self._next
            self._outcomes.follow(outcome)
            taken.append((number, outcome))
            other_count += not _is_line(outcome, self._after)
            size += outcome_size(outcome)
            self._next = next(self._outcomes, None)
            if len(taken) >= _COUNT_MAX or other_count >= _OTHERS_MAX or size >= _SIZE_MAX:
                break
        return taken


def _is_line(outcome: Outcome, after: int) -> bool:
    """Whether an outcome may become a line: a deferred exchange of the usual kind, from behind packet `after`."""
    if not isinstance(outcome, Exchange) or not is_deferred(outcome):
        return False
    flow, request = outcome.flow, outcome.request
    return flow.epoch == 0 and not flow.is_tls and request is not None and request.frame.packet > after


def _split_rows(rows: Ints, exchanges: ExchangeColumns, is_line: Bools) -> Iterator[Ints]:
    """The rows in parts within the limits; an exchange above the limit is a part of its own."""
    request, response = exchanges.request.frame.size[rows], exchanges.response.frame.size[rows]
    cost = (
        (np.maximum(request, 0) + np.maximum(response, 0)) / _SIZE_MAX + 1 / _COUNT_MAX + ~is_line[rows] / _OTHERS_MAX
    )
    # Outcomes of the streaming pipeline between them wait for these.
    cost[1:] += np.diff(exchanges.completed_by[rows]) / _PACKETS_MAX
    part = np.cumsum(cost).astype(np.int64)
    return iter(np.split(rows, np.nonzero(np.diff(part))[0] + 1)) if len(rows) else iter(())
