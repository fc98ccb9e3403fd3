"""The rows of ``messages`` that ``kwire decode`` shows, made only where a filter may want them."""

from __future__ import annotations

from dataclasses import replace

from kwire.capture.exchange import Exchange, Outcome
from kwire.capture.message_topics import topics_of
from kwire.capture.options import Options
from kwire.capture.pipeline import learn
from kwire.capture.rows import MessageRows, Row
from kwire.capture.topic_names import TopicNames
from kwire.capture.where.fields import TOPICS
from kwire.cli import decode_heads
from kwire.cli.decode_filter import Filter

#: The columns that cost most.
BODIES = frozenset({"body_request", "body_response"})


class Messages:
    """The rows of `messages` that are chosen; what a filter asks beyond its columns is added to them."""

    def __init__(self, file: str, options: Options, chosen: Filter, *, bodies: bool = False) -> None:
        """`bodies`: whether rows have them as JSON; a filter that reads them has its own way."""
        asked = chosen.where.columns if chosen.where is not None else frozenset[str]()
        bodies = bodies or not asked.isdisjoint(BODIES)
        self.names = TopicNames(options.topics)
        self._rows = MessageRows(file, replace(options, bodies=bodies), self.names)
        self._asks_topics = TOPICS in asked
        self._chosen = chosen
        self._necessary = chosen.where.necessary(decode_heads.COLUMNS) if chosen.where is not None else None

    def row(self, outcome: Outcome) -> Row | None:
        """The row of an outcome, if it is chosen. Every outcome must come here, since any may tell a topic's name."""
        if self._is_unwanted(outcome):
            learn(self.names, outcome)
            return None
        row = self._rows.rows(outcome)[0]
        if self._asks_topics:
            row[TOPICS] = topics_of(outcome, self.names)
        return row if self._chosen.passes_row(row) else None

    def _is_unwanted(self, outcome: Outcome) -> bool:
        """Whether it is clear without a row that there shall be none."""
        if not self._chosen.passes(outcome):
            return True
        necessary = self._necessary
        return necessary is not None and isinstance(outcome, Exchange) and not necessary(decode_heads.head(outcome))
