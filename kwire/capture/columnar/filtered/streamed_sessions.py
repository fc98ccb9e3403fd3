"""Track fetch sessions over exchanges of clean flows and those of the streaming pipeline, in order of completion."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.columnar.session_columns import STATELESS, find_stateless_fetches, session_exchanges
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.session_tracker import SESSION_API_KEYS, SessionTracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.capture.columnar.exchange_builder import ExchangeBuilder
    from kwire.capture.columnar.session_columns import FetchBodies
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.message_columns import ExchangeColumns
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.kafka.fetch_sessions import FetchSession
    from kwire.capture.kafka.session_tracker import SessionExchange

# Above every packet number.
_NO_MORE = 1 << 63
# This many exchanges are read at once.
_SLICE_SIZE = 2048


class StreamedSessions:
    """The outcomes of the streaming pipeline with the numbers of their packets; `session` of each is set in time."""

    def __init__(
        self,
        outcomes: Iterator[tuple[int, Outcome]],
        follow: Callable[[SessionTracker, Exchange], FetchSession | None],
        *,
        is_tracked: bool,
    ) -> None:
        """Args: outcomes: in the order of completion. follow: tracks one of their exchanges, if that is wanted."""
        self.is_tracked = is_tracked
        self._sessions = SessionTracker()
        self._follow = follow
        self._outcomes = outcomes
        self._taken: deque[tuple[int, Outcome]] = deque()
        self._untracked: deque[tuple[int, Exchange]] = deque()
        self._last_number = -1

    def __iter__(self) -> Iterator[tuple[int, Outcome]]:
        return self

    def __next__(self) -> tuple[int, Outcome]:
        if self._taken:
            return self._taken.popleft()
        return self._take_next()

    def follow(self, outcome: object) -> None:
        """Set the session of an exchange that is returned now, unless it has been set."""
        if self._untracked and self._untracked[0][1] is outcome:
            self._track_first()

    def follow_columnar(self, exchange: Exchange | SessionExchange, completed_by: int) -> FetchSession | None:
        """The session of an exchange of a clean flow, after those of the pipeline that were complete before."""
        while self._last_number < completed_by:
            try:
                self._taken.append(self._take_next())
            except StopIteration:
                self._last_number = _NO_MORE
        while self._untracked and self._untracked[0][0] < completed_by:
            self._track_first()
        if isinstance(exchange, Exchange):
            return self._sessions.follow(exchange)
        return self._sessions.follow_request(exchange)

    def _take_next(self) -> tuple[int, Outcome]:
        number, outcome = next(self._outcomes)
        self._last_number = number
        if self.is_tracked and isinstance(outcome, Exchange):
            self._untracked.append((number, outcome))
        return number, outcome

    def _track_first(self) -> None:
        _, exchange = self._untracked.popleft()
        exchange.session = self._follow(self._sessions, exchange)


class PartSessions:
    """The sessions of the fetches of a part, tracked as far as they are needed."""

    def __init__(
        self,
        sessions: StreamedSessions,
        builder: ExchangeBuilder,
        exchanges: ExchangeColumns,
        bodies: FetchBodies,
    ) -> None:
        """For the exchanges of a part."""
        self._sessions = sessions
        fetches: Ints = np.nonzero(np.isin(exchanges.request.api_key, SESSION_API_KEYS) & ~bodies.is_cut)[0]
        is_stateless = find_stateless_fetches(exchanges, fetches, bodies)
        self._values: dict[int, FetchSession | None] = dict.fromkeys(fetches[is_stateless].tolist(), STATELESS)
        self._found = self._read_exchanges(builder, exchanges, fetches[~is_stateless], bodies)
        self._reached = -1

    def get(self, row: int) -> FetchSession | None:
        """The session of a row; None for one without."""
        while self._reached < row and row not in self._values and self._track_next():
            pass
        return self._values.get(row)

    def follow_rest(self) -> None:
        """Track the fetches that are left."""
        while self._track_next():
            pass

    def _track_next(self) -> bool:
        found = next(self._found, None)
        if found is None:
            return False
        self._reached, completed_by, exchange = found
        self._values[self._reached] = self._sessions.follow_columnar(exchange, completed_by)
        return True

    def _read_exchanges(
        self, builder: ExchangeBuilder, exchanges: ExchangeColumns, fetches: Ints, bodies: FetchBodies
    ) -> Iterator[tuple[int, int, Exchange | SessionExchange]]:
        for at in range(0, len(fetches), _SLICE_SIZE):
            rows = fetches[at : at + _SLICE_SIZE]
            found = session_exchanges(builder, exchanges, rows, bodies)
            yield from zip(rows.tolist(), exchanges.completed_by[rows].tolist(), found, strict=True)
