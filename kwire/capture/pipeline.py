"""From outcomes to the rows of one level, in the order of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.display_filter.exchange_filter import is_selected, matches_row
from kwire.capture.kafka.exchange import Exchange, Outcome, TrafficRow
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.kafka.topic_naming import learn_topic_names
from kwire.capture.merged_issues import MergedIssues
from kwire.capture.model import CaptureIssue, Row
from kwire.capture.rows.columns import level_columns
from kwire.capture.rows.levels import LevelRowBuilder
from kwire.capture.rows.message_rows import MessageRowBuilder
from kwire.capture.rows.reorder_buffer import ReorderBuffer, outcome_size, row_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kwire.capture.options import Options


def merge_issues(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes, with capture issues merged at the end, as `MergedIssues` does."""
    issues = MergedIssues()
    for outcome in outcomes:
        if isinstance(outcome, CaptureIssue):
            issues.add(outcome.packet, outcome)
        else:
            yield outcome
    for _, first in issues.numbered:
        times = "" if first.packets == 1 else f", {first.packets} times"
        suffix = "" if not first.packet or first.kind.startswith("file_") else f" (packet {first.packet}{times})"
        yield first._replace(detail=first.detail + suffix)


def make_row_builder(
    level: str, file: str, options: Options, names: TopicNames | None = None
) -> Callable[[Outcome], list[Row]]:
    """A function that builds the rows of each outcome of one capture; none for outcomes that the options exclude.

    Args: names: topic names of previous captures.
    Raises: ValueError for an unknown level.
    """
    level_columns(level)
    names = names or TopicNames(options.topics)
    message_builder, level_builder = MessageRowBuilder(file, options, names), LevelRowBuilder(file, options, names)

    def build_rows(outcome: Outcome) -> list[Row]:
        """The rows of one outcome."""
        if isinstance(outcome, TrafficRow):
            return [outcome.row | {"file": file}] if outcome.level == level else []
        if not is_selected(outcome, options):
            # Excluded exchanges may name topics, too.
            learn_topic_names(outcome, names, options.edition)
            return []
        if level == "messages":
            rows = message_builder.build_rows(outcome)
            exchange_filter = options.exchange_filter
            if exchange_filter is None:
                return rows
            return [row for row in rows if matches_row(exchange_filter, row, outcome, names)]
        return list(level_builder.build_rows(level, outcome)) if isinstance(outcome, Exchange) else []

    return build_rows


def order_outcomes(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """The outcomes in the order of their times, as `order_rows` has their rows."""
    buffer = ReorderBuffer[Outcome]()
    for outcome in outcomes:
        yield from buffer.push(outcome, (outcome,), outcome_size(outcome))
    while (ordered_outcomes := buffer.pop()) is not None:
        yield from ordered_outcomes


def order_rows(outcomes: Iterable[Outcome], build_rows: Callable[[Outcome], list[Row]]) -> Iterator[Row]:
    """The rows of each outcome, in the order of their times within a window of outcomes and bytes.

    Rows are built at once, so that frames are not buffered.
    """
    buffer = ReorderBuffer[Row]()
    for outcome in outcomes:
        rows = build_rows(outcome)
        yield from buffer.push(outcome, rows, sum(map(row_size, rows)))
    while (ordered_rows := buffer.pop()) is not None:
        yield from ordered_rows
