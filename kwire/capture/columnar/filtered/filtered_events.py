"""Read the outcomes that match conditions, in the order of completion, with what is no exchange between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar.filtered.filtered_lines import OTHERS_MAX
from kwire.capture.rows.reorder_buffer import NamesLearned, PartEnded, PrebuiltLines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kwire.capture.columnar.filtered.filtered_reader import FilteredOutcome, FilteredReader, Output
    from kwire.capture.columnar.filtered.name_learning import NameLearning
    from kwire.capture.kafka.exchange import Outcome


def read_filtered(
    filtered: FilteredReader, make_output: Callable[[Mapping[str, str]], Output], learning: NameLearning | None = None
) -> Iterator[FilteredOutcome | NamesLearned | PartEnded]:
    """The outcomes in the order of completion; lines are divided where too many outcomes belong between them.

    Args: make_output: is given the names of topics by id. learning: learns these from a stream; None if the options
        have the names of all topics.
    """
    reader = filtered.reader
    output = make_output(reader.options.topics)
    for number, exchanges in reader.read_parts():
        others = _PendingOutcomes(reader.numbered_outcomes(number, issues=True))
        for piece in (exchanges,) if learning is None else learning.divide(exchanges):
            if piece is None:
                names = reader.options.topics if learning is None else learning.names.names_by_id()
                output = make_output(names)
                yield NamesLearned(names)
            else:
                yield from _insert_others(filtered.read_part(number, piece, output), others)
        while taken := others.take(None):
            yield from taken
        if reader.index.is_stream:
            yield PartEnded()


def _insert_others(
    events: Iterator[tuple[int, FilteredOutcome]], others: _PendingOutcomes
) -> Iterator[FilteredOutcome]:
    """The events, each with its packet, with the other outcomes before them."""
    for packet, event in events:
        rest = event
        while taken := others.take(packet):
            yield from taken
            if isinstance(rest, PrebuiltLines):
                count = int(np.searchsorted(rest.completed_by, others.reached, "right"))
                if count:
                    yield rest.part(0, count)
                rest = rest.part(count, len(rest.lines))
        if not isinstance(rest, PrebuiltLines) or rest.lines:
            yield rest


class _PendingOutcomes:
    """Takes outcomes that are no exchanges, as many as may come between lines. reached: the packet of the last one."""

    def __init__(self, outcomes: Iterator[tuple[int, Outcome]]) -> None:
        self._outcomes = outcomes
        self._next = next(outcomes, None)
        self.reached = 0

    def take(self, before: int | None) -> list[Outcome]:
        """The next outcomes before a packet, or any."""
        taken: list[Outcome] = []
        while self._next is not None and (before is None or self._next[0] < before) and len(taken) < OTHERS_MAX:
            self.reached, outcome = self._next
            taken.append(outcome)
            self._next = next(self._outcomes, None)
        return taken
