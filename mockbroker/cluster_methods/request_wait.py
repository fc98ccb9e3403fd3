"""What a test waits for in the history: a number of requests that match filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mockbroker.journal.history_report import describe_kind
from mockbroker.journal.request_history import RequestHistory, Snapshot
from mockbroker.journal.response_conditions import answered_condition, error_condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from mockbroker.journal import Exchange
    from mockbroker.server import Server


class RequestWait:
    """Waits for a number of requests, those before the wait included.

    answered: with their responses. error: of the responses. Each request is looked at when it arrives, and one that
    does not match when it is answered: its response may name the topic.
    Raises: ValueError for an unknown API, an unknown error, or filters that cannot match; TypeError for other filters.
    """

    def __init__(
        self,
        server: Server,
        api: str | type[msgspec.Struct] | None,
        filters: Mapping[str, object],
        *,
        count: int,
        answered: bool,
        error: str | int | None,
    ) -> None:
        if count < 1:
            raise ValueError(f"count={count}; expected at least one")
        self._question = RequestHistory.filtered(Snapshot.from_journal(server.core.journal), api, filters)
        conditions = list(self._question.conditions)
        conditions += [error_condition(error)] if error is not None else [answered_condition()] if answered else []
        self._conditions = conditions
        self._count = count
        self._matched = 0
        self._last_number = 0
        self._undecided: list[Exchange] = []

    def check(self, server: Server) -> RequestHistory[Any, Any] | None:
        """The requests, once there are enough."""
        journal = server.core.journal
        later = journal.exchanges_after(self._last_number)
        self._last_number = journal.last_number
        candidates = [e for e in self._undecided if e.answered_ms is not None or e.closed is not None]
        self._undecided = [e for e in self._undecided if e.answered_ms is None and e.closed is None]
        for exchange in [*candidates, *(e for e in later if self._question.api in (None, e.api_name))]:
            if all(condition.matches(exchange) for condition in self._conditions):
                self._matched += 1
            elif exchange.answered_ms is None and exchange.closed is None:
                self._undecided.append(exchange)
        return self._history(server) if self._matched >= self._count else None

    def expected(self) -> str:
        """The question, with the number."""
        return describe_kind(self._question.api, self._conditions, count=self._count)

    def seen(self, server: Server) -> str:
        """The number of matching requests, and the nearest others."""
        return f"{self._matched}; {self._history(server).describe_misses()}"

    def _history(self, server: Server) -> RequestHistory[Any, Any]:
        return RequestHistory(Snapshot.from_journal(server.core.journal), self._question.api, self._conditions)
