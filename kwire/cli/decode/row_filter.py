"""The row filter of ``kwire decode``, and counts of all exchanges of an input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kwire.capture.display_filter.exchange_filter import is_selected
from kwire.capture.kafka import message_fields
from kwire.capture.kafka.exchange import Exchange, Outcome, TrafficRow
from kwire.capture.model import CaptureIssue, NonKafkaConnection, Row
from kwire.capture.options import Options
from kwire.capture.rows.columns import MESSAGE_KEY
from kwire.capture.rows.levels import api_keys_of_level
from kwire.capture.rows.message_rows import OK, STATUSES, UNDECODABLE, outcome_status

if TYPE_CHECKING:
    from kwire.capture.columnar.filtered.column_conditions import ColumnCondition
    from kwire.capture.display_filter.display_filter import DisplayFilter
    from kwire.capture.rows.reorder_buffer import PrebuiltLines

# Columns that have the same value in a row of any level and in its message.
_COMMON_COLUMNS = frozenset({*(column.name for column in MESSAGE_KEY), "group_id"} - {"file"})


class RowFilter:
    """Conditions that must all hold, each by one of its values.

    `display_filter`: on rows, None without; `columns`: those that it uses.
    """

    def __init__(
        self,
        options: Options,
        *,
        client_ids: Collection[str] = (),
        only_errors: bool = False,
        statuses: Collection[str] = (),
        display_filter: DisplayFilter | None = None,
    ) -> None:
        """Empty collections are no condition."""
        self._options = options
        self._client_ids = frozenset(client_ids)
        self._only_errors = only_errors
        self._statuses = frozenset(statuses)
        self.display_filter = display_filter
        self.columns = frozenset[str]() if display_filter is None else display_filter.columns
        self.shown = 0
        self.errors = 0

    def passes(self, outcome: Outcome) -> bool:
        """Whether the outcome passes all conditions but the display filter."""
        if not is_selected(outcome, self._options):
            return False
        if self._statuses and outcome_status(outcome) not in self._statuses:
            return False
        if not (self._client_ids or self._only_errors):
            return True
        if not isinstance(outcome, Exchange):
            return False
        request, response = outcome.request, outcome.response
        if self._client_ids and (request is None or request.client_id not in self._client_ids):
            return False
        body = None if response is None else response.body
        return not self._only_errors or (body is not None and message_fields.first_error_code(body) != 0)

    def passes_row(self, row: Row) -> bool:
        """Whether a row of an outcome that passes is shown; counts the shown rows."""
        if self.display_filter is not None and not self.display_filter.matches(row):
            return False
        self.shown += 1
        self.errors += bool(row.get("error_code"))
        return True

    @property
    def is_decided_by_columns(self) -> bool:
        """Whether `conditions` decide for each complete exchange of the level `messages` whether it is shown."""
        from kwire.capture.columnar import COLUMNS

        return self.display_filter is None or all(columns <= COLUMNS for _, columns in self.display_filter.parts())

    def count_lines(self, lines: PrebuiltLines) -> None:
        """Count rows that are shown as lines."""
        self.shown += len(lines.lines)
        self.errors += int(lines.has_error.sum())

    def conditions(self, level: str) -> list[ColumnCondition]:
        """The conditions on columns of messages, for rows of any level; all must hold."""
        from kwire.capture.columnar import COLUMNS
        from kwire.capture.columnar.filtered.column_conditions import ColumnCondition

        options, clients, statuses = self._options, self._client_ids, self._statuses
        conditions = []
        if options.apis:
            conditions.append(ColumnCondition(frozenset({"api_name"}), lambda row: row["api_name"] in options.apis))
        level_api_keys = api_keys_of_level(level, options.edition)
        if level_api_keys is not None:
            conditions.append(ColumnCondition(frozenset({"api_key"}), lambda row: row["api_key"] in level_api_keys))
        if clients:
            conditions.append(ColumnCondition(frozenset({"client_id"}), lambda row: row["client_id"] in clients))
        if statuses:
            conditions.append(ColumnCondition(frozenset({"status"}), lambda row: row["status"] in statuses))
        if self._only_errors:
            conditions.append(ColumnCondition(frozenset({"error_code"}), lambda row: bool(row["error_code"])))
        known = COLUMNS if level == "messages" else _COMMON_COLUMNS
        if self.display_filter is not None:
            for number, columns in self.display_filter.parts():
                if columns <= known:
                    conditions.append(ColumnCondition(columns, partial(self.display_filter.part_matches, number)))
        return conditions

    def text(self) -> str:
        """The number of shown rows, as text."""
        errors = f", {self.errors} with an error" if self.errors else ""
        return f"{self.shown} {'row' if self.shown == 1 else 'rows'} shown{errors}"


class InputCounts:
    """Counts of a whole input, of shown and other exchanges."""

    def __init__(self) -> None:
        self.exchanges = 0
        self._statuses: Counter[str] = Counter()
        self._tls = 0
        self._others = 0
        self._issues: list[str] = []

    def count(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if isinstance(outcome, Exchange):
            self.exchanges += 1
            self._statuses[outcome_status(outcome)] += 1
        elif isinstance(outcome, NonKafkaConnection):
            self._tls += outcome.kind == "tls"
            self._others += outcome.kind != "tls"
        elif isinstance(outcome, CaptureIssue):
            self._issues.append(outcome.detail)
        elif isinstance(outcome, TrafficRow):
            self.exchanges += outcome.row.get("kind") == "kafka"

    def count_complete(self, count: int) -> None:
        """Count `count` complete exchanges."""
        self.exchanges += count
        self._statuses[OK] += count

    def count_lines(self, lines: PrebuiltLines) -> None:
        """Count exchanges that are shown as lines."""
        self.exchanges += len(lines.lines)
        for number, count in Counter(lines.status.tolist()).items():
            self._statuses[STATUSES[number]] += count

    @property
    def has_problems(self) -> bool:
        """Whether the input has no Kafka, or Kafka that cannot be decoded."""
        return not self.exchanges or self._statuses[UNDECODABLE] > 0

    def text(self) -> str:
        """The number of exchanges, as text."""
        incomplete = [f"{count} {status}" for status, count in self._statuses.items() if status != OK]
        total = f"{self.exchanges} {'exchange' if self.exchanges == 1 else 'exchanges'}"
        return total + (f" ({', '.join(incomplete)})" if incomplete else "")

    def notes(self) -> Iterator[str]:
        """Notes for the user in addition to the rows."""
        yield from self._issues
        if self._tls:
            connections = "1 connection uses" if self._tls == 1 else f"{self._tls} connections use"
            yield f"{connections} TLS and cannot be read (see --tls-keylog)"
        if self._others:
            yield "1 connection is not Kafka" if self._others == 1 else f"{self._others} connections are not Kafka"
        if not self.exchanges:
            yield "no Kafka request found"
