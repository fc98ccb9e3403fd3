"""The rows of level ``messages`` in ``kwire decode``, built only for outcomes that may pass the filter."""

from __future__ import annotations

from dataclasses import replace

from kwire.capture.display_filter.fields import TOPICS
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.kafka.message_topics import outcome_topic_names
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.kafka.topic_naming import learn_topic_names
from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import message_columns
from kwire.capture.rows.message_rows import MessageRowBuilder
from kwire.cli.decode import header_row
from kwire.cli.decode.row_filter import RowFilter

#: The most expensive columns.
BODY_COLUMNS = message_columns(Phase.JSON)


class MessageRows:
    """Builds the rows of `messages` that pass the filter, with the topics if the filter uses them."""

    def __init__(self, file: str, options: Options, row_filter: RowFilter, *, bodies: bool = False) -> None:
        """`bodies`: whether rows have bodies as JSON; a filter on bodies enables them too."""
        bodies = bodies or not row_filter.columns.isdisjoint(BODY_COLUMNS)
        self.names = TopicNames(options.topics)
        self._rows = MessageRowBuilder(file, replace(options, bodies=bodies), self.names)
        self._needs_topics = TOPICS in row_filter.columns
        self._row_filter = row_filter
        self._edition = options.edition
        display_filter = row_filter.display_filter
        self._necessary = None if display_filter is None else display_filter.test_for_columns(header_row.COLUMNS)

    def row(self, outcome: Outcome) -> Row | None:
        """The row of an outcome that passes. Must be called for every outcome, because any may contain topic names."""
        if self._is_excluded(outcome):
            learn_topic_names(outcome, self.names, self._edition)
            return None
        row = self._rows.build_rows(outcome)[0]
        if self._needs_topics:
            row[TOPICS] = outcome_topic_names(outcome, self.names)
        return row if self._row_filter.passes_row(row) else None

    def _is_excluded(self, outcome: Outcome) -> bool:
        """Whether the outcome cannot pass, decided without building its row."""
        if not self._row_filter.passes(outcome):
            return True
        if self._necessary is None or not isinstance(outcome, Exchange):
            return False
        return not self._necessary(header_row.build_header_row(outcome))
