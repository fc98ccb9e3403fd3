"""Which exchanges ``kwire decode`` shows, and what it counts of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kwire.capture import facts
from kwire.capture.exchange import Exchange, Outcome
from kwire.capture.levels import api_keys
from kwire.capture.options import Options
from kwire.capture.pipeline import is_asked_for
from kwire.capture.rows import OK, UNDECODABLE, Row, status_of
from kwire.capture.values import Foreign, Trouble
from kwire.capture.watching import Ended

if TYPE_CHECKING:
    from kwire.capture.lane.chosen import Condition
    from kwire.capture.where.where import Where

# Columns that say of a row of any level what they say of its message.
_OF_EVERY_LEVEL = frozenset(
    {
        "api_key",
        "api_name",
        "api_version",
        "client_id",
        "conn_id",
        "correlation_id",
        "group_id",
        "req_packet",
        "resp_packet",
        "stream_epoch",
    }
)


class Filter:
    """All conditions must hold; one of the values of each. `where` is the condition on rows, None for all."""

    def __init__(
        self,
        options: Options,
        *,
        client_ids: Collection[str] = (),
        only_errors: bool = False,
        statuses: Collection[str] = (),
        where: Where | None = None,
    ) -> None:
        """Empty collections let everything pass."""
        self._options = options
        self._client_ids = frozenset(client_ids)
        self._only_errors = only_errors
        self._statuses = frozenset(statuses)
        self.where = where
        self.shown = 0
        self.errors = 0

    def passes(self, outcome: Outcome) -> bool:
        """Whether the outcome may be shown."""
        if not is_asked_for(outcome, self._options):
            return False
        if self._statuses and status_of(outcome) not in self._statuses:
            return False
        if not (self._client_ids or self._only_errors):
            return True
        if not isinstance(outcome, Exchange):
            return False
        request, response = outcome.request, outcome.response
        if self._client_ids and (request is None or request.client_id not in self._client_ids):
            return False
        body = None if response is None else response.body
        return not self._only_errors or (body is not None and facts.error_code(body) != 0)

    def passes_row(self, row: Row) -> bool:
        """Whether a row of an outcome that passes is shown; counts those that are."""
        if self.where is not None and not self.where.passes(row):
            return False
        self.shown += 1
        self.errors += bool(row.get("error_code"))
        return True

    def conditions(self, level: str) -> list[Condition]:
        """What the columns of messages tell of it, of any level's rows; all of it must hold."""
        from kwire.capture.lane.chosen import COLUMNS, Condition

        options, clients, statuses = self._options, self._client_ids, self._statuses
        found = []
        if options.apis:
            found.append(Condition(frozenset({"api_name"}), lambda row: row["api_name"] in options.apis))
        made_of = api_keys(level, options.edition)
        if made_of is not None:
            found.append(Condition(frozenset({"api_key"}), lambda row: row["api_key"] in made_of))
        if clients:
            found.append(Condition(frozenset({"client_id"}), lambda row: row["client_id"] in clients))
        if statuses:
            found.append(Condition(frozenset({"status"}), lambda row: row["status"] in statuses))
        if self._only_errors:
            found.append(Condition(frozenset({"error_code"}), lambda row: bool(row["error_code"])))
        known = COLUMNS if level == "messages" else _OF_EVERY_LEVEL
        if self.where is not None:
            parts = [(asked, partial(self.where.part_passes, number)) for number, asked in self.where.parts()]
            found += [Condition(asked, holds) for asked, holds in parts if asked <= known]
        return found

    def text(self) -> str:
        """How many rows were shown, for a person."""
        errors = f", {self.errors} with an error" if self.errors else ""
        return f"{self.shown} {'row' if self.shown == 1 else 'rows'} shown{errors}"


class Tally:
    """What the whole file held, shown or not."""

    def __init__(self) -> None:
        self.exchanges = 0
        self._statuses: Counter[str] = Counter()
        self._tls = 0
        self._others = 0
        self._troubles: list[str] = []

    def count(self, outcome: Outcome) -> None:
        """Count what was found."""
        if isinstance(outcome, Exchange):
            self.exchanges += 1
            self._statuses[status_of(outcome)] += 1
        elif isinstance(outcome, Foreign):
            self._tls += outcome.kind == "tls"
            self._others += outcome.kind != "tls"
        elif isinstance(outcome, Trouble):
            self._troubles.append(outcome.detail)
        elif isinstance(outcome, Ended):
            self.exchanges += outcome.flow.kind == "kafka"

    def count_good(self, count: int) -> None:
        """Count so many exchanges that are good."""
        self.exchanges += count
        self._statuses[OK] += count

    @property
    def found_wrong(self) -> bool:
        """Whether the file holds no Kafka, or Kafka that cannot be decoded."""
        return not self.exchanges or self._statuses[UNDECODABLE] > 0

    def text(self) -> str:
        """What was read, for a person."""
        odd = [f"{count} {status}" for status, count in self._statuses.items() if status != OK]
        whole = f"{self.exchanges} {'exchange' if self.exchanges == 1 else 'exchanges'}"
        return whole + (f" ({', '.join(odd)})" if odd else "")

    def notes(self) -> Iterator[str]:
        """What a reader of the file should know beside the rows."""
        yield from self._troubles
        if self._tls:
            yield (
                "1 connection speaks TLS and cannot be read (see --tls-keylog)"
                if self._tls == 1
                else (f"{self._tls} connections speak TLS and cannot be read (see --tls-keylog)")
            )
        if self._others:
            yield "1 connection is not Kafka" if self._others == 1 else f"{self._others} connections are not Kafka"
        if not self.exchanges:
            yield "no Kafka request found"
